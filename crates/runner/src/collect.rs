//! Merges the programs' event files into one row per message.

use measure::{Message, MessageTable};
use record::event::{ALL_PEERS, MessageEvent, SinkEvent, SourceEvent, lines};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Instant, Span};

/// The schedule that rows are compared with.
#[derive(Debug, Clone)]
pub(crate) struct Schedule<'a> {
    /// The name of the interaction.
    pub name: &'a str,
    /// Time of offset 0.
    pub start: Instant,
    /// Time between messages.
    pub every: Span,
    /// Number of messages.
    pub messages: u64,
    /// The receivers' names, in order.
    pub sinks: &'a [String],
    /// Number of receivers of each message, counted from the first; `None` for round robin.
    pub fan_out: Option<FanOut>,
    /// Message length in bytes.
    pub bytes: u32,
}

/// Number of receivers by message, in constant memory for as long as it does not change.
#[derive(Debug, Clone)]
pub(crate) struct FanOut(Vec<Step>);

/// The messages from `first` on.
#[derive(Debug, Clone)]
struct Step {
    first: u64,
    /// The first one's first row.
    row: usize,
    /// The receivers of each.
    sinks: usize,
}

impl FanOut {
    /// `sinks` has the number of receivers of each message in order.
    pub fn of(sinks: impl Iterator<Item = usize>) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for (message, sinks) in (0..).zip(sinks) {
            let last = steps.last();
            if last.is_none_or(|last| last.sinks != sinks) {
                let row = last.map_or(0, |last| last.row_of(message));
                steps.push(Step { first: message, row, sinks });
            }
        }
        Self(steps)
    }

    fn step(&self, message: u64) -> Option<&Step> {
        self.0[..self.0.partition_point(|step| step.first <= message)].last()
    }
}

impl Step {
    /// The first row of a message.
    fn row_of(&self, message: u64) -> usize {
        self.row + (message - self.first) as usize * self.sinks
    }
}

/// An events file is unreadable or invalid.
#[derive(Debug, thiserror::Error)]
#[error("could not read the results of {node} in {path}: {why}")]
pub struct CollectError {
    node: String,
    path: PathBuf,
    why: String,
}

/// Adds a row for each scheduled message and receiver, filled from the events of source and
/// sinks. A missing file means that the program died before it wrote; a truncated last line means
/// that it was killed. Both keep the events that exist.
pub(crate) fn collect(
    schedule: &Schedule<'_>,
    source: (&str, &Path),
    sinks: &[(&str, PathBuf)],
    rows: &mut MessageTable,
) -> Result<(), CollectError> {
    let begin = rows.len();
    plan(schedule, source.0, rows);
    let since = |ns: u64| Instant::from_ns(ns).ns_from(schedule.start);
    let place: HashMap<&str, usize> =
        schedule.sinks.iter().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
    let at = |message: u64, sink: usize| -> Option<usize> {
        // Numbers come from a program's file: one beyond the schedule must not address the row of
        // another workload.
        let place = usize::try_from(message).ok().filter(|_| message < schedule.messages)?;
        let row = match &schedule.fan_out {
            Some(to) => {
                let step = to.step(message)?;
                (sink < step.sinks).then(|| step.row_of(message) + sink)
            }
            None => (place % schedule.sinks.len().max(1) == sink).then_some(place),
        };
        row.map(|row| begin + row)
    };
    for line in events::<MessageEvent<'_, SourceEvent>>(source.0, source.1)? {
        let line = line?;
        let targets = match &*line.peer {
            ALL_PEERS => 0..schedule.sinks.len(),
            peer => match place.get(peer) {
                Some(sink) => *sink..sink + 1,
                None => continue,
            },
        };
        for row in targets.filter_map(|sink| at(line.message, sink)) {
            let time = since(line.time_ns);
            let change = |row: &mut Message| match line.event {
                SourceEvent::Sent => row.sent_ns = row.sent_ns.or(Some(time)),
                SourceEvent::ReplyReceived => {
                    row.reply_received_ns = row.reply_received_ns.or(Some(time));
                }
                SourceEvent::Duplicate => row.duplicates += 1,
            };
            rows.update(row, change).map_err(CollectError::of(source.0, source.1))?;
        }
    }
    for (name, path) in sinks {
        let Some(sink) = place.get(name) else { continue };
        for line in events::<MessageEvent<'_, SinkEvent>>(name, path)? {
            let line = line?;
            let Some(row) = at(line.message, *sink) else { continue };
            let time = since(line.time_ns);
            let change = |row: &mut Message| match line.event {
                SinkEvent::Received => row.received_ns = row.received_ns.or(Some(time)),
                SinkEvent::ReplySent => row.reply_sent_ns = row.reply_sent_ns.or(Some(time)),
                SinkEvent::Duplicate => row.duplicates += 1,
            };
            rows.update(row, change).map_err(CollectError::of(name, path))?;
        }
    }
    Ok(())
}

