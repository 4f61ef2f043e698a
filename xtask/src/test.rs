//! `cargo xtask test`: all tests, several test programs at a time.
//!
//! `cargo test` runs one program after the other, and most of ours wait for timers and other
//! processes, so that a machine with two cores is half idle.

use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// A program with tests.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    /// The crate's target, such as `links` or `units`.
    name: String,
    executable: PathBuf,
    /// The folder of the crate, the tests' working directory.
    folder: PathBuf,
}

/// Those that take longest, which begin first: at the end, one of them would run alone.
const SLOW: [&str; 12] = [
    "thingbed/virtual_time",
    "thingbed/capsules",
    "thingbed/ending",
    "thingbed/radio",
    "thingbed/collector",
    "runner",
    "thingbed/slurm",
    "thingbed/topologies",
    "measure",
    "analyze",
    "thingbed/director",
    "thingbed/devices",
];

/// Builds and runs all tests, `jobs` programs at a time, and those in the documentation meanwhile.
/// Returns the programs that failed.
///
/// # Errors
/// When they do not build or cargo does not run.
pub fn test(root: &Path, jobs: usize) -> Result<Vec<String>, String> {
    let begun = Instant::now();
    let mut programs = build(root)?;
    slow_first(&mut programs)?;
    println!("built {} test programs in {} s", programs.len(), begun.elapsed().as_secs());
    let waiting = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    let documentation = std::thread::scope(|scope| {
        let documentation = scope.spawn(|| documentation(root));
        // Without a thread, no test would run and none would fail.
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                // A function, so that the lock is not held while the program runs.
                let next = || lock(&waiting).pop_front();
                while let Some(program) = next() {
                    let started = Instant::now();
                    let output = run(&program);
                    let ok = output.as_ref().is_ok_and(|output| output.status.success());
                    // One text at a time: the lock is held while it is printed.
                    let mut failed = lock(&failed);
                    print(&program, output, started.elapsed().as_secs());
                    if !ok {
                        failed.push(program.name);
                    }
                }
            });
        }
        documentation.join()
    });
    let mut failed = failed.into_inner().unwrap_or_default();
    match documentation {
        Ok(Ok(())) => println!("documentation: ok"),
        Ok(Err(text)) => {
            println!("FAILED documentation:\n{text}");
            failed.push("documentation".to_owned());
        }
        Err(_) => failed.push("documentation".to_owned()),
    }
    println!("all tests took {} s with their build", begun.elapsed().as_secs());
    Ok(failed)
}

/// Puts the programs of [`SLOW`] first.
///
/// # Errors
/// When there is no program of such a name.
fn slow_first(programs: &mut [Program]) -> Result<(), String> {
    let lacking = |name: &&str| !programs.iter().any(|program| program.name == *name);
    if let Some(name) = SLOW.iter().copied().find(lacking) {
        return Err(format!("xtask/src/test.rs, SLOW: there is no test program {name}"));
    }
    let place = |name: &str| SLOW.iter().position(|slow| *slow == name).unwrap_or(SLOW.len());
    programs.sort_by_key(|program| place(&program.name));
    Ok(())
}

/// A panicked thread has printed its reason; the others go on.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn cargo(root: &Path) -> Command {
    // Cargo sets this to its path, so that the same version builds the tests.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    command
}

/// Builds all test programs.
fn build(root: &Path) -> Result<Vec<Program>, String> {
    let arguments = ["test", "--workspace", "--locked", "--no-run"];
    let messages = "--message-format=json-render-diagnostics";
    // The names of programs come as messages, and errors of the compiler as text.
    let built = cargo(root).args(arguments).arg(messages).stderr(Stdio::inherit()).output();
    let built = built.map_err(|error| format!("run cargo: {error}"))?;
    if !built.status.success() {
        return Err("the tests do not build".to_owned());
    }
    Ok(String::from_utf8_lossy(&built.stdout).lines().filter_map(program).collect())
}

