//! The uplink of a gateway: slirp4netns, which forwards its traffic to the outside as a process of
//! this user. The host's configuration does not change.

use crate::error::Error;
use experiment::Plan;
use lab::Lab;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The gateway's subnet of the uplink, from the addresses that the experiment reader reserves.
const OUTSIDE: &str = "100.127.255.0/24";
/// The name server of slirp4netns there, which forwards to the host's.
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(100, 127, 255, 3);

/// A gateway's uplink; closed when it is dropped or its owner ends.
#[derive(Debug)]
pub(crate) struct Uplink {
    child: Child,
    /// slirp4netns exits when this pipe is closed, for whatever reason.
    alive: Option<OwnedFd>,
}

impl Uplink {
    /// Starts the uplinks of all gateways in `plan` and waits until they are ready.
    pub fn all(plan: &Plan, lab: &Lab) -> Result<Vec<Self>, Error> {
        let nodes = plan.nodes.iter().zip(lab.nodes());
        let gateways = nodes.filter(|(node, _)| node.services.is_some_and(|has| has.nat));
        let open = |(node, own): (&experiment::PlannedNode, &lab::Node)| {
            Self::open(own.kind.pid()).map_err(|why| Error::Uplink { node: node.name.clone(), why })
        };
        gateways.map(open).collect()
    }

    fn open(pid: i32) -> Result<Self, String> {
        let pipe = || nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| e.to_string());
        let ((exit, alive), (ready, tell)) = (pipe()?, pipe()?);
        let mut command = Command::new("slirp4netns");
        let same = |kind: &str| {
            let of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
            of("self") == of(&pid.to_string())
        };
        if !same("user") {
            command.arg(format!("--userns-path=/proc/{pid}/ns/user"));
        }
        command.args(["--configure", "--disable-host-loopback", "--mtu=1500", "--cidr", OUTSIDE]);
        command.arg(format!("--exit-fd={}", exit.as_raw_fd()));
        command.arg(format!("--ready-fd={}", tell.as_raw_fd()));
        command.args(hardening());
        command.arg("--netns-type=path").arg(format!("/proc/{pid}/ns/net")).arg(lab::UPLINK);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C is for the tool only.
        command.process_group(0);
        // It reads packets of the node, so it gets nothing else of this process.
        lab::clean_environment(&mut command);
        let given = [exit.as_raw_fd(), tell.as_raw_fd()];
        // SAFETY: only system calls between fork and exec, on our own descriptors.
        unsafe {
            command.pre_exec(move || {
                lab::close_from(3)?;
                match given.iter().any(|fd| libc::fcntl(*fd, libc::F_SETFD, 0) < 0) {
                    true => Err(std::io::Error::last_os_error()),
                    false => Ok(()),
                }
            });
        }
        let child = command.spawn().map_err(|error| format!("start slirp4netns: {error}"))?;
        let mut uplink = Self { child, alive: Some(alive) };
        drop((exit, tell));
        // It writes 1 when it is ready; its exit closes the pipe.
        let mut text = [0];
        match std::fs::File::from(ready).read(&mut text) {
            Ok(1) => Ok(uplink),
            _ => Err(format!("slirp4netns ended: {}", uplink.last_output())),
        }
    }

    fn last_output(&mut self) -> String {
        let mut words = String::new();
        let error = self.child.stderr.take();
        error.into_iter().for_each(|error| drop(error.take(4096).read_to_string(&mut words)));
        words.trim().lines().last().unwrap_or("it printed nothing").to_owned()
    }
}

/// The options that close slirp4netns off from the host's files and from system calls that it does
/// not need, of those that the installed version has: before 0.4 it has none, and some
/// distributions build it without libseccomp.
fn hardening() -> Vec<&'static str> {
    let help = Command::new("slirp4netns").arg("--help").stdin(Stdio::null()).output();
    let help = help.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let help = String::from_utf8_lossy(&help);
    ["--enable-sandbox", "--enable-seccomp"]
        .into_iter()
        .filter(|flag| help.contains(flag))
        .collect()
}

impl Drop for Uplink {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