/// Adds the scheduled rows, without results.
fn plan(schedule: &Schedule<'_>, source: &str, rows: &mut MessageTable) {
    let (interaction, sender): (Arc<str>, Arc<str>) = (schedule.name.into(), source.into());
    let sinks: Vec<Arc<str>> = schedule.sinks.iter().map(|name| name.as_str().into()).collect();
    let row = |message: u64, peer: &Arc<str>| Message {
        message,
        interaction: interaction.clone(),
        sender: sender.clone(),
        peer: peer.clone(),
        intended_ns: (schedule.every * message).as_ns() as i64,
        bytes: schedule.bytes,
        ..Message::default()
    };
    for message in 0..schedule.messages {
        match &schedule.fan_out {
            Some(to) => {
                let count = to.step(message).map_or(0, |step| step.sinks);
                rows.extend(sinks.iter().take(count).map(|peer| row(message, peer)));
            }
            None => rows
                .extend(sinks.get(message as usize % sinks.len().max(1)).map(|p| row(message, p))),
        }
    }
}

impl CollectError {
    /// Why the results of `node` in `path` could not be read.
    pub fn of<E: ToString>(node: &str, path: &Path) -> impl Fn(E) -> Self {
        move |why| Self { node: node.to_owned(), path: path.to_owned(), why: why.to_string() }
    }
}

