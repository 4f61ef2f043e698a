//! The way out of the lab: slirp4netns, which takes what a gateway sends and speaks to
//! the outside as a program of this user. Nothing of the host is changed for it.

use crate::error::Error;
use experiment::Plan;
use lab::Lab;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// The gateway's side of the way out: of the addresses that the experiment's reader
/// keeps free.
const OUTSIDE: &str = "100.127.255.0/24";
/// The name server that slirp4netns has there, which asks the host's.
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(100, 127, 255, 3);

/// A gateway's way out; closed when it is dropped, or its owner ends.
#[derive(Debug)]
pub(crate) struct Uplink {
    child: Child,
    /// When this is closed, by whatever end, so is the way out.
    alive: Option<OwnedFd>,
}

impl Uplink {
    /// Those of all gateways in `plan`, ready.
    pub fn all(plan: &Plan, lab: &Lab) -> Result<Vec<Self>, Error> {
        let nodes = plan.nodes.iter().zip(lab.pids());
        let gateways = nodes.filter(|(node, _)| node.services.is_some_and(|has| has.nat));
        let open = |(node, pid): (&experiment::PlannedNode, &i32)| {
            Self::open(*pid).map_err(|why| Error::Uplink { node: node.name.clone(), why })
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
        command.arg("--netns-type=path").arg(format!("/proc/{pid}/ns/net")).arg(lab::UPLINK);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C is for the tool alone.
        command.process_group(0);
        let given = [exit.as_raw_fd(), tell.as_raw_fd()];
        // SAFETY: between fork and exec, system calls alone, on descriptors of ours.
        unsafe {
            command.pre_exec(move || {
                match given.iter().any(|fd| libc::fcntl(*fd, libc::F_SETFD, 0) < 0) {
                    true => Err(std::io::Error::last_os_error()),
                    false => Ok(()),
                }
            });
        }
        let child = command.spawn().map_err(|error| format!("start slirp4netns: {error}"))?;
        let mut uplink = Self { child, alive: Some(alive) };
        drop((exit, tell));
        // It says 1 when all is there; its end closes the pipe.
        let mut said = [0];
        match std::fs::File::from(ready).read(&mut said) {
            Ok(1) => Ok(uplink),
            _ => Err(format!("slirp4netns ended: {}", uplink.last_words())),
        }
    }

    fn last_words(&mut self) -> String {
        let mut words = String::new();
        let error = self.child.stderr.take();
        error.into_iter().for_each(|error| drop(error.take(4096).read_to_string(&mut words)));
        words.trim().lines().last().unwrap_or("it printed nothing").to_owned()
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        drop(self.alive.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
