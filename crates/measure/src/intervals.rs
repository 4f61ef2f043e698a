//! Link intervals of a run. They are on the disk, not in memory.

use engine::{LinkInterval, Place};
use journal::{Spill, Spilled};
use link::{Direction, Impairment, Interval, Totals};
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use units::{Instant, Span};

/// Name of the file in the run folder that has the intervals while the run goes on.
const FILE: &str = "link-intervals.csv";
const HEAD: &str = "network,endpoint,direction,from_ns,to_ns,configuration,changing,\
    frames,bytes,passed,lost,overflow,outage,denied,weak_signal,too_long,rejected,retried,collided,corrupted,\
    duplicated,reordered,delay_sum_ns,delay_max_ns,wire_bytes,busy_ns,released,late_sum_ns";

/// Writes intervals to the disk. A separate thread does it, so that the medium never waits for a
/// disk.
#[derive(Debug)]
pub struct IntervalLog {
    sender: Sender<Vec<LinkInterval>>,
    writer: JoinHandle<Intervals>,
}

/// All intervals of a run.
#[derive(Debug, Default)]
pub struct Intervals {
    rows: Option<Spilled>,
    /// The distinct configurations, by their number in the file.
    configurations: Vec<Arc<Impairment>>,
}

impl IntervalLog {
    /// Creates the file in `folder`.
    ///
    /// # Errors
    /// When the file or the thread cannot be created.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        // Without a limit: the medium must not wait, and a figure must not be lost.
        let (sender, pieces) = channel();
        let spill = Spill::create(&folder.join(FILE), HEAD)?;
        let thread = std::thread::Builder::new().name("intervals".into());
        let writer = thread.spawn(move || write(spill, &pieces))?;
        Ok(Self { sender, writer })
    }

    pub(crate) fn add(&self, ended: Vec<LinkInterval>) {
        // Fails only after the thread has panicked.
        let _ = self.sender.send(ended);
    }

    /// All intervals, after the medium has ended.
    pub fn end(self) -> Intervals {
        drop(self.sender);
        self.writer.join().unwrap_or_default()
    }
}

impl Intervals {
    /// The intervals in order of time, as often as needed.
    pub fn iter(&self) -> impl Iterator<Item = io::Result<LinkInterval>> + '_ {
        self.rows.iter().flat_map(|rows| rows.rows(|line| self.read(line)))
    }

    /// The name of its file in a run folder, which is needed until the intervals are in a table.
    pub fn file() -> &'static str {
        FILE
    }

    fn read(&self, line: &str) -> Option<LinkInterval> {
        let mut values = line.split(',').map(u64::from_str);
        let mut next = || values.next()?.ok();
        let place = Place { segment: next()? as usize, endpoint: next()? as usize };
        let direction = if next()? == 0 { Direction::Up } else { Direction::Down };
        let (from, to) = (Instant::from_ns(next()?), Instant::from_ns(next()?));
        let configured = self.configurations.get(next()? as usize)?.clone();
        let changing = next()? == 1;
        let measured = Totals {
            frames: next()?,
            bytes: next()?,
            passed: next()?,
            lost: next()?,
            overflow: next()?,
            outage: next()?,
            denied: next()?,
            weak_signal: next()?,
            too_long: next()?,
            rejected: next()?,
            retried: next()?,
            collided: next()?,
            corrupted: next()?,
            duplicated: next()?,
            reordered: next()?,
            delay_sum: Span::from_ns(next()?),
            delay_max: Span::from_ns(next()?),
            wire_bytes: next()?,
            busy: Span::from_ns(next()?),
            released: next()?,
            late_sum: Span::from_ns(next()?),
            ..Totals::default()
        };
        let interval = Interval { from, to, configured, changing, measured };
        values.next().is_none().then_some(LinkInterval { place, direction, interval })
    }
}

