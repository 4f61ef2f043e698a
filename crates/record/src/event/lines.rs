//! Reads files of events line by line.

use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Bytes that are read at once to find the last line.
const PIECE: u64 = 64 * 1024;

/// The events of a file as [`super::read`] returns them, in constant memory.
///
/// # Errors
/// When the file cannot be read. Each item can be an error, too: the line that is no such event, and why.
pub fn lines<T: DeserializeOwned>(
    file: File,
) -> io::Result<impl Iterator<Item = Result<T, String>>> {
    let whole = whole_lines(&file)?;
    // Only whole lines: a killed program may have left a part of one.
    let lines = csv::Reader::from_reader(file.take(whole)).into_deserialize();
    Ok(lines.map(|line| line.map_err(|error| error.to_string())))
}

/// Bytes up to the end of the last line that has one.
fn whole_lines(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut bytes = Vec::new();
    while end > 0 {
        let begin = end.saturating_sub(PIECE);
        bytes.resize((end - begin) as usize, 0);
        file.read_exact_at(&mut bytes, begin)?;
        if let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + last as u64 + 1);
        }
        // No line ends in this piece: the one before it.
        end = begin;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Probed, read, written};
    use std::io::Write;

    fn of(text: &[u8]) -> Result<Vec<Probed>, String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        lines(file).unwrap().collect()
    }

    #[test]
    fn a_file_cut_anywhere_has_the_events_of_its_text() {
        let text = written(&[Probed { core: 1, ..Probed::default() }; 3]);
        for cut in 0..=text.len() {
            let cut = &text.as_bytes()[..cut];
            assert_eq!(of(cut), read(cut), "{cut:?}");
        }
        let wrong = text.replacen("sleep,", "dance,", 1);
        let error = of(wrong.as_bytes()).unwrap_err();
        assert!(error.contains("line: 2") && error.contains("dance"), "{error}");
    }

    #[test]
    fn a_last_line_longer_than_a_piece_is_left_out() {
        let mut text = written(&[Probed::default()]).into_bytes();
        text.resize(text.len() + 3 * PIECE as usize, b'x');
        assert_eq!(of(&text).unwrap(), [Probed::default()]);
    }
}
