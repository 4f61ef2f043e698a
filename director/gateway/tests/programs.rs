//! Unmodified programs of MQTT 5 and 3.1.1 at gateways on loopback: Mosquitto's clients, and paho.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Timeout of a hanging test, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A hub and a device.
struct Gateways {
    hub: Gateway,
    device: Gateway,
    folder: PathBuf,
}

/// A gateway and its MQTT port.
struct Gateway {
    process: Child,
    port: String,
    arguments: Vec<String>,
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

fn free_udp() -> String {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Starts a gateway with a free MQTT port, and waits until clients can connect.
fn gateway(arguments: &[&str]) -> Gateway {
    let mqtt = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mqtt = mqtt.to_string();
    let arguments = arguments.iter().copied().chain(["--mqtt", &mqtt]);
    Gateway::start(arguments.map(str::to_owned).collect())
}

impl Gateway {
    fn start(arguments: Vec<String>) -> Self {
        Self::start_with(None, arguments)
    }

    /// Starts a gateway whose files cannot exceed this number of blocks of 512 bytes.
    fn start_with(file_limit: Option<u32>, arguments: Vec<String>) -> Self {
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
    fn restart_hub(&mut self) {
        self.restart_hub_with(None);
    }

    /// Kills the gateway of the device.
    fn kill_device(&mut self) {
        self.device.process.kill().unwrap();
        self.device.process.wait().unwrap();
    }

    /// The same of the hub's, with a limit of the size of files.
    fn restart_hub_with(&mut self, file_limit: Option<u32>) {
        // It may have ended.
        let _ = self.hub.process.kill();
        self.hub.process.wait().unwrap();
        self.hub = Gateway::start_with(file_limit, self.hub.arguments.clone());
    }
}

fn gateways(name: &str) -> Gateways {
    gateways_with(name, false)
}

/// Gateways, with a storage each or without.
fn gateways_with(name: &str, is_stored: bool) -> Gateways {
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
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--help").output().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn start(program: &str, arguments: &[&str]) -> Child {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What a program has printed when it has ended.
fn ended(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// Subscribes with a session that is kept, so that no later message is missed.
fn registered(port: &str, version: &str, name: &str) {
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

/// Topic, payload, content type, response topic, correlation data and user property.
const FORMAT: &str = "%t %p %C %R %D %P";

#[test]
fn mosquitto_clients_of_both_versions_exchange_messages() {
    if !has("mosquitto_sub") {
        return;
    }
    let gateways = gateways("mosquitto");
    let mut sinks = Vec::new();
    for (at, port) in [("hub", &gateways.hub.port), ("device", &gateways.device.port)] {
        for version in ["mqttv5", "mqttv311"] {
            let name = format!("{at}-{version}");
            registered(port, version, &name);
            let mut arguments = vec!["-p", port, "-V", version, "-i", &name, "-c", "-q", "2"];
            arguments.extend(["-t", "a/#", "-C", "2", "-W", "100", "-F", FORMAT]);
            if version == "mqttv5" {
                arguments.extend(["-x", "600"]);
            }
            sinks.push((name.clone(), version, start("mosquitto_sub", &arguments)));
        }
    }
    let new = "-V mqttv5 -q 2 -t a/new -m 17 -D publish content-type kWh -D publish response-topic r \
               -D publish correlation-data c7 -D publish user-property unit seven \
               -D publish message-expiry-interval 600";
    let old = "-V mqttv311 -q 1 -t a/old -m 18";
    for (port, words) in [(&gateways.device.port, new), (&gateways.hub.port, old)] {
        let arguments: Vec<&str> =
            ["-p", port].into_iter().chain(words.split_whitespace()).collect();
        let output = ended(start("mosquitto_pub", &arguments));
        assert!(output.status.success(), "{}", text(&output));
    }
    for (name, version, sink) in sinks {
        let output = text(&ended(sink));
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        let new = match version {
            "mqttv5" => "a/new 17 kWh r c7 unit:seven",
            _ => "a/new 17",
        };
        assert!(lines.contains(&new) && lines.contains(&"a/old 18"), "{name}: {output}");
    }
    // Shared subscriptions do not exist, and a client learns it: by 0x9E (158) in MQTT 5, before by 0x80.
    for (port, version, code) in [
        (&gateways.device.port, "mqttv5", 158),
        (&gateways.hub.port, "mqttv5", 158),
        (&gateways.device.port, "mqttv311", 128),
    ] {
        let shared = ["-d", "-p", port, "-V", version, "-t", "$share/g/a", "-W", "100"];
        let output = text(&ended(start("mosquitto_sub", &shared)));
        let expected = format!("Subscribed (mid: 1): {code}");
        assert!(output.contains(&expected) && output.contains("denied"), "{version}: {output}");
    }
    // The others of the same packet are granted, and the connection stays.
    let both =
        ["-d", "-p", &gateways.hub.port, "-V", "mqttv5", "-t", "$share/g/a", "-t", "b", "-E"];
    let output = text(&ended(start("mosquitto_sub", &both)));
    assert!(output.contains("158, 0"), "{output}");
}

/// A python3 that has paho: perhaps the system's, even if another one is first in PATH.
fn python_with_paho() -> Option<&'static str> {
    let all = ["python3", "/usr/bin/python3"];
    let found = all.into_iter().find(|python| {
        let output = Command::new(python).args(["-c", "import paho.mqtt.properties"]).output();
        output.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("skipped: paho-mqtt is not installed");
    }
    found
}

/// A program of MQTT 5 at each gateway: a request and its answer, options of subscriptions, and the
/// reasons for the end of a connection. Supports versions 1 and 2 of paho.
const PAHO: &str = r#"
import queue
import sys
import time
import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

kind = getattr(paho, 'CallbackAPIVersion', None)
hub, device = int(sys.argv[1]), int(sys.argv[2])


class Client:
    def __init__(self, port, name, protocol=paho.MQTTv5):
        first = (kind.VERSION1,) if kind else ()
        self.client = paho.Client(*first, client_id=name, protocol=protocol)
        self.events = queue.Queue()
        self.messages = queue.Queue()
        put = self.events.put
        self.client.on_connect = lambda c, u, flags, code, *rest: put(('connected', code, rest))
        self.client.on_disconnect = lambda c, u, code, *rest: put(('disconnected', code, rest))
        self.client.on_subscribe = lambda c, u, mid, codes, *rest: put(('subscribed', codes, rest))
        self.client.on_message = lambda c, u, message: self.messages.put(message)
        more = {}
        if protocol == paho.MQTTv5:
            more['clean_start'] = True
        self.client.connect('127.0.0.1', port, 60, **more)
        self.client.loop_start()
        self.connected = self.event('connected')

    def event(self, name):
        while True:
            event = self.events.get(timeout=60)
            if event[0] == name:
                return event

    def subscribe(self, topic, **options):
        self.client.subscribe(topic, options=SubscribeOptions(qos=1, **options))
        return [code.value for code in self.event('subscribed')[1]]

    def publish(self, topic, payload, retain=False, **properties):
        all = Properties(PacketTypes.PUBLISH)
        for name, value in properties.items():
            setattr(all, name, value)
        self.client.publish(topic, payload, 1, retain, all).wait_for_publish()

    def message(self):
        return self.messages.get(timeout=60)


server = Client(hub, 'server')
properties = server.connected[2][0].json()
print('shared', properties['SharedSubscriptionAvailable'])
print('aliases', properties['TopicAliasMaximum'] > 0)
print(server.subscribe('requests'), server.subscribe('$share/g/requests'))
client = Client(device, '')
print('name', 'AssignedClientIdentifier' in client.connected[2][0].json())
client.subscribe('answers/#', noLocal=True)
client.publish('requests', '17', ResponseTopic='answers/7', CorrelationData=b'\0\xff',
               UserProperty=[('a', '1'), ('a', '2')], ContentType='text/plain',
               PayloadFormatIndicator=1, MessageExpiryInterval=600)
request = server.message()
seen = request.properties
print(request.payload, seen.UserProperty, seen.ContentType, seen.PayloadFormatIndicator)
print('expires', 590 <= seen.MessageExpiryInterval <= 600)
server.publish(seen.ResponseTopic, '18', CorrelationData=seen.CorrelationData)
answer = client.message()
print(answer.topic, answer.payload, answer.properties.CorrelationData)

# The client's own message does not come back; the next one does.
client.publish('answers/own', 'own')
server.publish('answers/other', 'other', retain=True)
other = client.message()
print(other.topic, bool(other.retain))
late = Client(hub, 'late')
late.subscribe('answers/#', retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
late.subscribe('answers/+', retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
print('retained', bool(late.message().retain))

# An alias for a topic, by a packet of the program itself.
alias = Properties(PacketTypes.PUBLISH)
alias.TopicAlias = 1
client.client.publish('requests', 'first', 1, False, alias)
client.client.publish('', 'second', 1, False, alias)
print(server.message().payload, server.message().payload)

# Another connection with the same name: the first one learns why it ends.
again = Client(hub, 'late')
code, (properties,) = late.event('disconnected')[1:3]
print(code.value, properties.ReasonString)
"#;

const EXPECTED: &str = "shared 0
aliases True
[1] [158]
name True
b'17' [('a', '1'), ('a', '2')] text/plain 1
expires True
answers/7 b'18' b'\\x00\\xff'
answers/other False
retained True
b'first' b'second'
142 another connection uses this client identifier
";

#[test]
fn paho_of_mqtt_5() {
    let Some(python) = python_with_paho() else { return };
    let gateways = gateways("paho");
    let script = gateways.folder.join("client.py");
    std::fs::write(&script, PAHO).unwrap();
    let script = script.to_str().unwrap();
    // Version 2 warns of the callbacks of version 1.
    let ports = [&gateways.hub.port, &gateways.device.port];
    let output = ended(start(python, &["-W", "ignore", script, ports[0], ports[1]]));
    assert_eq!(text(&output), EXPECTED);
}

/// A client without a library: connects, and sends packets of QoS 1 at once.
fn raw(port: &str, packets: &[&[u8]]) -> TcpStream {
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
fn next<const N: usize>(client: &mut TcpStream) -> [u8; N] {
    let mut bytes = [0; N];
    std::io::Read::read_exact(client, &mut bytes).unwrap();
    bytes
}

/// The hub's gateway is killed at once after it has acknowledged retained messages of clients at a device
/// and at the hub.
#[test]
fn retained_messages_survive_a_kill_of_the_hub() {
    let mut gateways = gateways_with("stored", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    for (port, topic) in [(&device, b'a'), (&hub, b'b')] {
        // A message that another one replaces, and one that is removed.
        let old = [0x33, 6, 0, 1, topic, 0, 1, b'1'];
        let new = [0x33, 6, 0, 1, topic, 0, 2, b'2'];
        let (gone, removed) = ([0x33, 6, 0, 1, b'c', 0, 3, b'3'], [0x33, 5, 0, 1, b'c', 0, 4]);
        let mut client = raw(port, &[&old, &new, &gone, &removed]);
        let mut acknowledged: Vec<u8> = (0..4).map(|_| next::<4>(&mut client)[3]).collect();
        acknowledged.sort();
        assert_eq!(acknowledged, [1, 2, 3, 4]);
    }
    gateways.restart_hub();
    let subscribe = [0x82, 6, 0, 1, 0, 1, b'#', 0];
    for port in [hub, device] {
        let mut client = raw(&port, &[&subscribe]);
        assert_eq!(next(&mut client), [0x90, 3, 0, 1, 0]);
        for topic in [b'a', b'b'] {
            assert_eq!(next(&mut client), [0x31, 4, 0, 1, topic, b'2']);
        }
    }
}

/// A client that keeps its session; returns whether the gateway has it.
fn keeping(port: &str) -> (TcpStream, bool) {
    use std::io::Write;
    let mut client = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let connect = [&[0x10, 13, 0, 4][..], b"MQTT", &[4, 0, 0, 0, 0, 1, b'k']].concat();
    client.write_all(&connect).unwrap();
    let [kind, length, present, code] = next(&mut client);
    assert_eq!((kind, length, code), (0x20, 2, 0));
    (client, present == 1)
}

/// Both gateways are killed while messages of QoS 1 and 2 wait for their clients, one of them is on its way,
/// and further ones wait at the hub for the device.
#[test]
fn sessions_and_their_messages_survive_kills_of_both_gateways() {
    use std::io::Write;
    let mut gateways = gateways_with("sessions", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    for port in [&hub, &device] {
        let (mut client, is_present) = keeping(port);
        assert!(!is_present);
        client.write_all(&[0x82, 6, 0, 1, 0, 1, b'a', 2]).unwrap();
        assert_eq!(next(&mut client), [0x90, 3, 0, 1, 2]);
    }
    let one = [0x32, 6, 0, 1, b'a', 0, 1, b'1'];
    let two = [0x34, 6, 0, 1, b'a', 0, 2, b'2'];
    let mut source = raw(&hub, &[&one, &two]);
    let answers = [next::<4>(&mut source), next::<4>(&mut source)];
    assert_eq!(answers, [[0x40, 2, 0, 1], [0x50, 2, 0, 2]]);
    // Both are on their way to the client of the hub, which has the second one.
    let (mut client, _) = keeping(&hub);
    assert_eq!(next(&mut client), one);
    let id = next::<8>(&mut client)[6];
    assert_eq!(id, 2);
    client.write_all(&[0x50, 2, 0, id]).unwrap();
    assert_eq!(next(&mut client), [0x62, 2, 0, id]);
    // And to that of the device.
    let (mut client, _) = keeping(&device);
    assert_eq!(next::<16>(&mut client), [&one[..], &two].concat()[..]);
    drop(client);
    gateways.kill_device();
    // It waits at the hub.
    source.write_all(&[0x32, 6, 0, 1, b'a', 0, 3, b'3']).unwrap();
    assert_eq!(next::<4>(&mut source), [0x40, 2, 0, 3]);
    gateways.device = Gateway::start(gateways.device.arguments.clone());
    let (mut client, is_present) = keeping(&device);
    assert!(is_present);
    let again = [&[0x3a, 6, 0, 1, b'a', 0, 1, b'1'][..], &[0x3c, 6, 0, 1, b'a', 0, 2, b'2']];
    assert_eq!(next::<16>(&mut client), again.concat()[..]);
    assert_eq!(next(&mut client), [0x32, 6, 0, 1, b'a', 0, 3, b'3']);
    gateways.restart_hub();
    let (mut client, is_present) = keeping(&hub);
    assert!(is_present);
    assert_eq!(next(&mut client), [0x3a, 6, 0, 1, b'a', 0, 1, b'1']);
    assert_eq!(next(&mut client), [0x62, 2, 0, id], "the client has it");
    assert_eq!(next(&mut client), [0x3a, 6, 0, 1, b'a', 0, 3, b'3']);
}

/// A client that keeps its session reads messages of QoS 2 until one has this text; returns all that it has
/// got.
fn until_text(client: &mut TcpStream, last: u8) -> Vec<u8> {
    use std::io::Write;
    let (mut ids, mut texts) = (std::collections::BTreeSet::new(), Vec::new());
    while texts.last() != Some(&last) {
        let [kind, length] = next(client);
        match (kind & 0xf0, length) {
            (0x30, 6) => {
                let [.., id, text] = next::<6>(client);
                // One that is sent again, and not released, is no further one.
                if ids.insert(id) {
                    texts.push(text);
                }
                client.write_all(&[0x50, 2, 0, id]).unwrap();
            }
            (0x60, 2) => {
                let [_, id] = next(client);
                ids.remove(&id);
                client.write_all(&[0x70, 2, 0, id]).unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    texts
}

/// The gateways are killed in turn as soon as the hub's has acknowledged a message to a client of the device.
#[test]
fn each_message_to_a_device_arrives_once_over_kills_of_both_gateways() {
    use std::io::Write;
    let mut gateways = gateways_with("crash", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    let (mut client, _) = keeping(&device);
    client.write_all(&[0x82, 6, 0, 1, 0, 1, b'a', 2]).unwrap();
    assert_eq!(next(&mut client), [0x90, 3, 0, 1, 2]);
    drop(client);
    for text in b'a'..=b'h' {
        let mut source = raw(&hub, &[&[0x34, 6, 0, 1, b'a', 0, 7, text]]);
        assert_eq!(next(&mut source), [0x50, 2, 0, 7]);
        match text % 3 {
            0 => gateways.restart_hub(),
            1 => {
                gateways.kill_device();
                gateways.device = Gateway::start(gateways.device.arguments.clone());
            }
            // What waits for the device outlasts both.
            _ => {
                gateways.kill_device();
                gateways.restart_hub();
                gateways.device = Gateway::start(gateways.device.arguments.clone());
            }
        }
    }
    let mut source = raw(&hub, &[&[0x34, 6, 0, 1, b'a', 0, 7, b'z']]);
    assert_eq!(next(&mut source), [0x50, 2, 0, 7]);
    let (mut client, is_present) = keeping(&device);
    assert!(is_present);
    assert_eq!(String::from_utf8(until_text(&mut client, b'z')).unwrap(), "abcdefghz");
}

/// What failed before: a message of QoS 2 of a device that the hub's gateway had stored, and not acknowledged
/// when it was killed, arrived twice. The gateway is killed at any time after the messages were sent.
#[test]
fn each_message_of_a_device_arrives_once_over_kills_of_the_hub() {
    use std::io::Write;
    let mut gateways = gateways_with("crash-up", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    let (mut client, _) = keeping(&hub);
    client.write_all(&[0x82, 6, 0, 1, 0, 1, b'a', 2]).unwrap();
    assert_eq!(next(&mut client), [0x90, 3, 0, 1, 2]);
    drop(client);
    let mut source = raw(&device, &[]);
    for text in b'a'..=b'z' {
        let id = text - b'a' + 1;
        source.write_all(&[0x34, 6, 0, 1, b'a', 0, id, text]).unwrap();
        let log = gateways.folder.join("storage/sessions.log");
        let length = || std::fs::metadata(&log).map_or(0, |own| own.len());
        let before = length();
        if text % 2 == 0 {
            // As soon as it may be on the disk.
            let until = Instant::now() + Duration::from_millis(u64::from(text % 5) * 100);
            while length() == before && Instant::now() < until {
                std::hint::spin_loop();
            }
            gateways.restart_hub();
        }
        assert_eq!(next(&mut source), [0x50, 2, 0, id]);
        source.write_all(&[0x62, 2, 0, id]).unwrap();
        assert_eq!(next(&mut source), [0x70, 2, 0, id]);
    }
    let (mut client, is_present) = keeping(&hub);
    assert!(is_present);
    let all: String = ('a'..='z').collect();
    assert_eq!(String::from_utf8(until_text(&mut client, b'z')).unwrap(), all);
}

/// A client of the hub has a will, and the hub's gateway is killed: the will is published at its next start.
#[test]
fn a_will_of_a_client_of_the_hub_survives_a_kill_of_it() {
    use std::io::Write;
    let mut gateways = gateways_with("will", true);
    let (hub, device) = (gateways.hub.port.clone(), gateways.device.port.clone());
    let (mut client, _) = keeping(&device);
    client.write_all(&[0x82, 6, 0, 1, 0, 1, b'a', 2]).unwrap();
    assert_eq!(next(&mut client), [0x90, 3, 0, 1, 2]);
    let mut lost = TcpStream::connect(format!("127.0.0.1:{hub}")).unwrap();
    lost.set_read_timeout(Some(PATIENCE)).unwrap();
    // A will of QoS 2 with the topic `a`.
    let connect = [&[0x10, 18, 0, 4][..], b"MQTT", &[4, 0x16, 0, 0, 0, 0, 0, 1, b'a', 0, 1, b'w']];
    lost.write_all(&connect.concat()).unwrap();
    assert_eq!(next(&mut lost), [0x20, 2, 0, 0]);
    gateways.restart_hub();
    assert_eq!(until_text(&mut client, b'w'), b"w");
    // Once.
    gateways.restart_hub();
    let mut source = raw(&hub, &[&[0x34, 6, 0, 1, b'a', 0, 7, b'z']]);
    assert_eq!(next(&mut source), [0x50, 2, 0, 7]);
    assert_eq!(until_text(&mut client, b'z'), b"z");
}

/// The hub's gateway cannot write more than a few records for a while: it goes on, and acknowledges a
/// message when it is stored. What it has acknowledged is there after a restart.
#[test]
fn no_message_is_acknowledged_that_is_not_stored() {
    use std::io::{Read, Write};
    if !has("prlimit") {
        return;
    }
    let mut gateways = gateways_with("full", true);
    let device = gateways.device.port.clone();
    gateways.restart_hub_with(Some(8));
    let mut clients = [raw(&gateways.hub.port, &[]), raw(&device, &[])];
    // A kilobyte each: the fourth cannot be written any more.
    let message = |number: u8, flags: u8| {
        let head = [0x30 | flags, 0x85, 8, 0, 1, number, 0, number];
        [&head[..], &[b'x'; 1_024]].concat()
    };
    for number in 1..=3 {
        clients[0].write_all(&message(number, 3)).unwrap();
        assert_eq!(next::<4>(&mut clients[0]), [0x40, 2, 0, number]);
    }
    for (client, number) in clients.iter_mut().zip(4..) {
        client.write_all(&message(number, 3)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        assert!(client.read_exact(&mut [0]).is_err(), "{number} is not stored");
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        // Others are served, and the message is there.
        client.write_all(&message(number + 10, 2)).unwrap();
        assert_eq!(next::<4>(client), [0x40, 2, 0, number + 10]);
    }
    let subscribe = [0x82, 6, 0, 1, 0, 1, b'#', 0];
    let mut subscriber = raw(&device, &[&subscribe]);
    assert_eq!(next(&mut subscriber), [0x90, 3, 0, 1, 0]);
    for number in 1..=5 {
        assert_eq!(next::<1_030>(&mut subscriber)[5], number);
    }
    let process = gateways.hub.process.id().to_string();
    let lifted = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &process]).status();
    assert!(lifted.unwrap().success());
    for (client, number) in clients.iter_mut().zip(4..) {
        assert_eq!(next::<4>(client), [0x40, 2, 0, number]);
    }
    gateways.restart_hub_with(None);
    let mut client = raw(&gateways.hub.port, &[&subscribe]);
    assert_eq!(next(&mut client), [0x90, 3, 0, 1, 0]);
    for number in 1..=5 {
        assert_eq!(next::<1_030>(&mut client)[5], number);
    }
}

/// What no client sends: the gateway says why it ends the connection, and goes on.
#[test]
fn a_malformed_packet_gets_a_reason() {
    use std::io::{Read, Write};
    let gateways = gateways("malformed");
    let connect = [&[0x10, 13, 0, 4][..], b"MQTT", &[5, 2, 0, 0, 0, 0, 0]].concat();
    for (bytes, code) in [
        // A property twice, an alias above the maximum, one that is unknown, and a packet too long.
        (&[0x30, 8, 0, 1, b'a', 4, 1, 1, 1, 1][..], 0x82),
        (&[0x30, 7, 0, 1, b'a', 3, 0x23, 0, 99], 0x94),
        (&[0x30, 6, 0, 0, 3, 0x23, 0, 1], 0x82),
        (&[0x30, 0xff, 0xff, 0x7f], 0x95),
        (&[0x30, 6, 0, 1, b'a', 2, 0x0b, 1], 0x82),
    ] {
        let mut client = TcpStream::connect(format!("127.0.0.1:{}", gateways.device.port)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(&[&connect, bytes].concat()).unwrap();
        let mut answer = Vec::new();
        // The gateway may reset a connection whose bytes it has not read.
        let _ = client.read_to_end(&mut answer);
        assert!(answer.starts_with(&[0x20]), "{answer:?}");
        let goodbye = answer.iter().position(|byte| *byte == 0xe0).map(|at| &answer[at..]);
        assert!(goodbye.is_some_and(|own| own[2] == code), "{bytes:?}: {answer:?}");
    }
}
