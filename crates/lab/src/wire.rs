//! The protocol between the tool, its fork server and the inits: JSON in SOCK_SEQPACKET messages,
//! with attached descriptors.

use crate::boundary::Boundary;
use crate::emulator::Emulator;
use crate::failure::Failure;
use crate::netem::{Netem, Passed};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use units::Span;

/// One interface of a node, inside its network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The name within the node, e.g. `eth0`; 15 bytes at most.
    pub name: String,
    /// Its link address.
    pub mac: [u8; 6],
    /// Its addresses with the prefix lengths of their subnets; none if a program sets them. Without
    /// an IPv6 address, the interface has no IPv6 unless it `is_advertised`.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The largest IP packet in bytes; 68 or more.
    pub mtu: u32,
    /// Whether the packet socket of its veth pair gives, and accepts, unsegmented TCP without
    /// checksums, with all frames behind a `struct virtio_net_hdr` of [`VNET_HEADER`] bytes. Only
    /// with [`Link::Veth`].
    pub offload: bool,
    /// Permanent neighbour entries, which need no ARP or neighbour discovery over the network.
    pub neighbours: Vec<(IpAddr, [u8; 6])>,
    /// Whether its IPv6 addresses and routes come from the network: it solicits and accepts router
    /// advertisements. A program sets the addresses.
    #[serde(default)]
    pub is_advertised: bool,
    /// The IPv6 address that it makes of the prefix in these, if it makes one (SLAAC).
    #[serde(default)]
    pub advertised: Option<Ipv6Addr>,
    /// Name of a TAP through which a program of the node, such as an emulator, has this interface in
    /// place of the node's kernel. Then there must be neither address nor neighbours.
    #[serde(default)]
    pub tap: Option<String>,
    /// Name of a tunnel, without Ethernet headers, through which a program of the node has the
    /// addresses in place of the node's kernel, which routes packets between both. Then the node must
    /// be a router.
    #[serde(default)]
    pub tun: Option<String>,
    /// Whether it is a port of the node's [`Bridge`]. Then there must be neither addresses nor
    /// neighbours.
    #[serde(default)]
    pub is_port: bool,
}

/// A bridge that joins interfaces of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bridge {
    /// Its own interface, with the node's addresses.
    pub interface: Interface,
    /// Whether it takes part in the spanning tree protocol.
    pub stp: bool,
}

/// The type of a node's interfaces, and of the descriptors that the lab returns for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// A TAP; the lab returns its descriptor.
    Tap,
    /// A veth pair; the lab returns a packet socket at its other end. For users who may not open
    /// `/dev/net/tun`.
    Veth,
    /// A veth pair whose other end passes frames to a BPF program, see [`crate::Lab::ports`]; the
    /// lab returns a send-only packet socket there.
    Bpf,
}

/// Bytes before each frame of an interface with `offload`: a `struct virtio_net_hdr`.
pub const VNET_HEADER: usize = 10;

/// Whether this user may create TAPs.
pub fn can_have_taps() -> bool {
    std::fs::File::options().read(true).write(true).open("/dev/net/tun").is_ok()
}

/// A direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// From the node into the network.
    Up,
    /// From the network to the node.
    Down,
}

/// The configuration of a node for its init.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeSpec {
    /// The host name; also how other nodes resolve it.
    pub name: String,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// Further settings.
    #[serde(default)]
    pub setting: Setting,
}

/// Settings of a node other than interfaces; empty by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its root file system, in place of the host's.
    pub root: Option<Root>,
    /// Character devices of the host that must exist, below `/dev`. A node with a separate root
    /// sees them at the same paths, and no others.
    pub devices: Vec<PathBuf>,
    /// How far its CLOCK_MONOTONIC and CLOCK_BOOTTIME are ahead of the machine's.
    #[serde(default)]
    pub clock_ahead: Span,
    /// The cores of its programs; empty for all.
    #[serde(default)]
    pub cores: Vec<u32>,
    /// Its name server, in place of the host's.
    pub resolver: Option<IpAddr>,
    /// Whether it is a gateway to the network behind the interface [`UPLINK`].
    pub forwards: bool,
    /// Whether it forwards packets between its interfaces.
    #[serde(default)]
    pub is_router: bool,
    /// The bridge whose ports are the interfaces that say so.
    #[serde(default)]
    pub bridge: Option<Bridge>,
    /// Its routes, in addition to those of its interfaces.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Capabilities of its programs besides those of its kind of node, such as `SYS_TIME`.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// Whether its programs have all capabilities and system calls.
    #[serde(default)]
    pub privileged: bool,
    /// The largest size of what it writes to a separate root, and of its `/dev/shm`, in bytes; 0
    /// for the default.
    #[serde(default)]
    pub storage: u64,
}

