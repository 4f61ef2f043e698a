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

/// The gateway's IPv4 subnet of the uplink, from the addresses that the experiment reader reserves.
/// It is in the shared address space (RFC 6598), which no host of the Internet has.
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
    ///
    /// # Errors
    /// The first gateway whose slirp4netns does not start.
    pub fn all(plan: &Plan, lab: &Lab) -> Result<Vec<Self>, Error> {
        let nodes = plan.nodes.iter().zip(lab.nodes());
        let gateways = nodes.filter(|(node, _)| node.services.is_some_and(|has| has.nat));
        let open = |(node, own): (&experiment::PlannedNode, &lab::Node)| {
            let has_ipv6 = node.links.iter().any(|link| link.address_of(true).is_some());
            let failed = |why| Error::Uplink { node: node.name.clone(), why };
            Self::open(own.kind.pid(), has_ipv6).map_err(failed)
        };
        gateways.map(open).collect()
    }

    fn open(pid: i32, has_ipv6: bool) -> Result<Self, String> {
        let pipe = || nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| e.to_string());
        let ((exit, alive), (ready, tell)) = (pipe()?, pipe()?);
        let mut command = Command::new("slirp4netns");
        // The kernel refuses to enter a user namespace that a process is already in (setns(2)).
        let same = |kind: &str| {
            let of = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok();
            of("self") == of(&pid.to_string())
        };
        if !same("user") {
            command.arg(format!("--userns-path=/proc/{pid}/ns/user"));
        }
        // Programs in the nodes must not reach services on the host's loopback interface.
        command.args(["--configure", "--disable-host-loopback", "--mtu=1500", "--cidr", OUTSIDE]);
        command.arg(format!("--exit-fd={}", exit.as_raw_fd()));
        command.arg(format!("--ready-fd={}", tell.as_raw_fd()));
        let has = options();
        command.args(hardening(&has, nix::unistd::geteuid().is_root()));
        if has_ipv6 {
            if !has.contains(IPV6) {
                return Err(format!(
                    "the installed slirp4netns has no {IPV6}, which a network with an IPv6 subnet \
                     needs: install version 0.2 or later, or remove the IPv6 subnet"
                ));
            }
            command.arg(IPV6);
        }
        command.arg("--netns-type=path").arg(format!("/proc/{pid}/ns/net")).arg(lab::UPLINK);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Ctrl-C is for the tool only.
        command.process_group(0);
        // It reads packets of the node, so it gets nothing else of this process.
        lab::clean_environment(&mut command);
        // All pipes are close-on-exec, so that no other program inherits them; it needs these two.
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
        // With another writer open, the read below would not end when slirp4netns does.
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

/// The option for IPv6. The lab sets the uplink's address, since this program has no option for it.
const IPV6: &str = "--enable-ipv6";

/// Options that close slirp4netns off from the host's files, which it can do for root only, and from
/// system calls that it does not need. Versions before 0.4 have none, and some distributions build it
/// without libseccomp.
fn hardening(has: &str, is_root: bool) -> Vec<&'static str> {
    let files = is_root.then_some("--enable-sandbox");
    files.into_iter().chain(["--enable-seccomp"]).filter(|flag| has.contains(flag)).collect()
}

/// The help of the installed slirp4netns, which has all its options.
fn options() -> String {
    let help = Command::new("slirp4netns").arg("--help").stdin(Stdio::null()).output();
    let help = help.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    String::from_utf8_lossy(&help).into_owned()
}

impl Drop for Uplink {
    fn drop(&mut self) {
        drop(self.alive.take());
        // In case it hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{OUTSIDE, hardening};
    use experiment::Experiment;

    #[test]
    fn only_root_closes_it_off_from_files() {
        let help = "--enable-sandbox\n--enable-seccomp";
        assert_eq!(hardening(help, true), ["--enable-sandbox", "--enable-seccomp"]);
        assert_eq!(hardening(help, false), ["--enable-seccomp"]);
        assert!(hardening("--enable-ipv6", true).is_empty());
    }

    /// The addresses of the lab and of this module are those that the reader refuses in a file.
    #[test]
    fn networks_have_no_addresses_of_the_uplink() {
        let ipv6: Vec<String> =
            lab::UPLINK_IPV6.segments()[..4].iter().map(|n| format!("{n:x}")).collect();
        for subnet in [OUTSIDE.to_owned(), format!("{}::/64", ipv6.join(":"))] {
            let text = format!(
                "experiment: e
nodes: {{a: {{}}}}
networks: {{n: {{attach: a, subnet: '{subnet}', nat: true}}}}
"
            );
            let refused = Experiment::parse(&text, "e.yaml", "").map(drop).unwrap_err();
            let text = refused.to_string();
            assert!(text.contains("`n` overlaps"), "{text}");
        }
    }
}
