//! Records the random impairment decisions on each frame, so that a run can be replayed.

use crate::full_disk::{Auxiliary, FullDisk};
use crate::tables::{Column, Rows, TableError};
use link::{Decided, Decision, Direction, Position, Recorded, Replay};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use units::Span;

/// Decisions that the medium passes on at once, and the length of the writer's queue.
const PIECE: usize = 1_024;
const PIECES: usize = 1_024;
/// Decisions of a row group: a quarter of those so far, within these limits. The library keeps the
/// description of each group in memory until the file ends, so groups must be large; those of a short
/// run are small, so that it needs little memory. They reach the maximum after 262,144 decisions: a slower
/// growth, as to a 64th, makes the tool's memory grow for hours.
const GROUP: std::ops::RangeInclusive<usize> = PIECE..=65_536;
const PART: u64 = 4;

type Piece = Vec<(u32, Decided)>;

/// The open file `decisions.parquet`. A separate thread writes it, so that the medium never waits
/// for a disk.
#[derive(Debug)]
pub struct Decisions {
    sender: Option<SyncSender<Piece>>,
    /// Returns the number of decisions that it gave up.
    writer: Option<JoinHandle<Result<u64, TableError>>>,
    piece: Piece,
    missed: u64,
}

impl Decisions {
    /// Creates the file.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn begin(path: &Path, disk: Arc<FullDisk>) -> Result<Self, TableError> {
        let (sender, pieces) = sync_channel(PIECES);
        let rows = Rows::begin(path, &columns(&[]))?;
        let path = path.to_owned();
        let work = move || write(rows, &pieces, &disk);
        let thread = std::thread::Builder::new().name("decisions".into());
        let failed = |error: std::io::Error| TableError::new(&path, error.to_string());
        let writer = thread.spawn(work).map_err(failed)?;
        let piece = Vec::with_capacity(PIECE);
        Ok(Self { sender: Some(sender), writer: Some(writer), piece, missed: 0 })
    }

    pub(crate) fn add(&mut self, segment: usize, decided: Decided) {
        self.piece.push((segment as u32, decided));
        if self.piece.len() == PIECE {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE));
        let count = piece.len() as u64;
        // Never waits: a decision is worth less than a frame on time.
        let passed = self.sender.as_ref().is_some_and(|sender| sender.try_send(piece).is_ok());
        self.missed += if passed { 0 } else { count };
    }

    /// Writes queued decisions and closes the file; returns the number of decisions missing because
    /// the disk was too slow or full.
    ///
    /// # Errors
    /// When writing failed at any time.
    pub fn end(mut self) -> Result<u64, TableError> {
        let last = std::mem::take(&mut self.piece);
        if let Some(sender) = self.sender.take() {
            // At the end there is time to wait for the disk.
            let _ = sender.send(last);
        }
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(written)) => written.map(|given_up| self.missed + given_up),
            _ => Ok(self.missed),
        }
    }
}

/// Writes decisions until there are no more, or until they are given up; returns how many are
/// missing then.
fn write(rows: Rows, pieces: &Receiver<Piece>, disk: &FullDisk) -> Result<u64, TableError> {
    let (mut open, mut stored, mut lost, mut group) = (Some(rows), 0, 0, Piece::new());
    for piece in pieces {
        group.extend(piece);
        // Given up by another writer, which needs the room.
        if disk.is_given_up(Auxiliary::Decisions)
            && let Some(rows) = open.take()
        {
            lost += lost_at(rows.end(), stored, disk)?;
        }
        if open.is_none() {
            lost += group.len() as u64;
            group = Piece::new();
        } else if group.len() >= group_size(stored) {
            lost += write_group(&mut open, &mut group, &mut stored, disk)?;
        }
    }
    lost += write_group(&mut open, &mut group, &mut stored, disk)?;
    let ended = open.map_or(Ok(()), Rows::end);
    Ok(lost + lost_at(ended, stored, disk)?)
}

fn group_size(stored: u64) -> usize {
    ((stored / PART) as usize).clamp(*GROUP.start(), *GROUP.end())
}

/// Writes the decisions of `group`, which is empty then. Returns how many are lost: if the disk is
/// full, all that were stored, and the table is closed.
fn write_group(
    open: &mut Option<Rows>,
    group: &mut Piece,
    stored: &mut u64,
    disk: &FullDisk,
) -> Result<u64, TableError> {
    let Some(rows) = open.as_mut().filter(|_| !group.is_empty()) else { return Ok(0) };
    *stored += group.len() as u64;
    let lost = lost_at(rows.write(columns(group)), *stored, disk)?;
    group.clear();
    if lost > 0 {
        *open = None;
    }
    Ok(lost)
}