impl Setting {
    /// The limits of its programs.
    pub fn boundary(&self) -> Boundary {
        let (capabilities, privileged) = (self.capabilities.clone(), self.privileged);
        Boundary { rooted: self.root.is_some(), capabilities, privileged }
    }

    /// Whether its programs are in a user namespace of the node. A terminal of the host can be
    /// passed only as it is, and belongs to a user of the host.
    pub fn has_own_users(&self) -> bool {
        let terminal = self.devices.iter().any(|device| device.starts_with("/dev/pts"));
        self.boundary().has_own_users() && !terminal
    }
}

/// A route of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Network address of the destination; unspecified for a default route.
    pub to: IpAddr,
    /// Prefix length of the destination; 0 for a default route.
    pub prefix: u8,
    /// Address of the next hop, on one of the node's networks.
    pub via: IpAddr,
}

/// A gateway's interface to the outside. The uplink's program opens it, and sets its IPv4 address.
pub const UPLINK: &str = "tap0";

/// Its IPv6 address, for networks with IPv6. The prefix length is 64.
pub const UPLINK_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd1b, 0x8c4f, 0x7e2d, 0xff, 0, 0, 0, 1);

/// A root file system, and the environment of programs in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Its folder, which is only read; changes stay in the node's memory and end with it.
    pub lower: PathBuf,
    /// Environment variables of programs, in place of the tool's.
    pub env: Vec<(String, String)>,
    /// Working directory of programs; absolute.
    pub cwd: String,
    /// The user of programs: empty for root, else `user` or `user:group`, by name or number.
    pub user: String,
    /// What runs its programs, if they are for another architecture than this machine's.
    #[serde(default)]
    pub emulator: Option<Emulator>,
}

/// From the tool to the fork server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToForkServer {
    /// The lab's hosts file, the type of interfaces, the folders that no node sees, and the number of
    /// processes that an ordinary user's nodes may have together; sent first, once.
    Prepare { hosts: String, link: Link, hidden: Vec<PathBuf>, processes: u64 },
    /// Create a node with this number; the init's control socket is attached. If it has its own
    /// users, the init creates the namespaces that belong to them.
    Spawn { slot: u32, own_users: bool },
    /// End these inits, and remove the other ends of veth pairs with these ifindexes: the kernel
    /// removes a namespace asynchronously, and the numbers are needed again.
    Discard { pids: Vec<i32>, numbers: std::ops::Range<u32> },
    /// Replace the text of the hosts file.
    Hosts { hosts: String },
}

/// From the fork server to the tool, one reply per message.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromForkServer {
    /// The mount namespace, or its hosts file, is ready; with [`Link::Bpf`], the
    /// first reply has a socket to the network configuration of the veth pairs' other ends.
    Ready,
    /// The init's process id, in the tool's numbering.
    Spawned(i32),
    /// The failed step and its cause.
    Failed(Failure),
}

/// From the tool to an init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    /// Set up the node; sent first. Its interfaces are numbered from `first`.
    SetUp { spec: Box<NodeSpec>, first: u32, link: Link },
    /// Run a program; its standard output, standard error and, with `control`, its control socket
    /// are attached, and last, if the node has a separate root, the mount namespace for it.
    Run { id: u64, argv: Vec<String>, env: Vec<(String, String)>, cwd: String, control: bool },
    /// Impair one direction of an interface, by its index among the node's; the socket for the
    /// reply is attached.
    Impair { interface: usize, way: Direction, netem: Box<Netem> },
    /// Return netem's counters; with the reply's socket attached.
    Passed { interface: usize, way: Direction },
    /// Change the host name; the socket for the reply is attached.
    HostName { name: String },
    /// Change the MTU of an interface; the socket for the reply is attached.
    Mtu { interface: String, bytes: u32 },
    /// Add permanent neighbours of an interface; the socket for the reply is attached.
    Neighbours { interface: String, neighbours: Vec<(IpAddr, [u8; 6])> },
    /// Replace the text of the node's own hosts file, if it has one.
    Hosts { hosts: String },
    /// Send a signal to a program's process group.
    Signal { id: u64, signal: i32 },
    /// Send a signal to every process of the node except the init.
    SignalAll { signal: i32 },
}

