//! Nodes with a separate root file system, made of busybox.

use lab::{Event, Exit, Failure, Lab, Limits, Link, Member, NodeSpec, Program, Root, Setting};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A folder with little more than busybox; `None` without busybox.
fn system() -> Option<TempDir> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].iter().find(|path| Path::new(path).exists());
    let Some(busybox) = busybox else {
        eprintln!("NOT RUN: needs busybox-static");
        return None;
    };
    let dir = tempfile::tempdir().unwrap();
    for folder in ["bin", "etc", "srv"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    fs::copy(busybox, dir.path().join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "ls", "id", "pwd", "env", "hostname", "stty", "head", "wc", "touch"] {
        symlink("busybox", dir.path().join("bin").join(name)).unwrap();
    }
    let users = "root:x:0:0::/root:/bin/sh\nmeter:x:1000:1000::/srv:/bin/sh\n";
    fs::write(dir.path().join("etc/passwd"), users).unwrap();
    fs::write(dir.path().join("etc/group"), "meter:x:1000:\nlogs:x:7:meter\n").unwrap();
    symlink("/etc/hostname.of.the.host", dir.path().join("etc/resolv.conf")).unwrap();
    fs::write(dir.path().join("srv/below"), "below\n").unwrap();
    Some(dir)
}

fn up(roots: Vec<Setting>) -> Result<Lab, lab::Error> {
    let member = |(i, setting): (usize, Setting)| Member {
        spec: NodeSpec { name: format!("node-{i}"), interfaces: Vec::new(), setting },
        limits: Limits::default(),
    };
    let members: Vec<_> = roots.into_iter().enumerate().map(member).collect();
    let fork_server = Path::new(env!("CARGO_BIN_EXE_thingbed-fork-server"));
    Lab::up(fork_server, &members, "127.0.0.1 localhost\n10.0.0.2 gateway\n", Link::Tap)
        .map(|up| up.0)
}

fn setting(lower: &Path, user: &str) -> Setting {
    let env = vec![("PATH".to_owned(), "/bin".to_owned()), ("COLOUR".to_owned(), "red".to_owned())];
    let (lower, cwd, user) = (lower.to_owned(), "/srv".to_owned(), user.to_owned());
    Setting { root: Some(Root { lower, env, cwd, user, emulator: None }), ..Setting::default() }
}

