//! The medium's ends of veth pairs, and a BPF program that receives their frames.
//!
//! A frame passes the node's counters, its queueing discipline and the kernel's segmentation before
//! it arrives, as before a wire. The program at the ingress of the other end (clsact, tc-bpf(8))
//! sees the finished frame.

use crate::netlink::{Message, NESTED, Socket};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Attaches programs to the medium's ends of a lab's veth pairs.
#[derive(Debug)]
pub struct Ports(Socket);

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
/// The program's return value decides what happens to a frame.
const DIRECT_ACTION: u32 = 1;
const CLSACT: u32 = 0xffff_0000;
const AT_CLSACT: u32 = 0xffff_fff1;
const INGRESS: u32 = 0xffff_fff2;
/// Priority 1 and all protocols, in network byte order as the kernel requires.
const FIRST_OF_ALL: u32 = 1 << 16 | (libc::ETH_P_ALL as u16).to_be() as u32;

impl Ports {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Socket::of(socket))
    }

    /// Tests whether `program` can be attached on this kernel, in a new network namespace.
    ///
    /// # Errors
    /// Why it cannot be attached.
    pub fn try_out(program: BorrowedFd<'_>) -> io::Result<()> {
        const LOOPBACK: u32 = 1;
        let tried = || match unshare(CloneFlags::CLONE_NEWNET) {
            // Then nodes are in a user namespace, where it is allowed.
            Err(Errno::EPERM) => Ok(()),
            Err(errno) => Err(errno.into()),
            Ok(()) => Self(Socket::open(libc::NETLINK_ROUTE)?).attach(LOOPBACK, program),
        };
        // Only this thread enters the namespace.
        std::thread::scope(|scope| scope.spawn(tried).join())
            .unwrap_or_else(|_| Err(io::Error::other("the test of a network namespace failed")))
    }

    /// Runs `program` (of type `BPF_PROG_TYPE_SCHED_CLS`) on each frame from the node's interface
    /// with this ifindex. It stays attached as long as the pair exists.
    ///
    /// # Errors
    /// When the interface does not exist, or the kernel has no clsact or no cls_bpf.
    pub fn attach(&self, number: u32, program: BorrowedFd<'_>) -> io::Result<()> {
        let failed = |what: &str, errno: Errno| {
            let missing = match errno {
                Errno::ENOENT | Errno::EOPNOTSUPP => {
                    " (the kernel lacks it: CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF)"
                }
                _ => "",
            };
            let error = io::Error::from(errno);
            io::Error::new(error.kind(), format!("{what}: {error}{missing}"))
        };
        let new = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let header = tcmsg(number, CLSACT, AT_CLSACT, 0);
        let mut discipline = Message::new(libc::RTM_NEWQDISC, new, &header);
        discipline.text(TCA_KIND, "clsact");
        self.0
            .exchange(&discipline.finish())
            .map_err(|errno| failed("attach clsact to a veth pair", errno))?;

        let header = tcmsg(number, 0, INGRESS, FIRST_OF_ALL);
        let mut filter = Message::new(libc::RTM_NEWTFILTER, new, &header);
        filter.text(TCA_KIND, "bpf");
        let options = filter.begin(TCA_OPTIONS | NESTED);
        filter.bytes(TCA_BPF_FD, &(program.as_raw_fd() as u32).to_ne_bytes());
        filter.text(TCA_BPF_NAME, "thingbed");
        filter.bytes(TCA_BPF_FLAGS, &DIRECT_ACTION.to_ne_bytes());
        filter.end(options);
        let attached = self.0.exchange(&filter.finish());
        attached.map(drop).map_err(|errno| failed("attach a BPF program to a veth pair", errno))
    }
}

/// `struct tcmsg`.
fn tcmsg(interface: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut header = [0; 20];
    for (at, value) in [(4, interface), (8, handle), (12, parent), (16, info)] {
        header[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    header
}