/// Runs the examples in the documentation of crates.
///
/// # Errors
/// What was printed, if one fails or cargo does not run.
fn documentation(root: &Path) -> Result<(), String> {
    let output = cargo(root).args(["test", "--doc", "--workspace", "--locked", "--quiet"]).output();
    let output = output.map_err(|error| format!("run cargo: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(String::from_utf8_lossy(&text).into_owned())
}

/// The test program that a message of cargo is about, if any.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let executable = message["executable"].as_str().filter(|_| is_test)?;
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let crate_name = folder.file_name()?.to_string_lossy().into_owned();
    let target = message["target"]["name"].as_str()?;
    Some(Program {
        name: if crate_name == target { crate_name } else { format!("{crate_name}/{target}") },
        executable: executable.into(),
        folder: folder.to_owned(),
    })
}

/// Time for one program with tests, in seconds: several times what the slowest takes on a busy machine.
const LIMIT: u64 = 1500;

/// Runs a program within [`LIMIT`], with the default action for SIGINT, which a shell sets to
/// "ignore" for what it starts in the background. The output goes to files: a process that a test
/// leaves behind would keep a pipe open.
fn run(program: &Program) -> std::io::Result<Output> {
    let files = ["out", "err"].map(|kind| program.executable.with_extension(kind));
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", "timeout", "--kill-after=10", &LIMIT.to_string()]);
    command.arg(&program.executable);
    // As `cargo test` does it.
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.stdout(File::create(&files[0])?).stderr(File::create(&files[1])?);
    let status = command.stdin(Stdio::null()).status()?;
    let [stdout, mut stderr] = [std::fs::read(&files[0])?, std::fs::read(&files[1])?];
    // The exit status of `timeout` for a program that ran too long.
    if status.code() == Some(124) {
        stderr.extend(format!("stopped after {LIMIT} s\n").into_bytes());
    }
    Ok(Output { status, stdout, stderr })
}

/// Prints the whole output of a program that failed, and the result of one that did not.
fn print(program: &Program, output: std::io::Result<Output>, seconds: u64) {
    let mut out = std::io::stdout().lock();
    let text = match output {
        Err(error) => format!("FAILED {}: {error}\n", program.name),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let result = text.lines().rfind(|line| line.starts_with("test result"));
            match (output.status.success(), result) {
                (true, Some(result)) => format!("{}: {result}, {seconds} s\n", program.name),
                (true, None) => format!("{}: {}, {seconds} s\n", program.name, text.trim()),
                (false, _) => {
                    let errors = String::from_utf8_lossy(&output.stderr);
                    format!("FAILED {} ({}):\n{text}{errors}\n", program.name, output.status)
                }
            }
        }
    };
    // A closed output does not change the result.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script as if it were a program with tests.
    fn ran(script: &str) -> Output {
        let folder =
            std::env::temp_dir().join(format!("xtask-{}-{}", std::process::id(), script.len()));
        std::fs::create_dir_all(&folder).unwrap();
        let executable = folder.join("program");
        std::fs::write(&executable, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&executable, mode).unwrap();
        let output = run(&Program { name: String::new(), executable, folder: folder.clone() });
        std::fs::remove_dir_all(&folder).unwrap();
        output.unwrap()
    }

    #[test]
    fn programs_end_by_sigint_and_do_not_wait_for_what_they_leave_behind() {
        // The second is left behind, with the output open.
        let output =
            ran("echo begun; sleep 1000 & kill $!; sleep 10 & kill -INT $$; echo not seen");
        assert!(!output.status.success());
        assert_eq!(String::from_utf8_lossy(&output.stdout), "begun\n");
        assert!(ran("exit 0").status.success());
    }

    #[test]
    fn the_slowest_programs_begin_first() {
        let of = |name: &str| Program {
            name: name.to_owned(),
            executable: PathBuf::new(),
            folder: PathBuf::new(),
        };
        let mut programs: Vec<Program> =
            ["units", "link"].iter().chain(SLOW.iter().rev()).map(|name| of(name)).collect();
        slow_first(&mut programs).unwrap();
        let names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
        assert_eq!(names, [&SLOW[..], &["units", "link"]].concat());
        assert!(slow_first(&mut programs[1..]).unwrap_err().contains(SLOW[0]));
    }

    #[test]
    fn only_test_programs_are_run() {
        let message = |test: bool, executable: Value| {
            serde_json::json!({"reason": "compiler-artifact", "profile": {"test": test},
                "manifest_path": "/r/crates/units/Cargo.toml", "executable": executable,
                "target": {"name": "draws"}})
            .to_string()
        };
        let found = program(&message(true, "/t/draws-1".into())).unwrap();
        assert_eq!(found.name, "units/draws");
        assert_eq!(found.folder, Path::new("/r/crates/units"));
        assert_eq!(program(&message(false, "/t/thingbed".into())), None);
        assert_eq!(program(&message(true, Value::Null)), None);
        assert_eq!(program("not JSON"), None);
    }
}
