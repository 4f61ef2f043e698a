//! The time of a folder's records, in seconds: it goes on while the gateway runs by the system's monotonic
//! clock, whatever is set on the wall clock, and over a restart by the time since the system's start. The wall
//! clock counts for a restart of the system only, and for seven days at most.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Name of the file in the folder.
const FILE: &str = "clock";
/// Maximum time that the wall clock can count while the system does not run, in seconds.
const MAX_AWAY_S: u64 = 7 * 24 * 3_600;
/// A wall clock before 2025 was not set yet (a device without a battery for it), in seconds since 1970.
const UNSET_S: u64 = 1_735_689_600;
/// Time after which the file is written again, so that a power cut loses little, in seconds.
const EVERY_S: u64 = 3_600;

/// What a folder remembers of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    /// The start of the system.
    boot: String,
    /// Time since then, in seconds.
    uptime_s: u64,
    /// The wall clock, in seconds since 1970.
    wall_s: u64,
    /// The time of records.
    time_s: u64,
}

/// What the system's clocks say.
#[derive(Debug, Clone, PartialEq, Eq)]
struct System {
    boot: Option<String>,
    uptime_s: u64,
    wall_s: u64,
}

impl System {
    fn now() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot = boot.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let uptime_s = uptime.split('.').next().and_then(|text| text.parse().ok());
        Self { boot, uptime_s: uptime_s.unwrap_or_default(), wall_s: wall_s() }
    }
}

/// Seconds since 1970 by the wall clock.
fn wall_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The time of records now: after the last mark of the folder, if it has one.
fn begin(last: Option<&Mark>, now: &System) -> u64 {
    let Some(last) = last else { return now.wall_s };
    let passed_s = match &now.boot {
        // The same start of the system: its clock has counted meanwhile.
        Some(boot) if *boot == last.boot => now.uptime_s.saturating_sub(last.uptime_s),
        _ if last.wall_s < UNSET_S || now.wall_s < UNSET_S => now.uptime_s,
        // A clock that was set back makes sessions and messages last longer.
        _ => now.wall_s.saturating_sub(last.wall_s).clamp(now.uptime_s.min(MAX_AWAY_S), MAX_AWAY_S),
    };
    last.time_s.saturating_add(passed_s)
}

/// The clock of a folder.
#[derive(Debug)]
pub struct Clock {
    path: PathBuf,
    boot: String,
    start: Instant,
    /// The time of records at `start`.
    start_s: u64,
    /// The last mark that is in the file.
    marked: Option<Mark>,
}

impl Clock {
    /// Goes on with the time of a folder. One without a mark, or with a damaged one, begins with the wall
    /// clock.
    pub fn open(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let last = fs::read_to_string(&path).ok().and_then(|text| Mark::read(&text));
        let (now, start) = (System::now(), Instant::now());
        let start_s = begin(last.as_ref(), &now);
        Self { path, boot: now.boot.unwrap_or_default(), start, start_s, marked: None }
    }

    /// The time of records.
    pub fn now_s(&self) -> u64 {
        self.start_s.saturating_add(self.start.elapsed().as_secs())
    }

    /// Whether the mark in the file is old, or the wall clock was set since.
    pub fn is_due(&self) -> bool {
        let Some(Mark { wall_s: marked_s, time_s, .. }) = &self.marked else { return true };
        let passed_s = self.now_s().saturating_sub(*time_s);
        let expected_s = marked_s.saturating_add(passed_s);
        // Both are whole seconds.
        passed_s >= EVERY_S || expected_s.abs_diff(wall_s()) > 2
    }

    /// Writes a mark. If the disk is full or fails, the former one stays, and lifetimes last longer.
    pub fn mark(&mut self) {
        let now = System::now();
        let (boot, time_s) = (self.boot.clone(), self.now_s());
        let mark = Mark { boot, uptime_s: now.uptime_s, wall_s: now.wall_s, time_s };
        let next = self.path.with_extension("next");
        if fs::write(&next, mark.text()).and_then(|()| fs::rename(&next, &self.path)).is_err() {
            // It must not take the room that the next record needs.
            let _ = fs::remove_file(&next);
        }
        self.marked = Some(mark);
    }
}