/// From an init to the tool.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromInit {
    /// The node is up; its TAPs or packet sockets are attached, in the order of interfaces, and last,
    /// if it has a separate root, the mount namespace with the host's files. If it should have its
    /// own users and this machine cannot do that, the failed step.
    Up { same_users: Option<Failure> },
    /// A program has started, with this process id inside the node.
    Started { id: u64 },
    /// A program could not be started.
    NotStarted { id: u64, failure: Failure },
    /// A program has ended, with its usage.
    Ended { id: u64, exit: Exit, usage: Usage },
    /// An interface is impaired, or a setting changed.
    Changed,
    /// Netem's counters.
    Passed(Passed),
    /// The set-up failed and the init ends, or a request with a separate reply socket failed.
    Failed(Failure),
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// It exited with this status.
    Status(i32),
    /// This signal killed it.
    Signal(i32),
}

/// Resource usage of a program and its children.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode, in microseconds.
    pub user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub system_us: u64,
    /// Peak resident set, in bytes.
    pub peak_bytes: u64,
}

impl Usage {
    /// CPU time in user mode and in the kernel.
    pub fn cpu(&self) -> Span {
        Span::from_us(self.user_us) + Span::from_us(self.system_us)
    }
}

/// Maximum message size, in bytes; a hub's thousand neighbours take about 40 kB.
const LARGEST: usize = 512 * 1024;
/// Maximum number of descriptors per message: the kernel's (SCM_MAX_FD, unix(7)). A node passes one
/// for each of its interfaces, and a few more.
const FDS: usize = 253;

/// Sends a message, completely or not at all.
pub(crate) fn send(socket: &OwnedFd, message: &impl Serialize, fds: &[RawFd]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    let attached = [ControlMessage::ScmRights(fds)];
    let attached = if fds.is_empty() { &attached[..0] } else { &attached[..] };
    loop {
        let sent = sendmsg::<()>(
            socket.as_raw_fd(),
            &[IoSlice::new(&bytes)],
            attached,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
        match sent {
            Ok(_) => return Ok(()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The next message and its descriptors; `None` if the other end is gone.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: &OwnedFd,
    flags: MsgFlags,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; LARGEST]);
    }
    BUFFER.with_borrow_mut(|buffer| {
        let mut attached = nix::cmsg_space!([RawFd; FDS]);
        let mut parts = [IoSliceMut::new(buffer)];
        // A descriptor without close-on-exec could reach a program of a node.
        let flags = flags | MsgFlags::MSG_CMSG_CLOEXEC;
        let (len, fds) = loop {
            match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut attached), flags) {
                Ok(message) => break (message.bytes, take_fds(&message)?),
                Err(Errno::EINTR) => {}
                // The other end was closed with unread messages.
                Err(Errno::ECONNRESET) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        };
        // No message is empty, so this is the end of file.
        if len == 0 {
            return Ok(None);
        }
        Ok(Some((serde_json::from_slice(&buffer[..len])?, fds)))
    })
}

fn take_fds(message: &nix::sys::socket::RecvMsg<'_, '_, ()>) -> io::Result<Vec<OwnedFd>> {
    let mut fds = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(raw) = part {
            // SAFETY: the kernel has just created these descriptors for this process.
            fds.extend(raw.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    Ok(fds)
}

/// A connected pair of message sockets, closed on exec, with buffers for the largest message.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socketpair, sockopt};
    let (a, b) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    for end in [&a, &b] {
        // The kernel doubles and caps it; a buffer that is too small shows as EMSGSIZE.
        setsockopt(end, sockopt::SndBuf, &LARGEST)?;
    }
    Ok((a, b))
}
