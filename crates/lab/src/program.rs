//! Starts a program in a node, and explains why one cannot start.

use crate::boundary::{Seal, close_from};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::root::Home;
use crate::users::Users;
use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};
use std::ffi::CString;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Descriptor of a program's control socket.
const PROGRAM_CONTROL: RawFd = 3;
/// The default search path of programs on nodes with a separate root.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program to start.
#[derive(Debug)]
pub(crate) struct Start {
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: String,
    /// Its standard output and standard error, and if it belongs to the tool, its control socket
    /// and, on a node with a separate root, the mount namespace with the host's files.
    pub fds: Vec<OwnedFd>,
    pub control: bool,
}

/// The node's own resources, as seen by its programs.
#[derive(Debug)]
pub(crate) struct Own {
    pub home: Option<Home>,
    pub clock: Option<Clock>,
    /// The limits of programs that do not belong to the tool.
    pub seal: Seal,
}

/// Starts the program; returns its process id. In a node with a separate root, programs see only
/// that root. The tool's own programs are an exception: they need the host's libraries and use the
/// machine's clock.
pub(crate) fn start(start: Start, own: &Own) -> Result<i32, Failure> {
    let home = own.home.as_ref();
    let Start { argv, env, cwd, fds, control } = start;
    let mut fds = fds.into_iter();
    let (Some(program), Some(stdout), Some(stderr)) = (argv.first(), fds.next(), fds.next()) else {
        return Err(Failure::of("start a program without a name", Errno::EINVAL));
    };
    let control = if control { fds.next() } else { None };
    let host = fds.next();
    let mut command = Command::new(program);
    command.args(&argv[1..]).process_group(0);
    if let (Some(clock), None) = (&own.clock, &control) {
        clock.give(&mut command);
    }
    let mut folder = cwd;
    match home {
        None => drop(command.current_dir(&folder)),
        Some(_) if control.is_some() => use_host_files(&mut command, host.as_ref(), &folder)?,
        Some(home) => {
            folder.clone_from(&home.root.cwd);
            // First, because the kernel gives all capabilities in a namespace to who enters it.
            become_root(&mut command, home);
            own.seal.bound(&mut command);
            use_node_root(&mut command, home, [&stdout, &stderr]);
        }
    }
    if home.is_none() && control.is_none() {
        own.seal.bound(&mut command);
    }
    // After those of the root, so that the experiment's variables win.
    command.envs(env);
    command.stdin(Stdio::null()).stdout(Stdio::from(stdout)).stderr(Stdio::from(stderr));
    clean_signals(&mut command);
    match &control {
        Some(control) => give(&mut command, control),
        None => own.seal.close(&mut command, PROGRAM_CONTROL as u32),
    }
    match command.spawn() {
        // The init reaps it and reports its usage.
        Ok(child) => Ok(child.id() as i32),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            let seen_here = home.is_none() || control.is_none();
            let tried = match errno {
                libc::ENOENT if seen_here => missing(program, &folder, &path_of(&command)),
                _ => format!("start {program} in {folder}"),
            };
            let whose = if home.is_some() && seen_here { ", in the node's root" } else { "" };
            Err(Failure { tried: format!("{tried}{whose}"), errno })
        }
    }
}

