//! Missing features of this machine, their effect and the command that fixes each.

mod boundary;
mod clock;
mod finding;
mod machine;
mod vlan;

use crate::environment::{current_exe, workload_program};
use crate::{Status, say};
use finding::{Finding, Grade};
use lab::Link;
use std::fs;
use std::process::Command;

/// Checks the machine and prints the findings.
pub fn doctor(json: bool) -> Status {
    // What all runs need comes first, what only some features need after it.
    let findings = [
        rights(),
        tun(),
        frame_path(),
        node(),
        limits(),
        boundary::boundary(),
        boundary::own_users(),
        netem(),
        vlan::interfaces(),
        real_time(),
        files(),
        processors(),
        memory(),
        pressure(),
        zeromq(),
        services(),
        machine::machines(),
        machine::emulators_of_programs(),
        tshark(),
        clock::virtual_time(),
        clock::virtual_cpu(),
    ];
    if json {
        say(serde_json::to_string_pretty(&findings).unwrap_or_default());
    } else {
        for finding in &findings {
            let mark = match finding.grade {
                Grade::Good => "ok      ",
                Grade::Lacking => "degraded",
                Grade::Missing => "MISSING ",
            };
            say(format_args!("{mark}  {:24} {}", finding.what, finding.found));
            for (word, text) in [("effect", &finding.effect), ("fix", &finding.fix)] {
                if !text.is_empty() {
                    say(format_args!("          {word:>24}: {text}"));
                }
            }
        }
        say(format_args!("\n{}", conclusion(&findings)));
    }
    // Degraded features are no error: scripts use the status to decide whether runs can start.
    match findings.iter().any(|finding| finding.grade == Grade::Missing) {
        true => Status::Failed,
        false => Status::Fine,
    }
}

