//! QEMU, whose clock counts instructions: software emulation of one processor, with nothing that
//! waits for the host. Files come in an initramfs and results leave through memory, so that a run
//! depends on nothing but its inputs (`-icount` with `rr=record`, which orders timers).

use crate::boot::{self, Job};
use crate::files::{Entry, Files, in_path};
use crate::{Error, Machine, Mount, QemuKernel, initramfs};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use std::process::Command;

/// The emulator.
const QEMU: &str = "qemu-system-x86_64";
/// The most that results take together; the file has holes.
const RESULTS_BYTES: u64 = 1 << 30;
const RESULTS: &str = "results";
/// What the guest's programs take for the system's users and hosts.
const ETC: [(&str, &str); 5] = [
    ("/etc/resolv.conf", ""),
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];

/// The command that starts it; its files come into `folder`, in which it has to start.
pub(crate) fn command(
    machine: &Machine,
    kernel: &QemuKernel,
    mips: u32,
    folder: &Path,
) -> Result<Command, Error> {
    let program = in_path(QEMU).ok_or(Error::NoQemu)?;
    let packed = pack(machine, kernel, folder).map_err(Error::io("pack the guest's files"))?;
    File::create(folder.join(RESULTS))
        .and_then(|file| file.set_len(RESULTS_BYTES))
        .map_err(Error::io("make the memory for the guest's results"))?;
    // The files are there twice while they are unpacked.
    let memory = (machine.memory_bytes + 2 * packed) >> 20;
    let mut command = Command::new(program);
    command.env_clear().args(arguments(memory, mips)).arg("-kernel").arg(&kernel.image);
    command.arg("-append").arg(line(machine, mips));
    Ok(command)
}

fn arguments(memory_mib: u64, mips: u32) -> Vec<String> {
    let shift = shift(mips);
    let words = format!(
        "-M pc,nvdimm=on -cpu max,-rdrand,-rdseed -smp 1 -m {memory_mib}M,slots=2,maxmem=256G \
         -accel tcg,tb-size=512 -icount shift={shift},sleep=off,rr=record,rrfile=record \
         -nodefaults -no-user-config -display none -no-reboot \
         -rtc base=2026-01-01T00:00:00,clock=vm -initrd files \
         -object memory-backend-file,id=results,share=on,mem-path={RESULTS},size={RESULTS_BYTES} \
         -device nvdimm,memdev=results,id=shared \
         -chardev file,id=console,path=console -serial chardev:console \
         -chardev file,id=output,path={output}/{output} -serial chardev:output",
        output = boot::OUTPUT
    );
    words.split_whitespace().map(str::to_owned).collect()
}

/// The instructions of the emulator's second, as a power of two: a thousand million at 0. Faster
/// processors are had by a guest that believes that its clock ticks slower.
fn shift(mips: u32) -> u32 {
    match mips {
        1_000.. => 0,
        slower => (1_000 / slower.max(1)).ilog2(),
    }
}

/// The kernel's command line.
fn line(machine: &Machine, mips: u32) -> String {
    let mut line = "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=off norandmaps \
                    nokaslr rdinit=/init"
        .to_owned();
    if mips > 1_000 {
        line += &format!(" tsc_early_khz={}000 tsc=reliable", mips);
    }
    // Random numbers come from the command line, among others.
    line += &format!(" thingbed.seed={} -- {} {}", machine.seed, boot::INIT, boot::OWN);
    line
}

/// Writes the archive of the guest's files; its length.
fn pack(machine: &Machine, kernel: &QemuKernel, folder: &Path) -> io::Result<u64> {
    let mut files = Files::default();
    for path in [&machine.tool, &machine.directory].into_iter().chain(&machine.files) {
        if *path == machine.directory {
            files.put(path, Entry::Folder);
        } else {
            files.add(path)?;
        }
    }
    files.put(Path::new("/init"), Entry::Link(machine.tool.clone()));
    for (path, text) in ETC {
        files.put(Path::new(path), Entry::Text(text.into(), 0o644));
    }
    for folder in ["/dev", "/proc", "/sys", "/run", "/tmp", "/root", "/var/run", "/var/tmp"] {
        files.put(Path::new(folder), Entry::Folder);
    }
    for (number, module) in kernel.modules.iter().enumerate() {
        let name = format!("{}/{number:03}.ko", boot::MODULES);
        files.put(Path::new(&name), Entry::Copy(module.clone(), 0o644));
    }
    let job = serde_json::to_vec(&Job::of(machine))?;
    files.put(&Path::new(boot::OWN).join("job"), Entry::Text(job, 0o644));
    initramfs::write(&files, BufWriter::new(File::create(folder.join("files"))?))
}

/// Unpacks what the guest handed over into the folders of the host.
pub(crate) fn take_results(folder: &Path, mounts: &[Mount]) -> Result<(), Error> {
    let unpack = || -> io::Result<()> {
        let mut archive = tar::Archive::new(File::open(folder.join(RESULTS))?);
        let into = folder.join("unpacked");
        archive.set_preserve_mtime(false);
        archive.unpack(&into)?;
        for (number, Mount { host, .. }) in mounts.iter().enumerate() {
            merge(&into.join(number.to_string()), host)?;
        }
        Ok(())
    };
    unpack().map_err(Error::io("take over the guest's results"))
}

/// Copies what is in `from` into `to`: files and folders, no links, which a program of the guest
/// could point anywhere.
fn merge(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
            merge(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_processors_are_powers_of_two_and_faster_ones_the_guests_belief() {
        assert_eq!([8_000, 1_000, 500, 250].map(shift), [0, 0, 1, 2]);
    }
}
