//! Namespaces for one lab, without other labs and networks, so that checks see only this lab.

use super::failure::{Failure, Outcome, eventually, expect};
use super::session::{MARK, Session};
use crate::common::Bed;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The namespaces of this thread, in which Thingbed runs; a web server is the outside.
pub struct Isolation {
    server: Child,
    mounts: String,
}

impl Isolation {
    /// Moves this thread into a new mount and network namespace.
    pub fn enter(bed: &Bed) -> Self {
        // SAFETY: affects only this thread; its child processes inherit it.
        let moved = unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWNET) };
        assert_eq!(moved, 0, "unshare: {}", std::io::Error::last_os_error());
        let ledger = lab::ledger_dir();
        fs::create_dir_all(&ledger).unwrap();
        mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE);
        mount(Some("tmpfs"), &ledger, Some("mode=700"), 0);
        fs::create_dir_all(bed.path().join("www")).unwrap();
        bed.write("www/hello", "from-outside\n");
        let set_up = "busybox ip link set lo up && busybox ip addr add 203.0.113.1/32 dev lo && \
                      exec busybox httpd -f -p 203.0.113.1:80 -h www";
        let mut server = Command::new("sh");
        server.args(["-c", set_up]).current_dir(bed.path()).stdin(Stdio::null());
        // SAFETY: a plain system call between fork and exec: the child ends with this thread.
        unsafe {
            server.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        Self { server: server.spawn().unwrap(), mounts: own("mountinfo") }
    }

    /// Fails if anything of the ended lab still exists.
    pub fn check_nothing_left(&self, session: &Session<'_>, after: &str) -> Outcome {
        let what = |what: &str| format!("{what} left after {after}");
        eventually(|| {
            let left = processes(&session.mark);
            expect(left.is_empty(), what("processes"), "none", left.join("\n"))
        })?;
        let interfaces: BTreeSet<String> = own("net/dev")
            .lines()
            .filter_map(|line| line.split_once(':').map(|(name, _)| name.trim().to_owned()))
            .collect();
        let only_loopback = interfaces.iter().all(|name| name == "lo");
        expect(only_loopback, what("interfaces"), "lo", format!("{interfaces:?}"))?;
        let mounts = own("mountinfo");
        expect(mounts == self.mounts, what("mounts"), self.mounts.clone(), mounts)?;
        eventually(|| {
            let groups = groups(session.pid);
            expect(groups.is_empty(), what("control groups"), "none", format!("{groups:?}"))
        })?;
        for folder in [lab::ledger_dir(), session.bed.path().join("tmp")] {
            let left = names(&folder);
            let what = what(&format!("files in {}", folder.display()));
            expect(left.is_empty(), what, "none", format!("{left:?}"))?;
        }
        let runs = session.bed.path().join("runs").join(&session.scenario.name);
        for run in names(&runs) {
            let keys: Vec<_> = names(&runs.join(run).join("programs"))
                .into_iter()
                .filter(|name| name.contains("tls"))
                .collect();
            // A killed process cannot remove its keys.
            let killed = after.contains("kill");
            expect(killed || keys.is_empty(), what("keys"), "none", format!("{keys:?}"))?;
        }
        Ok(())
    }
}

impl Drop for Isolation {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn mount(kind: Option<&str>, at: &Path, options: Option<&str>, flags: libc::c_ulong) {
    let text = |text: &str| CString::new(text).unwrap();
    let (at, kind, options) =
        (text(&at.display().to_string()), text(kind.unwrap_or("none")), options.map(text));
    let data = options.as_ref().map_or(std::ptr::null(), |options| options.as_ptr().cast());
    // SAFETY: all texts outlive the call.
    let done = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, data) };
    assert_eq!(done, 0, "mount {at:?}: {}", std::io::Error::last_os_error());
}

/// A file of `/proc` about this thread's namespaces.
fn own(name: &str) -> String {
    fs::read_to_string(Path::new("/proc/thread-self").join(name)).unwrap_or_default()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Processes with the mark, in any namespace: process id and command line.
fn processes(mark: &str) -> Vec<String> {
    let entry = format!("{MARK}={mark}\0");
    let marked = |pid: &String| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.windows(entry.len()).any(|window| window == entry.as_bytes())
    };
    let command = |pid: String| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("{pid} {}", line.replace('\0', " "))
    };
    let pids = names(Path::new("/proc")).into_iter();
    let pids = pids.filter(|name| name.parse::<u32>().is_ok());
    pids.filter(marked).map(command).collect()
}

/// Cgroup folders created by the lab's process.
fn groups(pid: u32) -> Vec<PathBuf> {
    let mounts = own("mountinfo");
    let mounts = mounts.lines().filter(|line| line.contains(" - cgroup"));
    let mut places: Vec<PathBuf> =
        mounts.filter_map(|line| line.split(' ').nth(4).map(PathBuf::from)).collect();
    let mut found = Vec::new();
    while let Some(place) = places.pop() {
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with(&format!("thingbed-{pid}-")) {
            found.push(place);
            continue;
        }
        let below = fs::read_dir(place).into_iter().flatten().flatten();
        places.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
    }
    found
}

/// Kills the lab's process as a crash does, then removes the leftovers with `gc`.
pub fn crash(session: &mut Session<'_>) -> Result<(), Failure> {
    session.typed.push(format!("kill -9 {}; sleep 1", session.pid));
    // SAFETY: a plain system call on a process that this test started.
    unsafe { libc::kill(session.pid as i32, libc::SIGKILL) };
    let (mark, pid) = (session.mark.clone(), session.pid);
    eventually(|| {
        let left = processes(&mark);
        let what = format!("processes left after kill -9 {pid}");
        expect(left.is_empty(), what, "none", left.join("\n"))
    })?;
    session.expect(&["ps"], 1)?;
    session.expect(&["gc"], 0).map(drop)
}