/// Lets a program see the host's files, and start in `folder`.
fn use_host_files(
    command: &mut Command,
    host: Option<&OwnedFd>,
    folder: &str,
) -> Result<(), Failure> {
    let missing = || Failure::of("find the host's files for a program of Thingbed", Errno::EBADF);
    let host = host.ok_or_else(missing)?.as_raw_fd();
    let folder = CString::new(folder)
        .map_err(|_| Failure::of(format!("start in {folder:?}"), Errno::EINVAL))?;
    // SAFETY: only system calls between fork and exec; the descriptor lives until the program has
    // started.
    unsafe {
        command.pre_exec(move || {
            if libc::setns(host, libc::CLONE_NEWNS) < 0 || libc::chdir(folder.as_ptr()) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    Ok(())
}

/// Lets a program be a user of the node, if the node has its own.
fn become_root(command: &mut Command, home: &Home) {
    let Some(users) = home.users.as_ref().map(Users::entrance) else { return };
    // SAFETY: only system calls between fork and exec; the descriptor is the init's and lives as
    // long as the init.
    unsafe { command.pre_exec(move || crate::users::become_root(users)) };
}

/// Sets the environment, directory and user of the node's root.
fn use_node_root(command: &mut Command, home: &Home, outputs: [&OwnedFd; 2]) {
    command.env_clear().env("PATH", PATH).env("HOME", &home.who.home);
    if let Ok(name) = nix::unistd::gethostname() {
        command.env("HOSTNAME", name);
    }
    command.envs(home.root.env.iter().map(|(key, value)| (key, value)));
    command.current_dir(&home.root.cwd);
    let ids = home.users.as_ref().map(|users| users.ids);
    let (user, group) = (home.who.uid, home.who.gid);
    let (user, group) = ids.map_or((user, group), |ids| (ids.user(user), ids.group(group)));
    if (user, group) != (0, 0) {
        for output in outputs.into_iter().filter(|output| is_own_file(output)) {
            // Many programs reopen /dev/stdout by name.
            let _ = nix::unistd::fchown(output, Some(user.into()), Some(group.into()));
        }
    }
    if home.who.is_root() {
        return;
    }
    let who = home.who.clone();
    // SAFETY: only system calls between fork and exec.
    unsafe { command.pre_exec(move || who.switch_user()) };
}

/// Whether a program's output is a file or a pipe: a device, such as /dev/null, is the machine's, and
/// keeps its owner.
fn is_own_file(output: &OwnedFd) -> bool {
    let kind =
        fstat(output).map_or(SFlag::S_IFCHR, |found| SFlag::from_bits_truncate(found.st_mode));
    [SFlag::S_IFREG, SFlag::S_IFIFO].contains(&(kind & SFlag::S_IFMT))
}

/// Resets signals: exec keeps ignored and blocked signals, which programs do not expect. The fork
/// server ignores a terminal's Ctrl-C, the tool SIGXFSZ, the init blocks SIGCHLD.
fn clean_signals(command: &mut Command) {
    // SAFETY: only system calls between fork and exec; an all-zero set is valid.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            Ok(())
        });
    }
}

fn give(command: &mut Command, control: &OwnedFd) {
    let fd = control.as_raw_fd();
    command.env("THINGBED_CONTROL_FD", PROGRAM_CONTROL.to_string());
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            let kept = match fd == PROGRAM_CONTROL {
                true => libc::fcntl(fd, libc::F_SETFD, 0),
                false => libc::dup2(fd, PROGRAM_CONTROL),
            };
            if kept < 0 {
                return Err(std::io::Error::last_os_error());
            }
            close_from(PROGRAM_CONTROL as u32 + 1)
        });
    }
}

/// The PATH in which the program is searched.
fn path_of(command: &Command) -> String {
    let own = command.get_envs().find(|(key, _)| *key == "PATH");
    match own {
        Some((_, value)) => value.unwrap_or_default().to_string_lossy().into_owned(),
        None => std::env::var("PATH").unwrap_or_default(),
    }
}

/// The failed step for a program that could not start because a file is missing; the kernel does
/// not report which.
fn missing(program: &str, folder: &str, path: &str) -> String {
    if !Path::new(folder).is_dir() {
        return format!("start {program} in {folder}: the folder does not exist");
    }
    let file = match program.contains('/') {
        true => Path::new(folder).join(program),
        false => {
            let found = path.split(':').map(|dir| Path::new(dir).join(program));
            match found.into_iter().find(|file| file.exists()) {
                Some(file) => file,
                None => return format!("find {program} in PATH ({path})"),
            }
        }
    };
    match file.exists() {
        true => format!("start {}, which exists, but {}", file.display(), needs(&file)),
        false => format!("start {program} in {folder}"),
    }
}

/// The missing dependency of an existing program.
fn needs(file: &PathBuf) -> String {
    let mut begin = [0; 128];
    let read = std::fs::File::open(file).and_then(|mut file| file.read(&mut begin));
    let line = String::from_utf8_lossy(&begin[..read.unwrap_or(0)]).into_owned();
    match line.strip_prefix("#!").and_then(|rest| rest.split_whitespace().next()) {
        Some(interpreter) => format!("not {interpreter}, the interpreter of its first line"),
        None => "not the loader (ld.so) or a library that it needs".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert!(
            missing("sh", "/no/where", "/bin").contains("/no/where: the folder does not exist")
        );
        let text = missing("no-such-program", "/", "/bin:/sbin");
        assert_eq!(text, "find no-such-program in PATH (/bin:/sbin)");
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/no/interpreter -x\n").unwrap();
        let text = missing(&script.display().to_string(), "/", "");
        assert!(text.contains("not /no/interpreter, the interpreter"), "{text}");
    }
}