/// The last line: whether experiments can run, and with how many features missing.
fn conclusion(findings: &[Finding]) -> String {
    let count = |grade| findings.iter().filter(|finding| finding.grade == grade).count();
    let is_virtual = |finding: &&Finding| finding.what == "virtual time";
    let virtual_works = findings.iter().find(is_virtual).is_some_and(|f| f.grade == Grade::Good);
    match (count(Grade::Missing), count(Grade::Lacking)) {
        (0, 0) => "Experiments can run on this machine, with all features.".to_owned(),
        (0, few) => format!(
            "Experiments can run on this machine. {few} of {} features are degraded: see `effect` \
             and `fix`.",
            findings.len()
        ),
        (_, _) if virtual_works => {
            "Experiments CANNOT run in real time on this machine: run the commands after `fix`. They \
             can run in virtual time, with --clock virtual."
                .to_owned()
        }
        (few, _) => format!(
            "Experiments CANNOT run on this machine: {few} required feature{} missing. Run the \
             commands after `fix`.",
            if few == 1 { " is" } else { "s are" }
        ),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn rights() -> Finding {
    let what = "rights";
    // SAFETY: asks for this process's user.
    if unsafe { libc::geteuid() } == 0 {
        return Finding::good(what, "root");
    }
    // The kernel's switch, then Debian's and Ubuntu's; where the kernel lacks the last two, they
    // read as empty, which is no refusal.
    let allowed = read("/proc/sys/user/max_user_namespaces").parse::<u64>().unwrap_or(0) > 0
        && read("/proc/sys/kernel/unprivileged_userns_clone") != "0"
        && read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") != "1";
    match allowed {
        true => Finding::bad(
            what,
            Grade::Lacking,
            "not root; user namespaces are allowed",
            "no CPU and memory limits without a delegated cgroup, no real-time priority for \
             forwarding, and node transmit queues limited to 500 frames",
            "run as root",
        ),
        false => Finding::bad(
            what,
            Grade::Missing,
            "not root, and user namespaces are not allowed",
            "no node can be started",
            "run as root, or as root once: sysctl -w user.max_user_namespaces=10000 \
             kernel.unprivileged_userns_clone=1 (Ubuntu 24.04: also \
             kernel.apparmor_restrict_unprivileged_userns=0)",
        ),
    }
}

fn tun() -> Finding {
    let what = "TUN/TAP driver";
    match fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => Finding::good(what, "/dev/net/tun can be opened"),
        Err(error) => Finding::bad(
            what,
            Grade::Lacking,
            format!("/dev/net/tun: {error}"),
            match runner::can_have_ring() {
                Ok(()) => "the frame path `tap`, the fallback without BPF, does not work",
                Err(_) => {
                    "Thingbed falls back to packet sockets over veth pairs: a lower frame rate"
                }
            },
            match error.kind() {
                std::io::ErrorKind::PermissionDenied => "as root: chmod 666 /dev/net/tun",
                _ => "as root: modprobe tun; in a container: --device /dev/net/tun",
            },
        ),
    }
}

fn frame_path() -> Finding {
    let what = "frame path";
    match runner::can_have_ring() {
        Ok(()) => Finding::good(what, "ring: BPF ring buffer (fastest)"),
        Err(error) if lab::can_have_taps() => Finding::bad(
            what,
            Grade::Lacking,
            format!("tap: one read per frame, because: {error}"),
            "a lower frame rate, and a frame's delay starts only when Thingbed reads it",
            "run as root, or: setcap cap_bpf,cap_net_admin+ep on the program; needs Linux 5.12 or \
             later with clsact and cls_bpf",
        ),
        Err(_) => Finding::bad(
            what,
            Grade::Lacking,
            "packet: veth pairs and packet sockets, because /dev/net/tun cannot be opened",
            "a lower frame rate",
            "run as root, or as root once: chmod 666 /dev/net/tun",
        ),
    }
}

/// End-to-end check: creates one node and removes it.
fn node() -> Finding {
    let what = "nodes";
    let tool = std::env::current_exe().unwrap_or_default();
    // As a run would choose it, so that the check does not fail where runs work.
    let link = if lab::can_have_taps() { Link::Tap } else { Link::Veth };
    match lab::try_node(&tool, link) {
        Ok(()) => Finding::good(what, "a node with a link was started and removed"),
        Err(error) => {
            let text = error.to_string();
            let (found, fix) = text.split_once('\n').unwrap_or((&text, ""));
            Finding::bad(what, Grade::Missing, found, "no experiment can run", fix.trim())
        }
    }
}

fn limits() -> Finding {
    let what = "cgroup limits";
    match lab::can_limit() {
        Ok(version) => Finding::good(what, version),
        Err(why) => Finding::bad(
            what,
            Grade::Lacking,
            why,
            "experiments with `limits` are rejected",
            "run as root, or: systemd-run --user --scope -p Delegate=yes thingbed ...",
        ),
    }
}

fn netem() -> Finding {
    let what = "netem";
    match lab::try_netem(&current_exe()) {
        Ok(()) => Finding::good(what, "netem works in both directions of a link"),
        Err(error) => Finding::bad(
            what,
            Grade::Lacking,
            error.to_string().lines().next().unwrap_or_default(),
            "networks with `backend: netem` are rejected; Thingbed's own emulation does not need \
             netem",
            "as root: modprobe sch_netem (Fedora: package kernel-modules-extra)",
        ),
    }
}

fn real_time() -> Finding {
    let what = "real-time priority";
    // In a thread that ends at once: the priority must not stay with the checks after it.
    let tried = std::thread::spawn(|| {
        // Any priority above 0 shows the permission; the engine's is not needed for that.
        let param = libc::sched_param { sched_priority: 10 };
        // SAFETY: the parameter outlives the call; 0 is this thread, which ends right after.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param) == 0 }
    });
    match tried.join().unwrap_or(false) {
        true => Finding::good(what, "SCHED_FIFO for forwarding"),
        false => Finding::bad(
            what,
            Grade::Lacking,
            "SCHED_FIFO is refused",
            "forwarding is late on busy CPUs: 0.1-4 ms instead of 0.02 ms at p99",
            "run as root, or: setcap cap_sys_nice+ep on the program",
        ),
    }
}

fn files() -> Finding {
    let what = "open files";
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to one limit, which outlives the call.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    // As `lab` counts: four descriptors per node while nodes start, and a reserve.
    let nodes = limit.rlim_max.saturating_sub(256) / 4;
    let found = format!("at most {}, enough for {nodes} nodes", limit.rlim_max);
    match nodes >= 1_000 {
        true => Finding::good(what, found),
        false => Finding::bad(
            what,
            Grade::Lacking,
            found,
            "experiments with more nodes are rejected",
            "as root: ulimit -Hn 20000, or LimitNOFILE= in systemd",
        ),
    }
}

fn processors() -> Finding {
    let what = "processors";
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    match count {
        1 => Finding::bad(
            what,
            Grade::Lacking,
            "1",
            "forwarding and programs compete for one CPU, so runs are suspect more often",
            "use a machine with two or more",
        ),
        _ => Finding::good(what, count.to_string()),
    }
}

fn memory() -> Finding {
    let what = "memory";
    let meminfo = read("/proc/meminfo");
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.and_then(|l| l.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0);
    let found = format!("{:.1} GiB available", kib as f64 / 1_048_576.0);
    match kib > 1_048_576 {
        true => Finding::good(what, found),
        false => Finding::bad(
            what,
            Grade::Lacking,
            found,
            "experiments with hundreds of programs fail: each needs about 6 MB",
            "close other programs, or add memory",
        ),
    }
}

fn pressure() -> Finding {
    let what = "pressure stall information";
    match fs::read_to_string("/proc/pressure/cpu") {
        Ok(_) => Finding::good(what, "/proc/pressure/cpu"),
        Err(error) => Finding::bad(
            what,
            Grade::Lacking,
            format!("/proc/pressure/cpu: {error}"),
            "verdicts cannot use CPU pressure as evidence",
            "boot with psi=1",
        ),
    }
}

fn zeromq() -> Finding {
    let what = "ZeroMQ with PGM";
    let effect = "the interaction model pgm/publish-subscribe cannot run";
    let fix = "Debian and Ubuntu: apt install libzmq5; elsewhere: build libzmq --with-pgm";
    let program = workload_program();
    let answer = Command::new(&program).arg("zmq-info").output();
    let info: serde_json::Value = match answer {
        Ok(out) if out.status.success() => serde_json::from_slice(&out.stdout).unwrap_or_default(),
        Ok(out) => {
            let words = String::from_utf8_lossy(&out.stderr).trim().to_owned();
            let found = format!("{} cannot start: {words}", program.display());
            return Finding::bad(what, Grade::Lacking, found, "no interaction can run", fix);
        }
        Err(error) => {
            return Finding::bad(
                what,
                Grade::Lacking,
                format!("{}: {error}", program.display()),
                "no interaction can run",
                "put thingbed-workload next to thingbed, or into PATH",
            );
        }
    };
    let version = info["version"].as_str().unwrap_or("?");
    match info["pgm"].as_bool() {
        Some(true) => Finding::good(what, format!("libzmq {version} with PGM")),
        _ => {
            Finding::bad(what, Grade::Lacking, format!("libzmq {version} without PGM"), effect, fix)
        }
    }
}

/// Helper programs for `nat`, `dhcp`, `dns`, `mqtt` and `address: dhcp`.
fn services() -> Finding {
    let what = "network services";
    let needs = [
        ("slirp4netns", "`nat`", "slirp4netns"),
        ("dnsmasq", "`dhcp` and `dns`", "dnsmasq-base"),
        ("busybox", "`address: dhcp`", "busybox-static"),
        ("mosquitto", "`broker: mosquitto`", "mosquitto"),
    ];
    // dnsmasq and mosquitto are in /usr/sbin, which may not be in a user's PATH.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let is_installed = |name: &str| {
        path.split(':').any(|dir| fs::exists(format!("{dir}/{name}")).is_ok_and(|is| is))
    };
    let missing: Vec<_> = needs.into_iter().filter(|(name, ..)| !is_installed(name)).collect();
    if missing.is_empty() {
        return Finding::good(what, "slirp4netns, dnsmasq, busybox and mosquitto");
    }
    let join = |texts: Vec<&str>| texts.join(", ");
    Finding::bad(
        what,
        Grade::Lacking,
        format!("not found: {}", join(missing.iter().map(|(name, ..)| *name).collect())),
        &format!("{} cannot be used", join(missing.iter().map(|(_, effect, _)| *effect).collect())),
        &format!(
            "apt install {}",
            missing.iter().map(|(_, _, fix)| *fix).collect::<Vec<_>>().join(" ")
        ),
    )
}

fn tshark() -> Finding {
    let what = "tshark";
    match Command::new("tshark").arg("--version").output() {
        Ok(out) => {
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            Finding::good(what, text.lines().next().unwrap_or_default().to_owned())
        }
        Err(_) => Finding::bad(
            what,
            Grade::Lacking,
            "not found",
            "Thingbed still captures frames, but you cannot view them here, and tests skip \
             the comparison with tshark",
            "apt install tshark",
        ),
    }
}