impl Mark {
    fn text(&self) -> String {
        let Self { boot, uptime_s, wall_s, time_s } = self;
        let text = format!("{uptime_s} {wall_s} {time_s} {boot}");
        // A file that was written in part has another checksum.
        format!("{text}\n{:08x}\n", crc32fast::hash(text.as_bytes()))
    }

    fn read(text: &str) -> Option<Self> {
        let (first, check) = text.split_once('\n')?;
        let check = u32::from_str_radix(check.trim_end(), 16).ok()?;
        let mut parts = first.splitn(4, ' ');
        let mut number = || parts.next()?.parse().ok();
        let (uptime_s, wall_s, time_s) = (number()?, number()?, number()?);
        let boot = parts.next()?.to_owned();
        let mark = Self { boot, uptime_s, wall_s, time_s };
        (check == crc32fast::hash(first.as_bytes())).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::Folder;

    const NOW_S: u64 = 1_800_000_000;

    fn mark() -> Mark {
        Mark { boot: "a".to_owned(), uptime_s: 100, wall_s: NOW_S, time_s: 5_000 }
    }

    fn system(boot: &str, uptime_s: u64, wall_s: u64) -> System {
        System { boot: Some(boot.to_owned()), uptime_s, wall_s }
    }

    /// What failed before: a wall clock that was set forward ended sessions and messages at the next start.
    #[test]
    fn the_wall_clock_counts_over_a_restart_of_the_system_only_and_is_bounded() {
        let passed = |now: &System| begin(Some(&mark()), now) - 5_000;
        // The same start of the system, whatever the wall clock says.
        for wall_s in [0, NOW_S, u64::MAX] {
            assert_eq!(passed(&system("a", 130, wall_s)), 30);
        }
        assert_eq!(passed(&system("a", 0, NOW_S)), 0, "a clock that goes back");
        // Another one: the wall clock, but no less than the system has run, and no more than seven days.
        assert_eq!(passed(&system("b", 10, NOW_S + 60)), 60);
        assert_eq!(passed(&system("b", 10, NOW_S - 60)), 10);
        assert_eq!(passed(&system("b", 10, u64::MAX)), MAX_AWAY_S);
        // A clock that is not set, before or now.
        assert_eq!(passed(&system("b", 10, 1_000)), 10);
        let unset = Mark { wall_s: 1_000, ..mark() };
        assert_eq!(begin(Some(&unset), &system("b", 10, NOW_S)), 5_010);
        // Without a name of the start, and the first time.
        let nameless = System { boot: None, ..system("", 10, NOW_S + 60) };
        assert_eq!(begin(Some(&mark()), &nameless), 5_060);
        assert_eq!(begin(None, &system("b", 10, 77)), 77);
    }

    #[test]
    fn a_folder_goes_on_with_its_time_and_a_damaged_mark_is_none() {
        let folder = Folder::new("clock");
        std::fs::create_dir_all(&folder.0).unwrap();
        let mut clock = Clock::open(&folder.0);
        assert!(clock.is_due() && clock.now_s() >= UNSET_S.min(wall_s()));
        // As if the wall clock had been set forward by a year, then back, while the gateway ran.
        clock.start_s = 5_000;
        clock.mark();
        assert!(!clock.is_due());
        let again = Clock::open(&folder.0);
        assert!((5_000..5_000 + 120).contains(&again.now_s()), "{}", again.now_s());
        let text = std::fs::read_to_string(folder.0.join(FILE)).unwrap();
        assert_eq!(Mark::read(&text), clock.marked);
        for end in 0..text.len() - 1 {
            assert_eq!(Mark::read(&text[..end]), None, "{end}");
        }
        assert_eq!(Mark::read(&text.replace('5', "6")), None);
        clock.marked = clock.marked.map(|mark| Mark { wall_s: mark.wall_s - 60, ..mark });
        assert!(clock.is_due(), "the wall clock was set");
    }
}
