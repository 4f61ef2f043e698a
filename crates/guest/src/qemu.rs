//! QEMU, whose clock counts instructions: software emulation of one CPU, without devices that wait
//! for the host. A guest starts from a snapshot of a booted guest (`snapshot.rs`). Shared memory
//! carries files and results, so that a run depends only on its inputs (`-icount` with
//! `rr=record`, which orders timers).

use crate::acpi;
use crate::boot;
use crate::files::in_path;
use crate::{Error, Image, Mount, initramfs};
use nix::errno::Errno;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The emulator.
const QEMU: &str = "qemu-system-x86_64";
/// Maximum size of all results in bytes; the file is sparse.
const RESULTS_BYTES: u64 = 1 << 30;
/// Maximum size in bytes of the list of files that programs opened.
const NAMES_BYTES: u64 = 16 << 20;
/// Maximum number of members of the archive of results, with headers for long names.
const MEMBERS: usize = 100_000;
/// Maximum length of a result's name in bytes, as in Linux (PATH_MAX).
const NAME_BYTES: u64 = 4_096;
/// Minimum memory of a guest in bytes. Sizes are powers of two, so that few snapshots are needed;
/// the host allocates pages on first use.
const LEAST_BYTES: u64 = 2 << 30;
/// The emulator's maximum speed, in 10^6 instructions per second. For a higher speed the kernel's
/// command line states a slower clock.
const REAL_MIPS: u32 = 1_000;
const ACPI: &str = "acpi";
/// The file of the shared memory for the guest's files and results.
const SHARED: &str = "shared";
/// The descriptor from which QEMU reads the snapshot.
pub(crate) const STATE_FD: i32 = 3;
/// The file of the guest's initramfs.
pub(crate) const FILES: &str = "files";
/// The CPU model: identical in each version of QEMU from 7.2 on, with the features of x86-64-v3.
/// Excludes features that QEMU's emulation lacks, random numbers, and `rep movsb` (`erms`), which
/// the emulation executes byte by byte. Its timer never sleeps (`arat`).
const CPU: &str = "Haswell-v4,-erms,-rdrand,-pcid,-invpcid,-x2apic,-tsc-deadline,-spec-ctrl,+arat";

/// The parameters of a guest's boot, without its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The CPU's speed in 10^6 instructions per second.
    mips: u32,
    memory_mib: u64,
    /// The size of the shared memory for files and results.
    shared_bytes: u64,
}

impl Shape {
    /// The parameters of a guest with the memory of `image` and its files, which are twice in
    /// memory during unpacking.
    ///
    /// # Errors
    /// When a file of the image cannot be read.
    pub fn of(image: &Image) -> Result<Self, Error> {
        let packed = initramfs::write(&image.files, io::sink());
        // Written to nowhere, only for its size.
        let packed = packed.map_err(Error::io("read the guest's files"))?;
        let memory = (image.memory_bytes + 2 * packed).max(LEAST_BYTES).next_power_of_two();
        let shared_bytes = packed.max(RESULTS_BYTES).next_power_of_two();
        Ok(Self { mips: image.mips, memory_mib: memory >> 20, shared_bytes })
    }

    /// The `shift` of QEMU's `-icount`: see [`shift`].
    pub fn shift(self) -> u32 {
        shift(self.mips)
    }
}

/// The path of the emulator.
pub(crate) fn program() -> Option<PathBuf> {
    in_path(QEMU)
}

