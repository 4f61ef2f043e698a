//! Gateways of a hub and a device on loopback, and clients of them.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a hanging test, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A hub and a device.
pub struct Gateways {
    pub hub: Gateway,
    pub device: Gateway,
    pub folder: PathBuf,
}

/// A gateway and its MQTT port.
pub struct Gateway {
    pub process: Child,
    pub port: String,
    pub arguments: Vec<String>,
}

impl Drop for Gateways {
    fn drop(&mut self) {
        for gateway in [&mut self.hub, &mut self.device] {
            let _ = gateway.process.kill();
            let _ = gateway.process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn free_udp() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Starts a gateway with a free MQTT port, and waits until clients can connect.
pub fn gateway(arguments: &[&str]) -> Gateway {
    let mqtt = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mqtt = mqtt.to_string();
    let arguments = arguments.iter().copied().chain(["--mqtt", &mqtt]);
    Gateway::start(arguments.map(str::to_owned).collect())
}

impl Gateway {
    pub fn start(arguments: Vec<String>) -> Self {
        Self::start_with(None, arguments)
    }

    /// Starts a gateway whose files cannot exceed this number of blocks of 512 bytes.
    pub fn start_with(file_limit: Option<u32>, arguments: Vec<String>) -> Self {
        let limit = file_limit.map_or("unlimited".to_owned(), |blocks| blocks.to_string());
        // Without the trap, the signal of the limit would end the gateway.
        let script = format!("trap '' XFSZ; ulimit -S -f {limit}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_director-gateway")]).args(&arguments);
        let process = command.spawn().unwrap();
        let mqtt = arguments.last().unwrap();
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(mqtt.as_str()).is_err() {
            assert!(Instant::now() < until, "the gateway does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        let port = mqtt.rsplit(':').next().unwrap().to_owned();
        Self { process, port, arguments }
    }
}

impl Gateways {
    /// Kills the hub's gateway (SIGKILL), and starts it again.
    pub fn restart_hub(&mut self) {
        self.restart_hub_with(None);
    }

    /// Kills the gateway of the device.
    pub fn kill_device(&mut self) {
        self.device.process.kill().unwrap();
        self.device.process.wait().unwrap();
    }

    /// The same of the hub's, with a limit of the size of files.
    pub fn restart_hub_with(&mut self, file_limit: Option<u32>) {
        // It may have ended.
        let _ = self.hub.process.kill();
        self.hub.process.wait().unwrap();
        self.hub = Gateway::start_with(file_limit, self.hub.arguments.clone());
    }
}

pub fn gateways(name: &str) -> Gateways {
    gateways_with(name, false)
}

/// Gateways, with a storage each or without.
pub fn gateways_with(name: &str, is_stored: bool) -> Gateways {
    let folder = std::env::temp_dir().join(format!("gateways-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let key = folder.join("key");
    std::fs::write(&key, "a key of all the gateways").unwrap();
    let (key, hub, device) = (key.to_str().unwrap(), free_udp(), free_udp());
    let storage = folder.join("storage");
    let mut of_hub = vec!["hub", "--key", key, "--local", &hub, &device];
    if is_stored {
        of_hub.extend(["--storage", storage.to_str().unwrap()]);
    }
    let at_hub = gateway(&of_hub);
    let mut of_device = vec!["device", "--key", key, "--local", &device, "--hub", &hub];
    let storage = folder.join("storage of the device");
    if is_stored {
        of_device.extend(["--storage", storage.to_str().unwrap()]);
    }
    let at_device = gateway(&of_device);
    Gateways { hub: at_hub, device: at_device, folder }
}

/// Whether a program is installed; says so if it is not.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--help").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

pub fn start(program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What a program has printed when it has ended.
pub fn ended(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

pub fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Subscribes with a session that is kept, so that no later message is missed.
pub fn registered(port: &str, version: &str, name: &str) {
    let until = Instant::now() + PATIENCE;
    let mut arguments =
        vec!["-p", port, "-V", version, "-i", name, "-c", "-E", "-q", "2", "-t", "a/#"];
    if version == "mqttv5" {
        arguments.extend(["-x", "600"]);
    }
    while !ended(start("mosquitto_sub", &arguments)).status.success() {
        assert!(Instant::now() < until, "{name} cannot subscribe");
    }
}

/// A client without a library: connects, and sends packets of QoS 1 at once.
pub fn raw(port: &str, packets: &[&[u8]]) -> TcpStream {
    use std::io::Write;
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let connect = [&[0x10, 12, 0, 4][..], b"MQTT", &[4, 2, 0, 0, 0, 0]].concat();
    client.write_all(&[&connect, &packets.concat()[..]].concat()).unwrap();
    let mut answer = [0; 4];
    std::io::Read::read_exact(&mut client, &mut answer).unwrap();
    assert_eq!(answer, [0x20, 2, 0, 0]);
    client
}

/// What a client gets next.
pub fn next<const N: usize>(client: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    std::io::Read::read_exact(client, &mut bytes).unwrap();
    bytes
}