/// The number of lost decisions: all that were stored, if the disk was full, because a file without
/// its end has no reader.
fn lost_at(
    result: Result<(), TableError>,
    stored: u64,
    disk: &FullDisk,
) -> Result<u64, TableError> {
    match result {
        Err(error) if error.is_full() => {
            disk.give_up(Auxiliary::Decisions);
            Ok(stored)
        }
        other => other.map(|()| 0),
    }
}

fn columns(piece: &[(u32, Decided)]) -> Vec<(&'static str, Column)> {
    let short = |of: &dyn Fn(&(u32, Decided)) -> u32| Column::Short(piece.iter().map(of).collect());
    let corrupt = |(_, d): &(u32, Decided)| d.decision.corrupt.map(i64::from);
    vec![
        ("segment", short(&|(segment, _)| *segment)),
        ("endpoint", short(&|(_, d)| d.endpoint)),
        ("down", short(&|(_, d)| u32::from(d.way == Direction::Down))),
        ("flow", Column::Whole(piece.iter().map(|(_, d)| d.position.flow).collect())),
        ("frame", Column::Whole(piece.iter().map(|(_, d)| d.position.index).collect())),
        ("length", short(&|(_, d)| d.length)),
        ("lost", short(&|(_, d)| u32::from(d.decision.lost))),
        ("duplicated", short(&|(_, d)| u32::from(d.decision.duplicated))),
        ("overtakes", short(&|(_, d)| u32::from(d.decision.overtakes))),
        ("corrupt", Column::Maybe(piece.iter().map(corrupt).collect())),
        ("delay_ns", Column::Whole(piece.iter().map(|(_, d)| d.decision.delay.as_ns()).collect())),
    ]
}

/// Decisions of each direction: up and down.
type Ways = [Vec<Recorded>; 2];

/// Why decisions could not be read.
#[derive(Debug, thiserror::Error)]
#[error("could not read the decisions in {path}: {why}")]
pub struct ReplayError {
    path: PathBuf,
    why: String,
}

/// Reads the decisions of a run: by segment and endpoint, up and down. `endpoints` is the number of
/// endpoints of each segment.
///
/// # Errors
/// When the file is missing, or belongs to another run.
pub fn read_decisions(
    path: &Path,
    endpoints: &[usize],
) -> Result<Vec<Vec<[Replay; 2]>>, ReplayError> {
    // The Parquet reader may panic on corrupt files.
    let read = std::panic::AssertUnwindSafe(|| read(path, endpoints));
    std::panic::catch_unwind(read).unwrap_or_else(|_| {
        let why = "its bytes are damaged".to_owned();
        Err(ReplayError { path: path.to_owned(), why })
    })
}

