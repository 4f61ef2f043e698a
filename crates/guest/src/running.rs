//! The running program of a guest, to diagnose a stalled clock.

/// The program that the guest's CPU runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// The guest's time in ns since its boot.
    pub at_ns: u64,
    /// The name of the program.
    pub program: String,
    /// Its process ID in the guest.
    pub pid: u32,
}

impl Running {
    /// The last answer on the console behind its first `before` bytes. An earlier one is no answer: on a
    /// busy machine, a guest that has not answered yet would seem to stand still.
    pub(crate) fn after(console: &[u8], before: usize) -> Option<Self> {
        let new = String::from_utf8_lossy(console.get(before..)?);
        new.lines().rev().find_map(Self::from_line)
    }

    /// Parses the kernel's answer: `guest: at 1200 ns, running python3 (57)`.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let (at, rest) = line.trim().strip_prefix("guest: at ")?.split_once(" ns, running ")?;
        // A name may contain anything.
        let (program, pid) = rest.rsplit_once(" (")?;
        let program = program.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let pid = pid.strip_suffix(')')?.parse().ok()?;
        Some(Self { at_ns: at.parse().ok()?, program, pid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_an_earlier_query_is_none() {
        let first = b"boots \xff\nguest: at 5 ns, running a (7)\n";
        let both = [&first[..], b"guest: at 9 ns, running b (8)\n"].concat();
        assert_eq!(Running::after(first, first.len()), None);
        assert_eq!(Running::after(first, first.len() + 1), None);
        assert_eq!(Running::after(first, 0).map(|running| running.at_ns), Some(5));
        assert_eq!(Running::after(&both, first.len()).map(|running| running.at_ns), Some(9));
    }

    #[test]
    fn the_kernels_answer_is_read() {
        let found = Running::from_line("guest: at 1200 ns, running a (b) \u{7}c (57)\r");
        let requested = Running { at_ns: 1_200, program: "a (b)  c".to_owned(), pid: 57 };
        assert_eq!(found, Some(requested));
        for other in ["", "guest: could not", "guest: at x ns, running a (1)", "guest: at 1 ns"] {
            assert_eq!(Running::from_line(other), None, "{other}");
        }
    }
}
