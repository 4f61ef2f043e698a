//! The guest kernel's console output, for error messages.

use std::fs;
use std::path::Path;

/// Maximum number of console lines in an error message.
const LINES: usize = 12;

/// The last lines of the console, indented, each after a newline; from a kernel panic on if there
/// is one. Empty without output.
pub(crate) fn last_words(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !is_usual(line)).collect();
    let panic = lines.iter().position(|line| line.contains("Kernel panic"));
    // The lines after a panic tell less than its first ones.
    let from = panic.unwrap_or(lines.len().saturating_sub(LINES));
    let shown = lines.iter().skip(from).take(LINES);
    shown.map(|line| format!("\n  | {}", printable(line))).collect()
}

/// Whether the kernel stopped because it had no memory left (`out_of_memory` of mm/oom_kill.c).
pub(crate) fn is_out_of_memory(log: &Path) -> bool {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let panic = text.lines().find(|line| line.contains("Kernel panic"));
    panic
        .is_some_and(|line| line.contains("deadlocked on memory") || line.contains("Out of memory"))
}

/// Whether User Mode Linux stopped at its start because it could not map its memory (`setup_physmem` of
/// arch/um/kernel/physmem.c).
pub(crate) fn is_unmapped(log: &Path) -> bool {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().any(|line| line.starts_with("setup_physmem - mapping"))
}

/// Whether it is a usual line: User Mode Linux prints some at each start, the kernel at each end.
fn is_usual(line: &str) -> bool {
    let usual = ["Core dump limits", "\tsoft -", "\thard -", "Checking ", "reboot: "];
    line.is_empty() || usual.iter().any(|begin| line.starts_with(begin))
}

/// Replaces control characters, on which a terminal would act.
fn printable(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_first_and_controls_are_taken_out() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(last_words(file.path()), "");
        let noise = "noise\r\n".repeat(40);
        let text = format!("{noise}Kernel panic - not syncing: \x1b[2Jno init\n{noise}");
        fs::write(file.path(), text).unwrap();
        let words = last_words(file.path());
        assert!(words.starts_with("\n  | Kernel panic - not syncing:  [2Jno init"), "{words}");
        assert_eq!(words.lines().count(), LINES + 1);
        assert!(!is_out_of_memory(file.path()));
        fs::write(
            file.path(),
            "[ 1.0] Kernel panic - not syncing: System is deadlocked on memory\n",
        )
        .unwrap();
        assert!(is_out_of_memory(file.path()));
        assert!(!is_unmapped(file.path()));
        fs::write(
            file.path(),
            "setup_physmem - mapping 1090519040 bytes of memory at 0x(____ptrval____) failed - errno = -12\n",
        )
        .unwrap();
        assert!(is_unmapped(file.path()));
    }
}
