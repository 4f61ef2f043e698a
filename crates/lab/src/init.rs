//! The init of a node: process 1 of its PID namespace. It sets up the node, runs programs in it and
//! reaps them; when it ends, the kernel kills all other processes of the node.

use crate::boundary;
use crate::bridge;
use crate::clock::Clock;
use crate::emulator::Emulator;
use crate::failure::Failure;
use crate::interface::{self, add_neighbours, change_mtu};
use crate::machine_tap;
use crate::machine_tun;
use crate::nat;
use crate::program::{self, Own, Start};
use crate::root;
use crate::routing::{self, Routing};
use crate::shared::Shared;
use crate::sysfs;
use crate::users::{self, Ids, Separate, Users};
use crate::veth::{self, Veth};
use crate::wire::{Exit, FromInit, Link, NodeSpec, Setting, ToInit, Usage, receive, send};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CpuSet, sched_setaffinity, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::MsgFlags;
use nix::unistd::{Pid, sethostname};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use units::Span;

/// Runs the init of the node with the number `slot`.
pub(crate) fn init(socket: &OwnedFd, shared: &Shared, slot: u32) -> ! {
    // The end of file of the socket has the same effect; this also works if only the fork server is
    // killed.
    let _ = set_pdeathsig(Signal::SIGKILL);
    let status = match live(socket, shared, slot) {
        Ok(()) => 0,
        Err(failure) => {
            let _ = send(socket, &FromInit::Failed(failure), &[]);
            1
        }
    };
    // SAFETY: ends the process at once; no destructor may run on the fork server's data that was
    // copied here.
    unsafe { libc::_exit(status) }
}