/// How a program ended, or why it did not start, and its output.
fn run(lab: &Lab, node: usize, argv: &[&str], own: bool) -> (Result<Exit, Failure>, String) {
    let mut output: File = tempfile::tempfile().unwrap();
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let program = Program {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        env: vec![("SIZE".into(), "7".into())],
        cwd: "/usr".into(),
        stdout: output.try_clone().unwrap().into(),
        stderr: output.try_clone().unwrap().into(),
        control: own.then(|| OwnedFd::from(theirs)),
    };
    lab.nodes()[node].kind.run(1, program).unwrap();
    let ended = loop {
        match lab.events().recv_timeout(Duration::from_secs(120)).unwrap() {
            Event::Ended { exit, .. } => break Ok(exit),
            Event::NotStarted { failure, .. } => break Err(failure),
            Event::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    };
    drop(ours);
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    (ended, text.trim().to_owned())
}

#[track_caller]
fn says(lab: &Lab, node: usize, line: &str) -> String {
    let (ended, text) = run(lab, node, &["sh", "-c", line], false);
    assert_eq!(ended, Ok(Exit::Status(0)), "{line}: {text}");
    text
}

#[test]
fn a_root_of_its_own_is_all_that_a_node_sees() {
    let Some(system) = system() else { return };
    let lab = up(vec![setting(system.path(), ""), setting(system.path(), "")]).unwrap();
    let top = says(&lab, 0, "ls /");
    for name in ["bin", "dev", "etc", "proc", "srv", "sys", "tmp"] {
        assert!(top.lines().any(|line| line == name), "no {name} in {top}");
    }
    assert_eq!(top.lines().count(), 7, "{top}");
    assert_eq!(says(&lab, 0, "pwd"), "/srv");
    assert_eq!(says(&lab, 0, "cat /etc/hostname; hostname"), "node-0\nnode-0");
    assert!(says(&lab, 0, "cat /etc/hosts").contains("10.0.0.2 gateway"));
    assert!(says(&lab, 0, "cat /etc/resolv.conf").starts_with('#'));
    let env = says(&lab, 0, "env");
    assert!(env.contains("COLOUR=red") && env.contains("SIZE=7") && env.contains("HOME=/root"));
    assert!(!env.contains("CARGO"), "nothing of the tool's: {env}");
    // Its own processes, and no mount of the host.
    let seen = says(&lab, 0, "ls -d /proc/[0-9]* | wc -l");
    assert!(seen.parse::<u32>().unwrap() <= 4, "{seen}");
    let mounts = says(&lab, 0, "cat /proc/mounts");
    let places: Vec<_> = mounts.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let own = ["/", "/proc", "/sys", "/dev"];
    // Parts of these are hidden or read-only by mounts.
    let below = ["/dev/", "/proc/", "/sys/"];
    let is_own = |p: &str| own.contains(&p) || below.iter().any(|dir| p.starts_with(dir));
    assert!(places.iter().all(|p| is_own(p)), "{mounts}");
    assert_eq!(
        says(&lab, 0, "ls /dev | cat; ls /dev/pts"),
        "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\nptmx"
    );
    assert_eq!(
        says(&lab, 0, "head -c 5 /dev/zero | wc -c; echo x > /dev/null; ls /sys/class/net"),
        "5\nlo"
    );
    let ends = says(&lab, 0, "echo to-stdout > /dev/stdout");
    assert_eq!(ends, "to-stdout");
}

#[test]
fn changes_are_the_nodes_own_and_go_with_it() {
    let Some(system) = system() else { return };
    let lab = up(vec![setting(system.path(), ""), setting(system.path(), "")]).unwrap();
    let line = "cat below; echo changed > below; : > new; busybox rm /bin/ls; cat below";
    assert_eq!(says(&lab, 0, line), "below\nchanged");
    assert_eq!(says(&lab, 0, "cat /srv/*"), "changed");
    assert_eq!(says(&lab, 1, "cat /srv/below; ls /srv"), "below\nbelow");
    drop(lab);
    assert_eq!(fs::read_to_string(system.path().join("srv/below")).unwrap(), "below\n");
    assert!(!system.path().join("srv/new").exists() && system.path().join("bin/ls").exists());
    let ours = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!ours.contains("overlay /tmp"), "{ours}");
}

#[test]
fn programs_run_as_whom_the_image_says() {
    let Some(system) = system() else { return };
    let root = nix::unistd::geteuid().is_root();
    for user in ["meter", "1000:7"] {
        match up(vec![setting(system.path(), user)]) {
            Ok(lab) => {
                assert!(says(&lab, 0, "id").starts_with("uid=1000"), "{user}");
                let says =
                    says(&lab, 0, "id -G; env; touch /srv/x || echo refused; echo y >>/dev/stdout");
                let groups = if user == "meter" { "1000 7" } else { "7" };
                assert!(says.starts_with(&format!("{groups}\n")), "{says}");
                assert!(says.contains("HOME=/srv") && says.ends_with("refused\ny"), "{says}");
            }
            Err(error) => assert!(!root && error.to_string().contains("run as root"), "{error}"),
        }
    }
    let text = up(vec![setting(system.path(), "stranger")]).unwrap_err().to_string();
    assert!(text.contains("node-0") && text.contains("`stranger`"), "{text}");
}

/// A node whose programs have the host's users, which is what the tests compare with.
fn privileged(lower: &Path) -> Setting {
    Setting { privileged: true, ..setting(lower, "") }
}

/// The users of the host that the processes of a node are, except its init.
fn users_of(lab: &Lab, node: usize) -> Vec<u32> {
    let init = lab.nodes()[node].kind.pid();
    let others = lab::members(init).into_iter().filter(|pid| *pid != init);
    let user = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap().to_owned();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    others.map(user).collect()
}

/// Starts a program that waits.
fn wait_in(lab: &Lab, node: usize) {
    let null = || OwnedFd::from(File::options().write(true).open("/dev/null").unwrap());
    let argv = ["busybox", "sleep", "600"].map(str::to_owned).to_vec();
    let (stdout, stderr) = (null(), null());
    let program = Program { argv, env: vec![], cwd: "/".into(), stdout, stderr, control: None };
    lab.nodes()[node].kind.run(9, program).unwrap();
    let started = lab.events().recv_timeout(Duration::from_secs(120)).unwrap();
    assert_eq!(started, Event::Started { id: 9 });
}