fn read(path: &Path, endpoints: &[usize]) -> Result<Vec<Vec<[Replay; 2]>>, ReplayError> {
    let failed = |why: String| ReplayError { path: path.to_owned(), why };
    let file = input::open(path, input::ANY_SIZE).map_err(|error| failed(error.to_string()))?;
    let reader = SerializedFileReader::new(file).map_err(|error| failed(error.to_string()))?;
    let columns = reader.metadata().file_metadata().schema_descr();
    // Older tables number the frames of a link, not those of a flow.
    if columns.num_columns() < 11 || columns.column(3).name() != "flow" {
        return Err(failed(
            "it was written by an older version of Thingbed: repeat that run".into(),
        ));
    }
    let mut all: Vec<Vec<Ways>> =
        endpoints.iter().map(|count| vec![Default::default(); *count]).collect();
    let rows = reader.get_row_iter(None).map_err(|error| failed(error.to_string()))?;
    for row in rows {
        let row = row.map_err(|error| failed(error.to_string()))?;
        let read = || -> Result<_, parquet::errors::ParquetError> {
            let decision = Decision {
                lost: row.get_uint(6)? == 1,
                duplicated: row.get_uint(7)? == 1,
                overtakes: row.get_uint(8)? == 1,
                // A frame that was not corrupted has no value here, which the reader reports as an
                // error.
                corrupt: row.get_long(9).ok().map(|place| place as u32),
                delay: Span::from_ns(row.get_ulong(10)?),
            };
            let position = Position { flow: row.get_ulong(3)?, index: row.get_ulong(4)? };
            let recorded = Recorded { position, length: row.get_uint(5)?, decision };
            let place = (row.get_uint(0)? as usize, row.get_uint(1)? as usize);
            Ok((place, row.get_uint(2)? as usize, recorded))
        };
        let ((segment, endpoint), way, recorded) =
            read().map_err(|error| failed(error.to_string()))?;
        let links = all.get_mut(segment).and_then(|ends| ends.get_mut(endpoint));
        let Some(direction) = links.and_then(|ways| ways.get_mut(way)) else {
            return Err(failed("it is of a run with other nodes or networks".to_owned()));
        };
        direction.push(recorded);
    }
    let replay = |ways: Ways| ways.map(Replay::new);
    Ok(all.into_iter().map(|ends| ends.into_iter().map(replay).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(endpoint: u32, way: Direction, index: u64, decision: Decision) -> Decided {
        let position = Position { flow: 9, index };
        Decided { endpoint, way, position, length: 60, decision, departure: None }
    }

    #[test]
    fn decisions_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.parquet");
        let mut decisions = Decisions::begin(&path, Arc::default()).unwrap();
        let lost = Decision { lost: true, delay: Span::from_ms(30), ..Decision::default() };
        let corrupt = Decision { corrupt: Some(u32::MAX), ..Decision::default() };
        decisions.add(0, decided(1, Direction::Up, 7, lost));
        decisions.add(1, decided(0, Direction::Down, 0, corrupt));
        for index in 0..40_000 {
            decisions.add(0, decided(0, Direction::Up, index, Decision::default()));
        }
        assert_eq!(decisions.end().unwrap(), 0);
        let mut replay = read_decisions(&path, &[2, 1]).unwrap();
        let take = |replay: &mut Replay, index| {
            let found = replay.take(Position { flow: 9, index });
            found.map(|recorded| (recorded.length, recorded.decision))
        };
        assert_eq!(take(&mut replay[0][1][0], 7), Some((60, lost)));
        assert_eq!(take(&mut replay[1][0][1], 0), Some((60, corrupt)));
        assert_eq!(take(&mut replay[1][0][1], 1), None);
        assert!((0..40_000).all(|index| take(&mut replay[0][0][0], index).is_some()));
    }

    #[test]
    fn groups_grow_with_the_run_and_stay_few() {
        // 36 million decisions are 10,000 a second for an hour.
        let (mut stored, mut groups) = (0, 0);
        while stored < 36_000_000 {
            stored += group_size(stored) as u64;
            groups += 1;
        }
        assert_eq!(group_size(0), 1_024);
        assert!(groups < 1_000, "{groups}");
        // From here on, the buffer has its final size: a soak must not see it grow.
        assert_eq!(group_size(262_144), *GROUP.end());
    }

    #[test]
    fn given_up_decisions_are_counted_and_the_earlier_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.parquet");
        let disk = Arc::<FullDisk>::default();
        let (sender, pieces) = sync_channel(PIECES);
        let piece = |first: u64| -> Piece {
            let of = |index| (0, decided(0, Direction::Up, index, Decision::default()));
            (first..first + 100).map(of).collect()
        };
        let rows = Rows::begin(&path, &columns(&[])).unwrap();
        let shared = disk.clone();
        let writer = std::thread::spawn(move || write(rows, &pieces, &shared));
        sender.send(piece(0)).unwrap();
        // The writer may have stored the first piece by now, or not.
        disk.give_up(Auxiliary::Decisions);
        sender.send(piece(100)).unwrap();
        drop(sender);
        let written = writer.join().unwrap();
        let missing = written.unwrap();
        let mut replay = read_decisions(&path, &[1]).unwrap();
        let kept = (0..200)
            .filter(|index| replay[0][0][0].take(Position { flow: 9, index: *index }).is_some());
        assert_eq!(kept.count() as u64 + missing, 200);
        assert!(missing >= 100, "{missing}");
        let full =
            TableError::new(&path, std::io::Error::from_raw_os_error(libc::ENOSPC).to_string());
        assert_eq!(lost_at(Err(full), 7, &disk).unwrap(), 7);
    }

    #[test]
    fn decisions_of_another_run_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("decisions.parquet");
        let mut decisions = Decisions::begin(&path, Arc::default()).unwrap();
        decisions.add(0, decided(5, Direction::Up, 7, Decision::default()));
        decisions.end().unwrap();
        let error = read_decisions(&path, &[2]).unwrap_err().to_string();
        assert!(error.contains("other nodes"), "{error}");
        let damaged = dir.path().join("damaged");
        std::fs::write(&damaged, b"PAR1 nonsense PAR1").unwrap();
        assert!(read_decisions(&damaged, &[1]).is_err());
        let missing = read_decisions(Path::new("/no/such"), &[]).unwrap_err().to_string();
        assert!(missing.contains("/no/such"));
    }
}