fn live(socket: &OwnedFd, shared: &Shared, slot: u32) -> Result<(), Failure> {
    let wire = shared.wire.as_ref();
    let failed = |error: std::io::Error| {
        let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        Failure::of("receive from Thingbed", errno)
    };
    let Some((ToInit::SetUp { spec, first, link }, _)) =
        receive(socket, MsgFlags::empty()).map_err(failed)?
    else {
        return Ok(());
    };
    let mut same_users = None;
    // Before the links: they belong to the network namespace that this may create.
    let separate = separate(&spec.setting, slot, &mut same_users)?;
    let taps = set_up(&spec, first, link, wire)?;
    if let Some(bridge) = &spec.setting.bridge {
        bridge::set_up(bridge, &spec.interfaces)?;
    }
    // Before any program starts, which inherits the cores.
    pin_to(&spec.setting.cores)?;
    // After the network namespace is final: a sysfs shows the devices of the namespace that mounts
    // it.
    sysfs::mount_own(&shared.mounted);
    set_routes(&spec)?;
    if spec.setting.forwards {
        nat::gateway(has_ipv6(&spec))?;
    }
    let names = spec.interfaces.iter().map(|interface| interface.name.as_str()).collect();
    let links = Links { first, names, wire };
    // Last, because the host's files are hidden from then on.
    let home = match &spec.setting.root {
        Some(root) => Some(root::enter(&spec, root, separate)?),
        None => {
            // The node sees the host's devices already; the configured ones must exist.
            for device in &spec.setting.devices {
                root::device(device)?;
            }
            spec.setting.resolver.map_or(Ok(()), root::set_name_server)?;
            None
        }
    };
    let clock = match spec.setting.clock_ahead {
        Span::ZERO => None,
        ahead => Some(Clock::ahead(ahead)?),
    };
    let (home, host) = home.unzip();
    let seal = spec.setting.boundary().seal().map_err(boundary::failed)?;
    let own = Own { home, clock, seal };
    let raw: Vec<_> = taps.iter().chain(&host).map(AsRawFd::as_raw_fd).collect();
    send(socket, &FromInit::Up { same_users }, &raw).map_err(failed)?;
    // The tool has them now; a copy here would keep a TAP alive, and be a way to the host's files
    // (decision 57).
    drop((taps, host));

    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    // Blocked before the first program starts, so that no end of one is missed.
    mask.thread_block().map_err(|errno| Failure::of("block SIGCHLD", errno))?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(|errno| Failure::of("create a signal descriptor", errno))?;
    let mut programs = HashMap::new();
    loop {
        let mut ready = [
            PollFd::new(socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(Failure::of("wait for Thingbed", errno)),
            Ok(_) => {}
        }
        let [spoken, ended] = ready.map(|fd| fd.any().unwrap_or(true));
        if ended {
            // Several ends may be one signal, so all are taken, and all that ended is reaped.
            while matches!(signals.read_signal(), Ok(Some(_))) {}
            reap(socket, &mut programs);
        }
        if spoken {
            match receive(socket, MsgFlags::empty()).map_err(failed)? {
                Some((message, fds)) => match links.execute(&message, &fds) {
                    true => {}
                    false => execute(socket, message, fds, &mut programs, &own),
                },
                None => return Ok(()),
            }
        }
    }
}

/// Whether an interface of the node has an IPv6 address.
fn has_ipv6(spec: &NodeSpec) -> bool {
    let mut addresses = spec.interfaces.iter().flat_map(|interface| &interface.addresses);
    addresses.any(|(address, _)| address.is_ipv6())
}

/// Pins this process and its future children to `cores`; to all if empty.
fn pin_to(cores: &[u32]) -> Result<(), Failure> {
    if cores.is_empty() {
        return Ok(());
    }
    let failed = |errno| {
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        Failure::of(format!("pin it to the cores {}", cores.join(", ")), errno)
    };
    let mut set = CpuSet::new();
    cores.iter().try_for_each(|core| set.set(*core as usize)).map_err(failed)?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(failed)
}

/// Mounts this PID namespace's `/proc`, and creates the users of a node that has its own. If this
/// machine cannot create them, `same_users` is the failed step.
fn separate(
    setting: &Setting,
    slot: u32,
    same_users: &mut Option<Failure>,
) -> Result<Option<Separate>, Failure> {
    // From the host's /proc.
    let ids = Ids::of_node(slot);
    let emulator = setting.root.as_ref().and_then(|root| root.emulator.as_ref());
    let has_emulator = emulator.is_none_or(Emulator::is_registered);
    let none: Option<&str> = None;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, none)
        .map_err(|errno| Failure::of("mount /proc", errno))?;
    let without_users = || match has_emulator {
        true => Ok(None),
        false => Err(Failure::of(users::RUN_FOREIGN, Errno::ENOEXEC)),
    };
    let root = setting.root.as_ref().filter(|_| setting.has_own_users());
    let Some(root) = root else { return without_users() };
    let failure = match Users::create(ids, &root::lower(root)?, emulator) {
        Ok(Separate { no_emulator: Some(failure), .. }) if !has_emulator => return Err(failure),
        Ok(separate) => return Ok(Some(separate)),
        Err(failure) => failure,
    };
    *same_users = Some(failure);
    unshare(users::OWNED).map_err(|errno| Failure::of("create namespaces", errno))?;
    without_users()
}

fn set_up(
    spec: &NodeSpec,
    first: u32,
    link: Link,
    wire: Option<&OwnedFd>,
) -> Result<Vec<OwnedFd>, Failure> {
    sethostname(&spec.name)
        .map_err(|errno| Failure::of(format!("set the host name {}", spec.name), errno))?;
    interface::loopback()?;
    let made = spec.interfaces.iter().zip(first..);
    made.map(|(spec, number)| {
        let link = match wire {
            Some(wire) => veth::make_veth(spec, number, wire.as_fd(), link == Link::Veth),
            None => interface::make_tap(spec, number),
        };
        spec.tap.iter().try_for_each(|tap| machine_tap::connect(spec, tap))?;
        spec.tun.iter().try_for_each(|tun| machine_tun::connect(spec, tun))?;
        link
    })
    .collect()
}