#[test]
fn root_of_a_node_is_nobody_on_the_host() {
    let Some(system) = system() else { return };
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let nodes = [setting(system.path(), ""), setting(system.path(), "meter")];
    let lab = up([&nodes[..], &[privileged(system.path())]].concat()).unwrap();
    assert_eq!(lab.same_users(), None, "this machine cannot give nodes their own users");
    (0..3).for_each(|node| wait_in(&lab, node));
    let [first, second] = [0, 1].map(|node| users_of(&lab, node));
    assert!(first.len() == 1 && first[0] > 65_535, "{first:?}");
    assert!(
        second.len() == 1 && second[0] > 65_535 && second[0] % 65_536 == first[0] % 65_536 + 1000
    );
    assert!(first[0].abs_diff(second[0]) >= 65_536 - 1000, "{first:?} {second:?}");
    assert_eq!(users_of(&lab, 2), [0]);
    // Inside, nothing is different.
    assert_eq!(says(&lab, 0, "id -u; id -G"), "0\n0");
}

#[test]
fn files_belong_to_the_users_of_the_node() {
    let Some(system) = system() else { return };
    let lab = up(vec![setting(system.path(), "")]).unwrap();
    let of = |path: &str| says(&lab, 0, &format!("busybox stat -c %u:%g {path}"));
    for path in ["/", "/etc/passwd", "/etc/hosts", "/tmp", "/dev", "/dev/shm", "/srv/below"] {
        assert_eq!(of(path), "0:0", "{path}");
    }
    if nix::unistd::geteuid().is_root() {
        assert_eq!(of("/dev/null"), "0:0");
        let line = "cd /srv; touch new; busybox chown 1000:7 new below; busybox chmod 600 below; \
                    cat below; busybox stat -c %u:%g new below";
        assert_eq!(says(&lab, 0, line), "below\n1000:7\n1000:7");
        let below = fs::metadata(system.path().join("srv/below")).unwrap();
        assert_eq!(below.uid(), 0, "the image is as before");
    }
}

/// What failed before: root of a node changed the host's `/dev/null`, as did the start of a program of
/// another user whose output it is.
#[test]
fn devices_of_the_host_keep_their_owner_and_mode() {
    let Some(system) = system() else { return };
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let is = || {
        let null = fs::metadata("/dev/null").unwrap();
        [null.uid(), null.gid(), null.mode()]
    };
    let before = is();
    let nodes = vec![setting(system.path(), "meter"), privileged(system.path())];
    let lab = up(nodes).unwrap();
    wait_in(&lab, 0);
    assert_eq!(is(), before);
    let line =
        "busybox chown 7:7 /dev/null; busybox chmod 600 /dev/null; busybox stat -c %u:%a /dev/null";
    let inside = says(&lab, 1, line);
    let after = is();
    // Before any assertion, so that the machine stays usable.
    std::os::unix::fs::chown("/dev/null", Some(before[0]), Some(before[1])).unwrap();
    fs::set_permissions("/dev/null", fs::Permissions::from_mode(before[2] & 0o777)).unwrap();
    assert_eq!((inside.as_str(), after), ("7:600", before));
}

/// A descriptor of the host's folder that a program of the node has by mistake opens nothing more.
#[test]
fn a_leaked_descriptor_opens_no_file_of_the_host() {
    let Some(system) = system() else { return };
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let lab = up(vec![setting(system.path(), ""), privileged(system.path())]).unwrap();
    let host = tempfile::tempdir().unwrap();
    let secret = host.path().join("secret");
    let opened = |node: usize| {
        fs::write(&secret, "secret").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let pid = lab.nodes()[node].kind.pid();
        // Only children of the process that enters have a /proc/self there.
        let line = "cat /proc/self/fd/0/secret; busybox cp /srv/below /proc/self/fd/0/secret; true";
        let mut command = Command::new("/bin/busybox");
        command.args(["sh", "-c", line]).stdin(File::open(host.path()).unwrap());
        // SAFETY: the child has one thread; the allocator works after fork in this C library.
        unsafe { command.pre_exec(move || lab::enter(pid).map_err(std::io::Error::other)) };
        let answer = command.output().unwrap();
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        (text, fs::read_to_string(&secret).unwrap())
    };
    assert_eq!(opened(0), (String::new(), "secret".to_owned()));
    // That of the host's root would.
    assert_eq!(opened(1), ("secret".to_owned(), "below\n".to_owned()));
}

