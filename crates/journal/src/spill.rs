//! Rows that go to the disk while they come about.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most bytes of a line: no row of ours is longer.
const LONGEST: u64 = 1 << 16;

/// Lines of text that are appended to a file, in constant memory. A killed process leaves all
/// lines up to its last flush. What a full disk does not take stays in memory, and is written as
/// soon as there is space.
#[derive(Debug)]
pub struct Spill {
    path: PathBuf,
    file: File,
    /// What is not in the file yet.
    buffer: Vec<u8>,
}

impl Spill {
    /// Creates the file, or truncates that of a killed process, and writes its first line.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path, head: &str) -> io::Result<Self> {
        // `create_new` follows no symbolic link that somebody put there.
        let _ = std::fs::remove_file(path);
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let mut spill = Self { path: path.to_owned(), file, buffer: Vec::new() };
        spill.push(format_args!("{head}"));
        spill.flush();
        Ok(spill)
    }

    /// Adds a line, without its end, to the next flush.
    pub fn push(&mut self, line: Arguments<'_>) {
        // Writing to a vector does not fail.
        let _ = writeln!(self.buffer, "{line}");
    }

    /// Writes all lines. What the disk does not take waits for the next flush.
    pub fn flush(&mut self) {
        let mut written = 0;
        while written < self.buffer.len() {
            match self.file.write(&self.buffer[written..]) {
                Ok(0) => break,
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.buffer.drain(..written);
    }

    /// No more lines are added.
    pub fn end(mut self) -> Spilled {
        self.flush();
        self.buffer.shrink_to_fit();
        Spilled { path: self.path, file: self.file, rest: self.buffer }
    }
}

/// All lines of a [`Spill`]. The file stays: it is removed when its rows are in a table on the disk.
#[derive(Debug)]
pub struct Spilled {
    path: PathBuf,
    file: File,
    /// What the disk did not take.
    rest: Vec<u8>,
}

impl Spilled {
    /// The lines after the first, in constant memory, as often as needed. Each is passed to `read`,
    /// which returns `None` if it is no such row.
    pub fn rows<'a, T>(
        &'a self,
        read: impl Fn(&str) -> Option<T> + 'a,
    ) -> impl Iterator<Item = io::Result<T>> + 'a {
        let whole = Cursor { file: &self.file, at: 0 }.chain(&self.rest[..]);
        let mut lines = BufReader::with_capacity(LONGEST as usize, whole);
        let mut line = String::new();
        let mut number = 0_u64;
        std::iter::from_fn(move || {
            loop {
                line.clear();
                number += 1;
                match (&mut lines).take(LONGEST).read_line(&mut line) {
                    Ok(0) => return None,
                    Ok(_) if number == 1 => {}
                    Ok(_) => {
                        return Some(read(line.trim_end()).ok_or_else(|| self.damaged(number)));
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
        })
    }

    fn damaged(&self, number: u64) -> io::Error {
        let text = format!("line {number} of {} is damaged", self.path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

/// A reader with a place that no other reader of the file moves.
struct Cursor<'a> {
    file: &'a File,
    at: u64,
}

impl Read for Cursor<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(spilled: &Spilled) -> Vec<u64> {
        spilled.rows(|line| line.parse().ok()).map(Result::unwrap).collect()
    }

    #[test]
    fn lines_are_on_the_disk_after_each_flush() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows.csv");
        std::fs::write(&path, "of a killed process").unwrap();
        let mut spill = Spill::create(&path, "number").unwrap();
        for number in 0..100_000 {
            spill.push(format_args!("{number}"));
            if number % 1000 == 0 {
                spill.flush();
            }
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("number\n0\n1\n") && text.ends_with("\n99000\n"));
        let spilled = spill.end();
        assert_eq!(numbers(&spilled), (0..100_000).collect::<Vec<u64>>());
        assert_eq!(numbers(&spilled).len(), 100_000, "a second time");
    }

    #[test]
    fn what_a_full_disk_does_not_take_stays_in_memory() {
        let file = File::options().read(true).write(true).open("/dev/full").unwrap();
        let path = PathBuf::from("/nowhere/rows.csv");
        let mut spill = Spill { path, file, buffer: Vec::new() };
        for line in ["number", "1", "2"] {
            spill.push(format_args!("{line}"));
            spill.flush();
        }
        assert_eq!(spill.buffer, b"number\n1\n2\n");
        // /dev/full reads as zeros without end, unlike a full disk.
        let spilled = Spilled { file: tempfile::tempfile().unwrap(), ..spill.end() };
        assert_eq!(numbers(&spilled), [1, 2]);
    }

    #[test]
    fn a_damaged_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut spill = Spill::create(&dir.path().join("rows.csv"), "number").unwrap();
        spill.push(format_args!("1"));
        spill.push(format_args!("many"));
        let spilled = spill.end();
        let all: Vec<io::Result<u64>> = spilled.rows(|line| line.parse().ok()).collect();
        let error = all[1].as_ref().unwrap_err().to_string();
        assert!(all.len() == 2 && error.contains("line 3 of ") && error.contains("rows.csv"));
    }
}