/// Sets the node's routes, and whether it forwards packets.
fn set_routes(spec: &NodeSpec) -> Result<(), Failure> {
    let Setting { routes, is_router, bridge, .. } = &spec.setting;
    if !routes.is_empty() {
        let routing = Routing::open()?;
        routes.iter().try_for_each(|route| routing.add_route(route))?;
    }
    if *is_router {
        let bridge = bridge.iter().map(|bridge| &bridge.interface);
        let names = spec.interfaces.iter().chain(bridge).map(|interface| interface.name.clone());
        routing::forward(&names.collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The node's links that are veth pairs.
struct Links<'a> {
    first: u32,
    names: Vec<&'a str>,
    wire: Option<&'a OwnedFd>,
}

impl Links<'_> {
    /// Executes requests about links and settings, and replies on the attached socket. Returns whether
    /// it was such a request.
    fn execute(&self, message: &ToInit, fds: &[OwnedFd]) -> bool {
        let done = match message {
            ToInit::Impair { interface, way, netem } => self
                .find(*interface)
                .and_then(|pair| veth::impair(&pair, *way, netem))
                .map(|()| FromInit::Changed),
            ToInit::Passed { interface, way } => self
                .find(*interface)
                .and_then(|pair| veth::passed(&pair, *way))
                .map(FromInit::Passed),
            ToInit::HostName { name } => sethostname(name)
                .map(|()| FromInit::Changed)
                .map_err(|errno| Failure::of("set the host name", errno)),
            ToInit::Mtu { interface, bytes } => {
                change_mtu(interface, *bytes).map(|()| FromInit::Changed)
            }
            ToInit::Neighbours { interface, neighbours } => {
                add_neighbours(interface, neighbours).map(|()| FromInit::Changed)
            }
            _ => return false,
        };
        if let Some(answer) = fds.first() {
            let _ = send(answer, &done.unwrap_or_else(FromInit::Failed), &[]);
        }
        true
    }

    fn find(&self, interface: usize) -> Result<Veth<'_>, Failure> {
        match (self.names.get(interface), self.wire) {
            (Some(name), Some(wire)) => {
                Ok(Veth { name, number: self.first + interface as u32, wire: wire.as_fd() })
            }
            _ => Err(Failure::of("find the veth pair of a link", Errno::ENODEV)),
        }
    }
}

fn execute(
    socket: &OwnedFd,
    message: ToInit,
    fds: Vec<OwnedFd>,
    programs: &mut HashMap<i32, u64>,
    own: &Own,
) {
    match message {
        // Requests with a reply, which `Links` executes.
        ToInit::SetUp { .. }
        | ToInit::Impair { .. }
        | ToInit::Passed { .. }
        | ToInit::HostName { .. }
        | ToInit::Mtu { .. }
        | ToInit::Neighbours { .. } => {}
        ToInit::Run { id, argv, env, cwd, control } => {
            let answer = match program::start(Start { argv, env, cwd, fds, control }, own) {
                Ok(pid) => {
                    programs.insert(pid, id);
                    FromInit::Started { id }
                }
                Err(failure) => FromInit::NotStarted { id, failure },
            };
            let _ = send(socket, &answer, &[]);
        }
        ToInit::Signal { id, signal } => {
            if let Some((pid, _)) = programs.iter().find(|(_, known)| **known == id) {
                // SAFETY: a plain system call. The group is ours, and its leader is not reaped yet,
                // so the number still refers to it.
                unsafe { libc::kill(-pid, signal) };
            }
        }
        // The other nodes share the fork server's file. If a program has damaged /etc, the node
        // misses new names.
        ToInit::Hosts { hosts } => {
            if let Some(home) = &own.home {
                let _ = home.set_hosts(&hosts);
            }
        }
        // SAFETY: a plain system call; from an init it reaches its whole namespace except itself.
        ToInit::SignalAll { signal } => drop(unsafe { libc::kill(-1, signal) }),
    }
}

/// Reaps all ended processes: programs, and orphans that the kernel assigned to this init.
fn reap(socket: &OwnedFd, programs: &mut HashMap<i32, u64>) {
    loop {
        let mut status = 0;
        // SAFETY: an all-zero rusage is valid; both live over the call.
        let (pid, used) = unsafe {
            let mut used: libc::rusage = std::mem::zeroed();
            (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut used), used)
        };
        if pid <= 0 {
            return;
        }
        // An orphan of a program, which nothing waits for.
        let Some(id) = programs.remove(&pid) else { continue };
        let exit = match libc::WIFSIGNALED(status) {
            true => Exit::Signal(libc::WTERMSIG(status)),
            false => Exit::Status(libc::WEXITSTATUS(status)),
        };
        let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
        let usage = Usage {
            user_us: us(used.ru_utime),
            system_us: us(used.ru_stime),
            // In KiB on Linux (getrusage(2)).
            peak_bytes: used.ru_maxrss as u64 * 1024,
        };
        let _ = send(socket, &FromInit::Ended { id, exit, usage }, &[]);
    }
}