/// A program may not put a file of the host's root with the set-user-ID bit into the run folder.
#[test]
fn output_of_a_node_does_not_belong_to_the_hosts_root() {
    let Some(system) = system() else { return };
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let lab = up(vec![setting(system.path(), "")]).unwrap();
    let output = tempfile::NamedTempFile::new().unwrap();
    let file = || OwnedFd::from(File::options().write(true).open(output.path()).unwrap());
    let argv = ["sh", "-c", "busybox chmod 4755 /proc/self/fd/1"].map(str::to_owned).to_vec();
    let (stdout, stderr) = (file(), file());
    let program = Program { argv, env: vec![], cwd: "/".into(), stdout, stderr, control: None };
    lab.nodes()[0].kind.run(1, program).unwrap();
    let wait = || lab.events().recv_timeout(Duration::from_secs(120)).unwrap();
    while !matches!(wait(), Event::Ended { .. }) {}
    let meta = output.as_file().metadata().unwrap();
    assert!(meta.mode() & 0o4000 == 0 || meta.uid() != 0, "{:o} of {}", meta.mode(), meta.uid());
}

#[test]
fn the_tools_own_programs_see_the_host() {
    let Some(system) = system() else { return };
    let lab = up(vec![setting(system.path(), "meter")]).unwrap();
    let line = "pwd; hostname; ls -d /proc/[0-9]* | wc -l; cat /etc/hosts; id -u; test -d /home";
    let (ended, text) = run(&lab, 0, &["/bin/sh", "-c", line], true);
    assert_eq!(ended, Ok(Exit::Status(0)), "{text}");
    assert!(text.starts_with("/usr\nnode-0\n"), "{text}");
    assert!(text.contains("10.0.0.2 gateway") && text.ends_with("\n0"), "{text}");
}

#[test]
fn a_program_that_a_root_lacks_is_named() {
    let Some(system) = system() else { return };
    fs::write(system.path().join("bin/script"), "#!/bin/python\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(system.path().join("bin/script"), mode).unwrap();
    let lab = up(vec![setting(system.path(), "")]).unwrap();
    let (ended, _) = run(&lab, 0, &["mosquitto", "-v"], false);
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("find mosquitto in PATH (/bin), in the node's root"), "{text}");
    let (ended, _) = run(&lab, 0, &["script"], false);
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("/bin/script, which exists, but not /bin/python"), "{text}");
}

#[test]
fn a_root_that_is_not_there_is_named() {
    let text = up(vec![setting(Path::new("/no/such/root"), "")]).unwrap_err().to_string();
    assert!(text.contains("node-0") && text.contains("/no/such/root"), "{text}");
}

#[test]
fn a_device_is_passed_on_and_no_other() {
    let Some(system) = system() else { return };
    let pty = nix::pty::openpty(None, None).unwrap();
    let path = nix::unistd::ttyname(&pty.slave).unwrap();
    let with = |devices: Vec<PathBuf>| Setting { devices, ..setting(system.path(), "") };
    let lab = up(vec![with(vec![path.clone()]), setting(system.path(), "")]).unwrap();
    assert_eq!(
        says(&lab, 0, &format!("echo hello > {0}; ls {0}", path.display())),
        path.display().to_string()
    );
    let mut output = [0; 7];
    File::from(pty.master).read_exact(&mut output).unwrap();
    assert_eq!(&output, b"hello\r\n", "what a terminal makes of it");
    let line = format!("ls {} 2>&1 | head -n 1", path.display());
    assert!(says(&lab, 1, &line).contains("No such file"), "another node has none");
    drop(lab);

    for (device, why) in [("/dev/no-such-port", "is it plugged in"), ("/dev/shm", "ls -l")] {
        let plain = Setting { devices: vec![device.into()], ..Setting::default() };
        for setting in [with(vec![device.into()]), plain] {
            let text = up(vec![setting]).unwrap_err().to_string();
            assert!(text.contains("node-0") && text.contains(device), "{text}");
            assert!(text.contains(why), "{text}");
        }
    }
}