/// The events of a program's file, in constant memory; none if the file is missing.
pub(crate) fn events<T: DeserializeOwned>(
    node: &str,
    path: &Path,
) -> Result<impl Iterator<Item = Result<T, CollectError>>, CollectError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        file => Some(file.map_err(CollectError::of(node, path))?),
    };
    let of_file = file.map(lines::<T>).transpose().map_err(CollectError::of(node, path))?;
    let failed = CollectError::of::<String>(node, path);
    Ok(of_file.into_iter().flatten().map(move |line| line.map_err(&failed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "event,message,peer,time_ns,intended_ns,bytes\n";

    fn files(source: &str, sink: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("source.csv"), dir.path().join("sink.csv"));
        std::fs::write(&a, format!("{HEAD}{source}")).unwrap();
        std::fs::write(&b, format!("{HEAD}{sink}")).unwrap();
        (dir, a, b)
    }

    fn schedule(sinks: &[String], to_all: bool) -> Schedule<'_> {
        let fan_out = to_all.then(|| FanOut::of([sinks.len(); 3].into_iter()));
        let (start, every) = (Instant::from_ns(1000), Span::from_ns(100));
        Schedule { name: "i", start, every, messages: 3, sinks, fan_out, bytes: 9 }
    }

    /// Rows behind one of another workload.
    fn collect(
        schedule: &Schedule<'_>,
        source: (&str, &Path),
        sinks: &[(&str, PathBuf)],
    ) -> Result<Vec<Message>, CollectError> {
        let mut table = MessageTable::new(Path::new("/nowhere"));
        table.push(Message::default());
        super::collect(schedule, source, sinks, &mut table)?;
        let mut rows: Vec<_> = table.iter().map(Result::unwrap).collect();
        assert_eq!(rows.remove(0), Message::default());
        Ok(rows)
    }

    #[test]
    fn a_publication_is_a_row_for_each_sink() {
        let sinks = ["m-1".to_owned(), "m-2".to_owned()];
        let (_dir, source, sink) = files(
            "sent,0,*,1005,1000,9\nreply_received,0,m-2,1090,,9\nsent,1,*,11",
            "received,0,u,1050,,9\nduplicate,0,u,1055,,9\nreply_sent,0,u,1060,1050,9\n",
        );
        let rows = collect(&schedule(&sinks, true), ("u", &source), &[("m-2", sink)]).unwrap();
        assert_eq!(rows.len(), 6);
        assert_eq!((rows[0].sent_ns, rows[0].received_ns), (Some(5), None));
        let row = &rows[1];
        assert_eq!(
            (row.intended_ns, row.received_ns, row.reply_received_ns),
            (0, Some(50), Some(90))
        );
        assert_eq!((row.reply_sent_ns, row.duplicates), (Some(60), 1));
        assert_eq!(rows[2].sent_ns, None, "the cut line is no event");
    }

    #[test]
    fn a_publication_to_some_is_a_row_for_each_of_them() {
        let sinks = ["m-1".to_owned(), "m-2".to_owned()];
        let (_dir, source, sink) = files(
            "sent,0,*,1005,1000,9\nsent,1,*,1105,1100,9\nsent,2,*,1205,1200,9\n",
            "received,0,u,1050,,9\nreceived,1,u,1150,,9\nreceived,2,u,1250,,9\n",
        );
        let some =
            Schedule { fan_out: Some(FanOut::of([1, 2, 1].into_iter())), ..schedule(&sinks, true) };
        let rows = collect(&some, ("u", &source), &[("m-2", sink)]).unwrap();
        let of: Vec<_> = rows.iter().map(|row| (row.message, &*row.peer)).collect();
        assert_eq!(of, [(0, "m-1"), (1, "m-1"), (1, "m-2"), (2, "m-1")]);
        let sent: Vec<_> = rows.iter().map(|row| row.sent_ns).collect();
        assert_eq!(sent, [Some(5), Some(105), Some(105), Some(205)]);
        let received: Vec<_> = rows.iter().map(|row| row.received_ns).collect();
        assert_eq!(received, [None, None, Some(150), None], "not for the other receivers");
    }

    #[test]
    fn requests_take_turns_and_strangers_are_ignored() {
        let sinks = ["m-1".to_owned(), "m-2".to_owned()];
        let (_dir, source, sink) = files(
            "sent,2,m-1,1201,1200,9\nsent,2,m-2,1,1,9\nsent,9,m-1,1,1,9\nsent,0,x,1,1,9\n",
            "",
        );
        let rows = collect(&schedule(&sinks, false), ("u", &source), &[("m-1", sink)]).unwrap();
        let peers: Vec<_> = rows.iter().map(|row| &*row.peer).collect();
        assert_eq!(peers, ["m-1", "m-2", "m-1"]);
        assert_eq!(rows[2].sent_ns, Some(201));
        assert_eq!((rows[0].sent_ns, rows[1].sent_ns), (None, None));
    }

    #[test]
    fn what_is_not_an_event_is_an_error_with_the_place() {
        let sinks = ["m-1".to_owned()];
        for line in ["sent,many,m-1,1,1,9", "received,0,m-1,1,1,9", "gone,0,m-1,1,1,9"] {
            let (_dir, source, _) = files(&format!("{line}\n"), "");
            let error = collect(&schedule(&sinks, false), ("u", &source), &[]).unwrap_err();
            assert!(error.to_string().contains("line: 2"), "{error}");
        }
        let none = Path::new("/no/such/file");
        assert_eq!(collect(&schedule(&sinks, false), ("u", none), &[]).unwrap().len(), 3);
    }
    use proptest::prelude::*;

    /// An event as a program may write it, also with numbers and peers that are not in the schedule.
    fn any_event() -> impl Strategy<Value = (u64, usize, u64, u8)> {
        (0..6_u64, 0..5_usize, 0..90_u64, 0..3_u8)
    }

    const PEERS: [&str; 5] = ["m-0", "m-1", "m-2", "stranger", "*"];

    proptest! {
        /// Compared with a table of message and receiver, which is filled event by event.
        #[test]
        fn rows_are_those_of_a_table_that_is_filled_by_hand(
            fan_out in prop::option::of(prop::collection::vec(0..4_usize, 4)),
            source in prop::collection::vec(any_event(), 0..30),
            sinks in prop::array::uniform3(prop::collection::vec(any_event(), 0..10)),
        ) {
            let names: Vec<String> = (0..3).map(|sink| format!("m-{sink}")).collect();
            let receivers = |message: u64| match &fan_out {
                Some(counts) => (0..counts[message as usize]).collect::<Vec<_>>(),
                None => vec![message as usize % 3],
            };
            let mut expected = std::collections::BTreeMap::new();
            for message in 0..4 {
                for sink in receivers(message) {
                    expected.insert((message, sink), Message::default());
                }
            }
            let dir = tempfile::tempdir().unwrap();
            let file = |name: &str, lines: String| {
                let path = dir.path().join(name);
                std::fs::write(&path, format!("{HEAD}{lines}")).unwrap();
                path
            };
            let line = |word: &str, (message, peer, time, _): &(u64, usize, u64, u8)| {
                format!("{word},{message},{},{},,9\n", PEERS[*peer], 1000 + time)
            };
            let mut text = String::new();
            for event in &source {
                let (message, peer, time, what) = *event;
                text += &line(["sent", "reply_received", "duplicate"][what as usize], event);
                for sink in (0..3).filter(|sink| *sink == peer || PEERS[peer] == ALL_PEERS) {
                    let Some(row) = expected.get_mut(&(message, sink)) else { continue };
                    match what {
                        0 => _ = row.sent_ns.get_or_insert(time as i64),
                        1 => _ = row.reply_received_ns.get_or_insert(time as i64),
                        _ => row.duplicates += 1,
                    }
                }
            }
            let source = file("source", text);
            let mut files = Vec::new();
            for (sink, events) in sinks.iter().enumerate() {
                let mut text = String::new();
                for event in events {
                    let (message, _, time, what) = *event;
                    text += &line(["received", "reply_sent", "duplicate"][what as usize], event);
                    let Some(row) = expected.get_mut(&(message, sink)) else { continue };
                    match what {
                        0 => _ = row.received_ns.get_or_insert(time as i64),
                        1 => _ = row.reply_sent_ns.get_or_insert(time as i64),
                        _ => row.duplicates += 1,
                    }
                }
                files.push((names[sink].as_str(), file(&names[sink], text)));
            }
            let fan_out = fan_out.as_ref().map(|counts| FanOut::of(counts.iter().copied()));
            let schedule = Schedule { messages: 4, fan_out, ..schedule(&names, false) };
            let rows = collect(&schedule, ("u", &source), &files).unwrap();
            let found: Vec<_> = rows.iter().map(|row| (row.message, &*row.peer)).collect();
            let of = |(message, sink): &(u64, usize)| (*message, names[*sink].as_str());
            prop_assert_eq!(found, expected.keys().map(of).collect::<Vec<_>>());
            for (row, expected) in rows.iter().zip(expected.values()) {
                let times = |row: &Message| {
                    (
                        [row.sent_ns, row.received_ns, row.reply_sent_ns, row.reply_received_ns],
                        row.duplicates,
                    )
                };
                prop_assert_eq!(times(row), times(expected), "{:?}", row);
                prop_assert_eq!(row.intended_ns, row.message as i64 * 100);
            }
        }

        /// Steps of equal numbers are one, so that a run of days takes no memory for them.
        #[test]
        fn the_first_row_of_a_message_is_the_sum_of_the_receivers_before(
            counts in prop::collection::vec(0..3_usize, 0..50),
        ) {
            let fan_out = FanOut::of(counts.iter().copied());
            let mut row = 0;
            for (message, count) in counts.iter().enumerate() {
                let step = fan_out.step(message as u64).unwrap();
                prop_assert_eq!((step.row_of(message as u64), step.sinks), (row, *count));
                row += count;
            }
            let changes = counts.windows(2).filter(|pair| pair[0] != pair[1]).count();
            let steps = changes + usize::from(!counts.is_empty());
            prop_assert_eq!(fan_out.0.len(), steps);
        }
    }

    #[test]
    fn a_schedule_without_receivers_or_messages_has_no_rows() {
        let (_dir, source, _) = files("sent,0,*,1005,1000,9\nsent,0,m-1,1005,1000,9\n", "");
        for to_all in [true, false] {
            let none = schedule(&[], to_all);
            assert!(collect(&none, ("u", &source), &[]).unwrap().is_empty());
            let sinks = ["m-1".to_owned()];
            let empty = Schedule { messages: 0, fan_out: None, ..schedule(&sinks, to_all) };
            assert!(collect(&empty, ("u", &source), &[]).unwrap().is_empty());
        }
    }
}
