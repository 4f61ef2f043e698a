//! Counts of the events in a file of a run that was cut short.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// Numbers of events of a file, by name: `sent`, `received` and so on.
pub type Tally = BTreeMap<String, u64>;

/// Adds the events of a file to `tally`, in constant memory. Ignores a truncated last line, and files
/// whose lines have no event names.
///
/// # Errors
/// When it cannot be read.
pub fn add_events(mut file: impl BufRead, tally: &mut Tally) -> io::Result<()> {
    let mut line = Vec::new();
    let mut column = None;
    loop {
        line.clear();
        // A line that is longer than all valid ones is not read on.
        io::Read::take(&mut file, MOST).read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\n") else { return Ok(()) };
        let mut fields = text.split(|byte| *byte == b',');
        match column {
            None => match fields.position(|name| name == b"event") {
                None => return Ok(()),
                found => column = found,
            },
            Some(at) => {
                let name = fields.nth(at).and_then(|name| std::str::from_utf8(name).ok());
                // Names of events are words; anything else is damage.
                let is_word = |name: &&str| {
                    name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                };
                let Some(name) = name.filter(is_word) else { return Ok(()) };
                *tally.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
}

/// Longest line, in bytes.
const MOST: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{MessageEvent, SourceEvent, written};

    fn tally(text: &[u8]) -> Tally {
        let mut tally = Tally::new();
        add_events(text, &mut tally).unwrap();
        tally
    }

    #[test]
    fn events_are_counted_up_to_any_cut() {
        let sent = MessageEvent::<SourceEvent>::default();
        let text = written(&[sent.clone(), sent.clone(), sent]);
        let name = text.lines().nth(1).unwrap().split(',').next().unwrap().to_owned();
        let mut counts = Vec::new();
        for cut in 0..=text.len() {
            counts.push(tally(&text.as_bytes()[..cut]).get(&name).copied().unwrap_or(0));
        }
        assert!(counts.is_sorted() && counts.last() == Some(&3), "{name} {counts:?}");
        assert_eq!(counts.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }

    #[test]
    fn other_files_have_no_events() {
        assert_eq!(tally(b""), Tally::new());
        assert_eq!(tally(b"core,mode\n1,busy\n"), Tally::new());
        assert_eq!(tally(b"event,n\n\x1b[31m,2\n"), Tally::new());
        assert_eq!(tally(&vec![b'x'; 200_000]), Tally::new());
    }
}
