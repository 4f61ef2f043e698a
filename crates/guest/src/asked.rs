//! The files that programs of a guest ask its kernel for, by name. One that is on the host and
//! not in the guest was forgotten, and its program may only look as if it worked.

use nix::mount::{MsFlags, mount};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// Where the kernel's tracing is.
const TRACING: &str = "/sys/kernel/tracing";
/// Probes at the functions through which all calls with a path take it from a program; compilers
/// may have put the one into the other.
const PROBES: [&str; 2] = ["getname", "getname_flags"];
const ENABLE: &str = "events/thingbed/enable";
/// The first so many KiB of what is asked for are kept.
const KIB: &str = "4096";
/// More names than this are not told.
const MOST: usize = 10_000;
/// What programs ask for that is of no matter, or that each guest has of its own.
const USUAL: [&str; 26] = [
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

/// Begins to note names, where the kernel can do that.
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

/// The names that were noted.
pub(crate) fn end() -> io::Result<BTreeSet<String>> {
    fs::write(Path::new(TRACING).join(ENABLE), "0")?;
    let trace = BufReader::new(fs::File::open(Path::new(TRACING).join("trace"))?);
    let names = trace.split(b'\n').map_while(Result::ok).filter_map(|line| name(&line));
    Ok(names.take(MOST * 100).collect::<BTreeSet<_>>().into_iter().take(MOST).collect())
}

/// The name in a line of the trace: `... asked: (getname_flags+0x0/0x1e0) name="/etc/passwd"`.
fn name(line: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(line).ok()?;
    let (_, name) = line.split_once(" name=\"")?;
    Some(name.strip_suffix('"')?.to_owned()).filter(|name| !name.is_empty())
}

/// Those of `asked` that are files of this host and not among `known`, the guest's; relative ones
/// are of `home`.
pub(crate) fn missing(asked: &[String], known: &BTreeSet<PathBuf>, home: &Path) -> Vec<PathBuf> {
    let paths: BTreeSet<PathBuf> = asked.iter().map(|name| home.join(name)).collect();
    // One file may be asked for by many names, and be there by another one.
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
            br#"  sh-97  [000] .....  10.467: asked: (getname_flags+0x0/0x1e0) name="/a "b""#;
        assert_eq!(name(line).as_deref(), Some("/a \"b"));
        assert_eq!(name(b"# tracer: nop"), None);
        assert_eq!(name(br#"sh-97 ... name=(fault)"#), None);
    }

    #[test]
    fn a_file_of_the_host_that_the_guest_lacks_is_missing() {
        let dir = tempfile::Builder::new()
            .prefix("asked")
            .tempdir_in(env!("CARGO_MANIFEST_DIR"))
            .unwrap();
        let home = fs::canonicalize(dir.path()).unwrap();
        for name in ["have", "lack"] {
            fs::write(home.join(name), "").unwrap();
        }
        let known = BTreeSet::from([home.join("have")]);
        let asked = ["have", "lack", "nowhere", "/proc/self/maps", "/usr"].map(str::to_owned);
        assert_eq!(missing(&asked, &known, &home), [home.join("lack")]);
    }
}
