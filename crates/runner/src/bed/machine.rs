//! The programs of nodes that are machines: a console for each.

use crate::error::Error;
use experiment::{Plan, PlannedNode};
use record::spec::{ConsoleSpec, Spec};
use std::fs;
use std::path::Path;

/// The command line of the console of `node`, if it is a machine; `workload` implements it. Writes
/// its spec to the file `spec`.
///
/// # Errors
/// When the spec cannot be written.
pub(crate) fn console(
    plan: &Plan,
    node: &PlannedNode,
    workload: &Path,
    spec: &Path,
) -> Result<Option<Vec<String>>, Error> {
    let Some(console) = plan.console(node) else { return Ok(None) };
    let text = serde_json::to_vec(&console).unwrap_or_default();
    fs::write(spec, text).map_err(Error::write(spec))?;
    let argv = [workload, Path::new(ConsoleSpec::PROGRAM), spec];
    Ok(Some(argv.map(|word| word.display().to_string()).into()))
}

/// Parts of what machines print before they end, in the words of QEMU 7 to 10 and of the dynamic loader, and
/// the likely causes.
const CAUSES: [(&[&str], &str); 8] = [
    (
        &["invalid kernel header", "could not load kernel", "linux kernel too old"],
        "`kernel` is no kernel for this `arch`, or is damaged; `file` shows what a file is",
    ),
    (
        &["could not load PC BIOS", "Could not find ROM image", "could not load firmware"],
        "the firmware of the machine is missing or is none for it: set `bios`, or install that of QEMU (on \
         Debian and Ubuntu: seabios, ovmf, qemu-efi-aarch64, opensbi or u-boot-qemu)",
    ),
    (
        &["failed to find romfile"],
        "the boot code of QEMU's network adapters is missing (on Debian and Ubuntu: ipxe-qemu)",
    ),
    (
        &[
            "unsupported machine type",
            "unable to find CPU model",
            "is not a valid device model name",
            "invalid option",
        ],
        "`machine`, `cpu`, `nic` or `args` has a name that this QEMU does not know: its options \
         `-machine help`, `-cpu help` and `-device help` list the names",
    ),
    (
        &["cannot set up guest memory"],
        "`memory` is more than this machine has, or than `limits` of the node allow",
    ),
    (
        &["Image is not in", "dtb file", "load_device_tree"],
        "the file of `disk` or `dtb` has another format, or is damaged",
    ),
    (&["/dev/net/tun"], "the machine cannot use its TAP: `thingbed doctor` checks /dev/net/tun"),
    (
        &["error while loading shared libraries"],
        "a library of the firmware is missing: `ldd` lists those that it needs",
    ),
];

/// The likely cause of the end of a machine that printed this last.
pub(crate) fn likely_cause(printed: &str) -> Option<&'static str> {
    let says = |(parts, _): &&(&[&str], &str)| parts.iter().any(|part| printed.contains(part));
    CAUSES.iter().find(says).map(|(_, cause)| *cause)
}

#[cfg(test)]
mod tests {
    use super::likely_cause;

    #[test]
    fn the_last_words_of_a_machine_say_why_it_ended() {
        for (printed, cause) in [
            ("qemu: invalid kernel header", Some("`kernel` is no kernel")),
            ("qemu: could not load PC BIOS 'none.bin'", Some("set `bios`")),
            (
                "qemu-system-arm: unsupported machine type\nUse -machine help",
                Some("`-machine help`"),
            ),
            ("qemu-system-arm: Could not find ROM image 'u-boot.bin'", Some("set `bios`")),
            ("./fw: error while loading shared libraries: libx.so: cannot", Some("`ldd`")),
            ("Kernel panic - not syncing", None),
            ("", None),
        ] {
            let found = likely_cause(printed);
            assert_eq!(found.is_some(), cause.is_some(), "{printed}");
            assert!(found.unwrap_or_default().contains(cause.unwrap_or_default()), "{found:?}");
        }
    }
}
