//! Nodes with a separate root file system, made of busybox.

use lab::{Event, Exit, Failure, Lab, Limits, Link, Member, NodeSpec, Program, Root, Setting};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
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
    Setting { root: Some(Root { lower, env, cwd, user }), ..Setting::default() }
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
    let mut heard = [0; 7];
    File::from(pty.master).read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello\r\n", "what a terminal makes of it");
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