fn write(mut spill: Spill, pieces: &Receiver<Vec<LinkInterval>>) -> Intervals {
    let mut configurations = Configurations::default();
    for piece in pieces {
        for LinkInterval { place, direction, interval } in piece {
            let Interval { from, to, configured, changing, measured } = interval;
            let Place { segment, endpoint } = place;
            let way = u8::from(direction == Direction::Down);
            let number = configurations.number(&configured);
            let changing = u8::from(changing);
            let Totals { frames, bytes, passed, lost, overflow, outage, denied, .. } = measured;
            let Totals { weak_signal, too_long, rejected, retried, collided, corrupted, .. } =
                measured;
            let Totals { duplicated, reordered, delay_sum, delay_max, wire_bytes, busy, .. } =
                measured;
            let Totals { released, late_sum, .. } = measured;
            let [from, to] = [from, to].map(Instant::as_ns);
            let spans = [delay_sum, delay_max, busy, late_sum];
            let [delay_sum, delay_max, busy, late_sum] = spans.map(Span::as_ns);
            spill.push(format_args!(
                "{segment},{endpoint},{way},{from},{to},{number},{changing},{frames},{bytes},\
                 {passed},{lost},{overflow},{outage},{denied},{weak_signal},{too_long},{rejected},{retried},\
                 {collided},{corrupted},{duplicated},{reordered},{delay_sum},{delay_max},{wire_bytes},{busy},\
                 {released},{late_sum}"
            ));
        }
        spill.flush();
    }
    Intervals { rows: Some(spill.end()), configurations: configurations.all }
}

/// Distinct configurations of links. Their number depends on the plan, not on the duration.
#[derive(Debug, Default)]
struct Configurations {
    all: Vec<Arc<Impairment>>,
    /// The number of each in `all`, by its place in memory.
    numbers: HashMap<usize, usize>,
}

impl Configurations {
    fn number(&mut self, asked: &Arc<Impairment>) -> usize {
        let place = Arc::as_ptr(asked) as usize;
        if let Some(number) = self.numbers.get(&place) {
            return *number;
        }
        // The same configuration may exist in several places in memory.
        let equal = self.all.iter().position(|known| known == asked);
        equal.unwrap_or_else(|| {
            // Kept alive here, so its place in memory remains its own.
            self.all.push(asked.clone());
            self.numbers.insert(place, self.all.len() - 1);
            self.all.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(endpoint: usize, direction: Direction, asked: &Arc<Impairment>) -> LinkInterval {
        let measured = Totals {
            frames: 1,
            bytes: 2,
            passed: 3,
            lost: 4,
            overflow: 5,
            outage: 6,
            denied: 7,
            weak_signal: 20,
            too_long: 21,
            rejected: 8,
            retried: 9,
            collided: 10,
            corrupted: 11,
            duplicated: 12,
            reordered: 13,
            delay_sum: Span::from_ns(14),
            delay_max: Span::from_ns(15),
            wire_bytes: 16,
            busy: Span::from_ns(17),
            released: 18,
            late_sum: Span::from_ns(19),
            ..Totals::default()
        };
        let (from, to) = (Instant::from_ns(20), Instant::from_ns(30));
        let interval = Interval { from, to, configured: asked.clone(), changing: false, measured };
        LinkInterval { place: Place { segment: 2, endpoint }, direction, interval }
    }

    #[test]
    fn intervals_read_back_with_their_configurations() {
        let dir = tempfile::tempdir().unwrap();
        let log = IntervalLog::begin(dir.path()).unwrap();
        let plain = Arc::new(Impairment::default());
        let mut slow = Impairment::default();
        slow.delay.mean = "30 ms".parse().unwrap();
        let slow = Arc::new(slow);
        let mut all = vec![
            interval(0, Direction::Up, &plain),
            interval(1, Direction::Down, &slow),
            interval(1, Direction::Up, &Arc::new(Impairment::default())),
        ];
        all[1].interval.changing = true;
        log.add(all[..2].to_vec());
        log.add(all[2..].to_vec());
        let intervals = log.end();
        let read: Vec<LinkInterval> = intervals.iter().map(Result::unwrap).collect();
        assert_eq!(read, all);
        assert_eq!(intervals.configurations.len(), 2, "equal ones are one");
        assert_eq!(intervals.iter().count(), 3, "a second time");
    }
}
