//! The lab: creates and removes nodes, owns their resources and runs programs in them.
//!
//! A node is a process tree with separate network, mount, PID, UTS and IPC namespaces. The tool
//! starts a fork server (*nursery*: itself, under a hidden command), which clones one *init* per
//! node; inits run the programs. All of them end with the tool, however it ends, because each holds
//! a socket to it.

mod boundary;
mod bridge;
mod cgroup;
mod clock;
mod emulator;
mod enter;
mod error;
mod etc;
mod failure;
mod fork_server;
mod hardware;
mod hierarchy;
mod init;
mod interface;
mod ledger;
mod machine_tap;
mod machine_tun;
mod meter;
mod mount_tree;
mod nat;
mod netem;
mod netlink;
mod node;
mod nodes;
mod ports;
mod program;
mod root;
mod routing;
mod shared;
mod switches;
mod sysfs;
mod trial;
mod usage;
mod user;
mod users;
mod veth;
mod wire;

pub use boundary::{Boundary, PAGE_TOKEN, Seal, clean_environment, close_from, has_seccomp};
pub use cgroup::{Limits, OutOfMemory, PROCESSES, can_limit, can_limit_processes};
pub use emulator::Emulator;
pub use enter::{enter, enter_files, enter_network};
pub use error::Error;
pub use failure::Failure;
pub use fork_server::{FORK_SERVER, fork_server};
pub use hardware::attach;
pub use ledger::{Leftover, collect, ledger_dir, ledger_files, own_dir, pid_namespace};
pub use meter::{Meter, Reading, Source};
pub use netem::{
    Chance, DISTRIBUTION_MOST, DISTRIBUTION_SCALE, JITTER_MOST, Loss, Netem, Passed, Slot,
};
pub use node::{Event, Node, NodeKind, Program};
pub use nodes::{FIRST_INTERFACE, Lab, Member};
pub use ports::Ports;
pub use program::PATH;
pub use trial::{
    has_vlan_interfaces, try_emulator, try_machine, try_netem, try_node, try_own_users,
};
pub use usage::{Counters, Sample, Scheduled, counters, members, sample, scheduled, socket_drops};
pub use wire::{
    Bridge, Direction, Exit, Interface, Link, NodeSpec, Root, Route, Setting, UPLINK, UPLINK_IPV6,
    Usage, VNET_HEADER, can_have_taps,
};
