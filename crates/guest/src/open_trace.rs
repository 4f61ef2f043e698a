//! Traces the names of files that programs of a guest open. A file that is on the host but not in
//! the guest is missing, and its program may fail without an error.

use nix::mount::{MsFlags, mount};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Mount point of the kernel's tracefs.
const TRACING: &str = "/sys/kernel/tracing";
/// Kprobes at the functions in which all system calls copy a path from a program; compilers may
/// inline one into the other.
const PROBES: [&str; 2] = ["getname", "getname_flags"];
const ENABLE: &str = "events/thingbed/enable";
/// Size of the trace buffer in KiB; later entries are dropped.
const KIB: &str = "4096";
/// Maximum number of names.
const MOST: usize = 10_000;
/// Paths that programs open without needing them, or that each guest has itself.
const USUAL: [&str; 28] = [
    "/dev",
    "/proc",
    "/sys",
    "/run",
    "/tmp",
    "/var/run",
    "/var/tmp",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/subgid",
    "/etc/subuid",
    "/etc/protocols",
    "/etc/networks",
    "/etc/inputrc",
    "/etc/terminfo",
    "/etc/machine-id",
    "/etc/debian_version",
    "/lib/terminfo",
    "/usr/lib/locale",
    "/usr/lib/ssl",
    "/usr/share/locale",
    "/usr/share/terminfo",
    "/usr/share/zoneinfo",
    "/usr/lib/x86_64-linux-gnu/gconv",
];

/// Starts the trace, if the kernel supports it.
pub(crate) fn begin() -> io::Result<()> {
    mount(Some("tracefs"), TRACING, Some("tracefs"), MsFlags::empty(), None::<&str>)?;
    let write = |name: &str, text: &str| fs::write(Path::new(TRACING).join(name), text);
    write("buffer_size_kb", KIB)?;
    write("options/overwrite", "0")?;
    let mut probes =
        OpenOptions::new().append(true).open(Path::new(TRACING).join("kprobe_events"))?;
    for function in PROBES {
        let probe = format!("p:thingbed/{function} {function} name=+0($arg1):ustring\n");
        probes.write_all(probe.as_bytes())?;
    }
    write(ENABLE, "1")
}

/// The traced names.
pub(crate) fn end() -> io::Result<BTreeSet<String>> {
    fs::write(Path::new(TRACING).join(ENABLE), "0")?;
    let trace = BufReader::new(fs::File::open(Path::new(TRACING).join("trace"))?);
    let names = trace.split(b'\n').map_while(Result::ok).filter_map(|line| name(&line));
    // The trace has many lines for each name; both limits bound the work for a hostile guest.
    Ok(names.take(MOST * 100).collect::<BTreeSet<_>>().into_iter().take(MOST).collect())
}

/// The name in a line of the trace: `... requested: (getname_flags+0x0/0x1e0) name="/etc/passwd"`.
fn name(line: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, name) = line.split_once(" name=\"")?;
    Some(name.strip_suffix('"')?.to_owned()).filter(|name| !name.is_empty())
}

/// The names in `requested` that are files of this host but not in `known`, the guest's files.
/// Relative names are relative to `home`.
pub(crate) fn missing(
    requested: &[String],
    known: &BTreeSet<PathBuf>,
    home: &Path,
) -> Vec<PathBuf> {
    let paths: BTreeSet<PathBuf> = requested.iter().map(|name| home.join(name)).collect();
    // One file may have many names, of which the guest may have another one.
    let real = |path: PathBuf| {
        let usual = USUAL.iter().any(|usual| path.starts_with(usual)) && !path.starts_with(home);
        let lacks = !usual && !known.contains(&path);
        let real = lacks.then(|| fs::canonicalize(&path).ok()).flatten()?;
        (real.is_file() && !known.contains(&real)).then_some(real)
    };
    paths.into_iter().filter_map(real).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_stands_between_the_quotes() {
        let line =
            br#"  sh-97  [000] .....  10.467: requested: (getname_flags+0x0/0x1e0) name="/a "b""#;
        assert_eq!(name(line).as_deref(), Some("/a \"b"));
        assert_eq!(name(b"# tracer: nop"), None);
        assert_eq!(name(br#"sh-97 ... name=(fault)"#), None);
    }

    #[test]
    fn a_file_of_the_host_that_the_guest_lacks_is_missing() {
        let dir = tempfile::Builder::new()
            .prefix("requested")
            .tempdir_in(env!("CARGO_MANIFEST_DIR"))
            .unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        for name in ["have", "lack"] {
            fs::write(home.join(name), "").unwrap();
        }
        let known = BTreeSet::from([home.join("have")]);
        let requested = ["have", "lack", "nowhere", "/proc/self/maps", "/usr"].map(str::to_owned);
        assert_eq!(missing(&requested, &known, &home), [home.join("lack")]);
    }
}