/// The first line of the emulator's `--version`; none if it is not installed. Versions may count
/// instructions differently.
pub fn emulator() -> Option<String> {
    let output = Command::new(program()?).arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

/// The command that runs the guest of `image` from the snapshot `state`. Puts its files into
/// `folder`, which must be its working directory.
pub(crate) fn command(
    image: &Image,
    shape: Shape,
    state: File,
    folder: &Path,
) -> Result<Command, Error> {
    share(folder, shape)?;
    OpenOptions::new()
        // Not truncated: the size of the file is that of the memory.
        .write(true)
        .open(folder.join(SHARED))
        .and_then(|file| initramfs::write(&image.files, BufWriter::new(file)))
        .map_err(Error::io("pack the guest's files"))?;
    let mut command = base(image, shape, folder)?;
    let icount = format!("{},rr=record,rrfile=record", icount(shape));
    // `-S`: the guest waits until the monitor resumes it.
    command.args(["-icount", &icount, "-incoming", "defer", "-S"]);
    // SAFETY: an async-signal-safe call between fork and exec; the snapshot's file is open then.
    unsafe {
        command.pre_exec(move || {
            Errno::result(libc::dup2(state.as_raw_fd(), STATE_FD))?;
            // `dup2` to the same number would leave close-on-exec set.
            Errno::result(libc::fcntl(STATE_FD, libc::F_SETFD, 0))?;
            Ok(())
        });
    }
    Ok(command)
}

/// Creates the file of the memory that the host and the guest share.
pub(crate) fn share(folder: &Path, shape: Shape) -> Result<(), Error> {
    File::create(folder.join(SHARED))
        .and_then(|file| file.set_len(shape.shared_bytes))
        .map_err(Error::io("create the memory for the guest's files and results"))
}

/// The command line of QEMU, for both booting and restoring a guest, in `folder`.
pub(crate) fn base(image: &Image, shape: Shape, folder: &Path) -> Result<Command, Error> {
    let mut command = Command::new(program().ok_or(Error::NoQemu)?);
    command.env_clear().args(arguments(shape)).arg("-kernel").arg(&image.kernel);
    // A restored guest already has its boot files, so this file is empty then.
    if !folder.join(FILES).exists() {
        File::create(folder.join(FILES)).map_err(Error::io("create a file for the guest"))?;
    }
    command.args(["-initrd", FILES]);
    if shape.mips > REAL_MIPS {
        fs::write(folder.join(ACPI), acpi::fixed_description())
            .map_err(Error::io("write the guest's ACPI table"))?;
        command.args(["-acpitable", &format!("file={ACPI}")]);
    }
    command.arg("-append").arg(line(shape));
    Ok(command)
}

/// The guest's devices.
pub(crate) fn arguments(shape: Shape) -> Vec<String> {
    let Shape { memory_mib, shared_bytes, .. } = shape;
    let words = format!(
        "-M pc,nvdimm=on -cpu {CPU} -smp 1 -m {memory_mib}M,slots=2,maxmem=256G \
         -accel tcg,tb-size=512 -nodefaults -no-user-config -display none -no-reboot \
         -rtc base=2026-01-01T00:00:00,clock=vm \
         -object memory-backend-file,id=shared,share=on,mem-path={SHARED},size={shared_bytes} \
         -device nvdimm,memdev=shared,id=nvdimm \
         -device pvpanic,ioport={port} -action panic=pause \
         -global migration.store-global-state=off -qmp stdio \
         -chardev file,id=console,path=console -serial chardev:console \
         -chardev file,id=output,path={output}/{output} -serial chardev:output",
        port = boot::PAUSE_PORT,
        output = boot::OUTPUT
    );
    words.split_whitespace().map(str::to_owned).collect()
}

pub(crate) fn icount(shape: Shape) -> String {
    format!("shift={},sleep=off", shape.shift())
}

/// The `shift` of QEMU's `-icount`: an instruction takes 2^shift ns, so 0 means 10^9 instructions
/// per second. A faster CPU needs a guest whose clock ticks slower.
fn shift(mips: u32) -> u32 {
    match mips {
        REAL_MIPS.. => 0,
        slower => (REAL_MIPS / slower.max(1)).ilog2(),
    }
}

/// The kernel's command line: disables randomness and the kernel's self-tests at boot.
pub(crate) fn line(shape: Shape) -> String {
    let mut line = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=off norandmaps \
                    nokaslr cryptomgr.notests initcall_blacklist=load_system_certificate_list \
                    clearcpuid=rep_good rdinit=/init"
        .to_owned();
    if shape.mips > REAL_MIPS {
        line += &format!(" tsc_early_khz={}000 tsc=reliable", shape.mips);
    }
    line += &format!(" -- {} {}", boot::INIT, boot::OWN);
    line
}

/// Unpacks the guest's results into the folders of the host; returns the names of files that its
/// programs opened. The guest is untrusted: accepts only regular files and folders below those
/// folders, and limits their number, their names and their size in total.
pub(crate) fn take_results(folder: &Path, mounts: &[Mount]) -> Result<Vec<String>, Error> {
    let take = || unpack(BufReader::new(File::open(folder.join(SHARED))?), mounts, MEMBERS);
    take().map_err(Error::io("unpack the guest's results"))
}

/// Unpacks an archive with at most `members` members.
fn unpack(archive: impl Read, mounts: &[Mount], members: usize) -> io::Result<Vec<String>> {
    let mut archive = tar::Archive::new(archive);
    let (mut names, mut left, mut long) = (Vec::new(), RESULTS_BYTES, None);
    // Raw: the library reads the headers of long names and of extensions into memory at any length.
    for (number, entry) in archive.entries()?.raw(true).enumerate() {
        if number >= members {
            return Err(limit(format!("more than {members} files and folders")));
        }
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        // Before the member that it names.
        if kind.is_gnu_longname() {
            long = Some(long_name(&mut entry)?);
            continue;
        }
        let path = match long.take() {
            Some(path) => path,
            None => entry.path()?.into_owned(),
        };
        // Links could lead out of the folder when the next entry is written.
        if !(kind.is_file() || kind.is_dir()) {
            continue;
        }
        // A header may claim more than the archive has.
        let size = entry.header().size()?;
        left = left.checked_sub(size).ok_or_else(|| {
            limit(format!("files of more than {} MiB in total", RESULTS_BYTES >> 20))
        })?;
        if path == Path::new(boot::ASKED) {
            names = serde_json::from_reader((&mut entry).take(NAMES_BYTES)).unwrap_or_default();
        } else if let Some(to) = place(&path, mounts) {
            put(&mut entry, kind.is_dir(), &to)?;
        }
    }
    Ok(names)
}

/// The name that the archive has as the content of a member.
fn long_name(entry: &mut impl Read) -> io::Result<PathBuf> {
    let mut name = Vec::new();
    // One byte more shows that it is longer.
    entry.take(NAME_BYTES + 1).read_to_end(&mut name)?;
    if name.len() as u64 > NAME_BYTES {
        return Err(limit(format!("a name of more than {NAME_BYTES} B")));
    }
    // It ends with a zero.
    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
    Ok(PathBuf::from(OsString::from_vec(name)))
}

/// The error of results above a limit.
fn limit(what: String) -> io::Error {
    let text = format!(
        "they have {what}, which is above the limit. A program in the guest wrote them into the run \
         folder: let it write fewer or smaller files there"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The host path for a file of the guest's results: `0/summary.json` goes to the first mount.
fn place(path: &Path, mounts: &[Mount]) -> Option<PathBuf> {
    let mut parts = path.components();
    let Some(Component::Normal(number)) = parts.next() else { return None };
    let inside = parts.as_path();
    let plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    let mount = mounts.get(number.to_str()?.parse::<usize>().ok()?)?;
    plain.then(|| mount.host.join(inside))
}

fn put(entry: &mut impl Read, is_dir: bool, to: &Path) -> io::Result<()> {
    let written = if is_dir {
        fs::create_dir_all(to)
    } else {
        to.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| File::create(to))
            .and_then(|mut file| io::copy(entry, &mut file))
            .map(drop)
    };
    written.map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "\n  free space there, or use another folder with --out"
            }
            _ => "",
        };
        io::Error::new(error.kind(), format!("{}: {error}{advice}", to.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with these members: type, name, what it links to.
    fn hostile(path: &Path, members: &[(tar::EntryType, &str, &str)]) {
        let mut archive = tar::Builder::new(File::create(path).unwrap());
        for (kind, name, link) in members {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            let bytes: &[u8] = if kind.is_file() { b"evil" } else { b"" };
            // Written as raw bytes, because the library refuses some of these names.
            let raw = header.as_old_mut();
            raw.name[..name.len()].copy_from_slice(name.as_bytes());
            raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
            header.set_size(bytes.len() as u64);
            header.set_mode(0o4777);
            header.set_cksum();
            archive.append(&header, bytes).unwrap();
        }
        archive.finish().unwrap();
    }

    #[test]
    fn what_a_guest_hands_over_stays_in_the_runs_folder_and_links_nowhere() {
        use tar::EntryType as Is;
        let dir = tempfile::tempdir().unwrap();
        let (folder, run) = (dir.path().join("guest"), dir.path().join("run"));
        let outside = dir.path().join("outside");
        let out = outside.display().to_string();
        for path in [&folder, &run, &outside] {
            fs::create_dir(path).unwrap();
        }
        let mounts = [Mount { host: run.clone(), guest: "/run/results".into() }];
        hostile(
            &folder.join(SHARED),
            &[
                (Is::Directory, "0", ""),
                (Is::Regular, "0/good", ""),
                (Is::Regular, "0/sub/good", ""),
                (Is::Regular, "1/no-such-mount", ""),
                (Is::Regular, "up", ""),
                (Is::Regular, "/tmp/thingbed-evil", ""),
                (Is::Regular, "../outside/up", ""),
                (Is::Regular, "0/../../../outside/up", ""),
                (Is::Symlink, "0/link", &out),
                (Is::Symlink, "0/self", "good"),
                (Is::Link, "0/hard", "0/good"),
                (Is::Fifo, "0/fifo", ""),
                (Is::Regular, "asked", ""),
            ],
        );
        assert_eq!(take_results(&folder, &mounts).unwrap(), Vec::<String>::new());
        let names = |path: &Path| -> Vec<_> {
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        };
        let mut all = names(&run);
        all.sort();
        assert_eq!(all, ["good", "sub"]);
        assert!(names(&outside).is_empty());

        // A link in place of the folder itself, of a folder in it, and of the list of names.
        fs::write(outside.join("secret"), "").unwrap();
        let links = [
            (Is::Symlink, "0", out.as_str()),
            (Is::Symlink, "0/through", out.as_str()),
            (Is::Regular, "0/through/up", ""),
            (Is::Symlink, "asked", "/dev/zero"),
        ];
        hostile(&folder.join(SHARED), &links);
        assert_eq!(take_results(&folder, &mounts).unwrap(), Vec::<String>::new());
        assert_eq!(names(&outside), ["secret"]);
        assert!(run.join("through/up").is_file() && !run.join("secret").exists());
    }

    fn header(kind: tar::EntryType, name: &str, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        header
    }

    /// The mount of a run folder in `dir`.
    fn mount(dir: &Path) -> [Mount; 1] {
        [Mount { host: dir.join("run"), guest: "/run/results".into() }]
    }

    /// Reads an archive and counts how much the reader took.
    struct Counted<R>(R, std::rc::Rc<std::cell::Cell<u64>>);

    impl<R: Read> Read for Counted<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.read(buffer)?;
            self.1.set(self.1.get() + count as u64);
            Ok(count)
        }
    }

    /// What failed before: a name of 1 GiB was read into memory, as were extensions of that size.
    #[test]
    fn names_and_numbers_of_results_are_limited() {
        use tar::EntryType as Is;
        let dir = tempfile::tempdir().unwrap();
        let mounts = mount(dir.path());
        let endless = |kind| {
            let head = header(kind, "././@LongLink", RESULTS_BYTES);
            let taken = std::rc::Rc::new(std::cell::Cell::new(0));
            let bytes = head.as_bytes().to_vec();
            let archive = io::Cursor::new(bytes).chain(io::repeat(b'a').take(RESULTS_BYTES));
            let result = unpack(Counted(archive, taken.clone()), &mounts, MEMBERS);
            (result.map_err(|error| error.to_string()), taken.get())
        };
        let (result, taken) = endless(Is::GNULongName);
        assert!(result.unwrap_err().contains("a name of more than 4096 B"));
        assert!(taken < 1 << 20, "{taken} B were read");

        let mut many = Vec::new();
        for number in 0..30 {
            let name = format!("0/file-{number}");
            many.extend(header(Is::Regular, &name, 0).as_bytes());
        }
        let of = |members| unpack(&many[..], &mounts, members).map_err(|error| error.to_string());
        assert!(of(29).unwrap_err().contains("more than 29 files and folders"));
        assert_eq!(of(30), Ok(Vec::new()));
        let huge = header(Is::Regular, "0/huge", u64::MAX / 2);
        let error = unpack(huge.as_bytes().as_slice(), &mounts, MEMBERS).unwrap_err().to_string();
        assert!(
            error.contains("more than 1024 MiB") && error.contains("fewer or smaller"),
            "{error}"
        );
    }

    /// Headers of extensions are skipped, not read: this program's archives have none.
    #[test]
    fn extensions_do_not_rename_or_resize_a_result() {
        use tar::EntryType as Is;
        let dir = tempfile::tempdir().unwrap();
        let mut archive = Vec::new();
        for kind in [Is::XHeader, Is::XGlobalHeader, Is::GNULongLink] {
            let text = b"21 path=0/other-name\n19 size=99999999999\n";
            archive.extend(header(kind, "pax", text.len() as u64).as_bytes());
            archive.extend(text);
            archive.resize(archive.len().next_multiple_of(512), 0);
        }
        archive.extend(header(Is::Regular, "0/plain", 4).as_bytes());
        archive.extend(b"text");
        archive.resize(archive.len().next_multiple_of(512), 0);
        assert_eq!(
            unpack(&archive[..], &mount(dir.path()), MEMBERS).unwrap(),
            Vec::<String>::new()
        );
        assert_eq!(fs::read_to_string(dir.path().join("run/plain")).unwrap(), "text");
        assert_eq!(fs::read_dir(dir.path().join("run")).unwrap().count(), 1);
    }

    /// As the guest packs them, with names that need a header.
    #[test]
    fn long_names_of_results_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("0/{}/{}", "d".repeat(90), "f".repeat(200));
        let mut archive = tar::Builder::new(Vec::new());
        let mut head = tar::Header::new_gnu();
        head.set_size(4);
        head.set_mode(0o644);
        archive.append_data(&mut head, &name, &b"text"[..]).unwrap();
        let archive = archive.into_inner().unwrap();
        unpack(&archive[..], &mount(dir.path()), MEMBERS).unwrap();
        let path = dir.path().join("run").join(name.strip_prefix("0/").unwrap());
        assert_eq!(fs::read_to_string(path).unwrap(), "text");
    }

    #[test]
    fn slower_processors_are_powers_of_two_and_faster_ones_the_guests_belief() {
        assert_eq!([8_000, 1_000, 500, 250].map(shift), [0, 0, 1, 2]);
    }
}
