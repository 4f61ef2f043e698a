//! The time of a folder's records: it goes on while the program runs by the system's monotonic clock, whatever is
//! set on the wall clock, and over a restart by the time since the system's start. The wall
//! clock counts for a restart of the system only, and for seven days at most.

use super::log::checksum;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Name of the file in the folder.
const FILE: &str = "clock";
/// Maximum time that the wall clock can count while the system does not run, in ms.
const MAX_AWAY_MS: u64 = 7 * 24 * 3_600_000;
/// A wall clock before 2025 was not set yet (a device without a battery for it), in ms since 1970.
const UNSET_MS: u64 = 1_735_689_600_000;
/// Time after which the file is written again, so that a power cut loses little, in ms.
const EVERY_MS: u64 = 3_600_000;
/// Difference to the monotonic clock from which on the wall clock was set, in ms.
const SET_MS: u64 = 2_000;

/// What a folder remembers of the time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    /// The start of the system.
    boot: String,
    /// Time since then, in ms.
    uptime_ms: u64,
    /// The wall clock, in ms since 1970.
    wall_ms: u64,
    /// The time of records.
    time_ms: u64,
}

/// What the system's clocks say.
#[derive(Debug, Clone, PartialEq, Eq)]
struct System {
    boot: Option<String>,
    uptime_ms: u64,
    wall_ms: u64,
}

impl System {
    fn now() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot = boot.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        let uptime: Option<f64> = uptime.split(' ').next().and_then(|text| text.parse().ok());
        let uptime_ms = uptime.map_or(0, |uptime_s| (uptime_s * 1e3) as u64);
        Self { boot, uptime_ms, wall_ms: wall_ms() }
    }
}

/// Milliseconds since 1970 by the wall clock.
fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// The time of records now: after the last mark of the folder, if it has one.
fn begin(last: Option<&Mark>, now: &System) -> u64 {
    let Some(last) = last else { return now.wall_ms };
    let passed_ms = match &now.boot {
        // The same start of the system: its clock has counted meanwhile.
        Some(boot) if *boot == last.boot => now.uptime_ms.saturating_sub(last.uptime_ms),
        _ if last.wall_ms < UNSET_MS || now.wall_ms < UNSET_MS => now.uptime_ms,
        // A clock that was set back makes sessions and messages last longer.
        _ => now
            .wall_ms
            .saturating_sub(last.wall_ms)
            .clamp(now.uptime_ms.min(MAX_AWAY_MS), MAX_AWAY_MS),
    };
    last.time_ms.saturating_add(passed_ms)
}

/// The clock of a folder.
#[derive(Debug)]
pub struct FolderClock {
    path: PathBuf,
    boot: String,
    start: Instant,
    /// The time of records at `start`.
    start_ms: u64,
    /// The last mark that is in the file.
    marked: Option<Mark>,
}

impl FolderClock {
    /// Goes on with the time of a folder. One without a mark, or with a damaged one, begins with the wall
    /// clock.
    pub fn open(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let last = fs::read_to_string(&path).ok().and_then(|text| Mark::read(&text));
        let (now, start) = (System::now(), Instant::now());
        let start_ms = begin(last.as_ref(), &now);
        Self { path, boot: now.boot.unwrap_or_default(), start, start_ms, marked: None }
    }

    /// The time of records, in ms.
    pub fn now_ms(&self) -> u64 {
        self.start_ms.saturating_add(self.start.elapsed().as_millis() as u64)
    }

    /// Whether the mark in the file is old, or the wall clock was set since.
    pub fn is_due(&self) -> bool {
        let Some(Mark { wall_ms: marked_ms, time_ms, .. }) = &self.marked else { return true };
        let passed_ms = self.now_ms().saturating_sub(*time_ms);
        let expected_ms = marked_ms.saturating_add(passed_ms);
        passed_ms >= EVERY_MS || expected_ms.abs_diff(wall_ms()) > SET_MS
    }

    /// Writes a mark. If the disk is full or fails, the former one stays, and lifetimes last longer.
    pub fn mark(&mut self) {
        let now = System::now();
        let (boot, time_ms) = (self.boot.clone(), self.now_ms());
        let mark = Mark { boot, uptime_ms: now.uptime_ms, wall_ms: now.wall_ms, time_ms };
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
        let Self { boot, uptime_ms, wall_ms, time_ms } = self;
        let text = format!("{uptime_ms} {wall_ms} {time_ms} {boot}");
        // A file that was written in part has another checksum.
        format!("{text}\n{:08x}\n", u32::from_be_bytes(checksum(text.as_bytes())))
    }

    fn read(text: &str) -> Option<Self> {
        let (first, check) = text.split_once('\n')?;
        let check = u32::from_str_radix(check.trim_end(), 16).ok()?;
        let mut parts = first.splitn(4, ' ');
        let mut number = || parts.next()?.parse().ok();
        let (uptime_ms, wall_ms, time_ms) = (number()?, number()?, number()?);
        let boot = parts.next()?.to_owned();
        let mark = Self { boot, uptime_ms, wall_ms, time_ms };
        (check == u32::from_be_bytes(checksum(first.as_bytes()))).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::downlink::{HubChange, HubMessage, Receiver};
    use crate::io::hub_storage::HubStorage;
    use crate::io::writer::Store;

    const NOW_MS: u64 = 1_800_000_000_000;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("director-time-{name}-{}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            let _ = fs::remove_dir_all(&folder.0);
            fs::create_dir_all(&folder.0).unwrap();
            folder
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn mark() -> Mark {
        Mark { boot: "a".to_owned(), uptime_ms: 100, wall_ms: NOW_MS, time_ms: 5_000 }
    }

    fn system(boot: &str, uptime_ms: u64, wall_ms: u64) -> System {
        System { boot: Some(boot.to_owned()), uptime_ms, wall_ms }
    }

    /// What failed before: a wall clock that was set forward ended sessions and messages at the next start.
    #[test]
    fn the_wall_clock_counts_over_a_restart_of_the_system_only_and_is_bounded() {
        let passed = |now: &System| begin(Some(&mark()), now) - 5_000;
        // The same start of the system, whatever the wall clock says.
        for wall_ms in [0, NOW_MS, u64::MAX] {
            assert_eq!(passed(&system("a", 130, wall_ms)), 30);
        }
        assert_eq!(passed(&system("a", 0, NOW_MS)), 0, "a clock that goes back");
        // Another one: the wall clock, but no less than the system has run, and no more than seven days.
        assert_eq!(passed(&system("b", 10, NOW_MS + 60)), 60);
        assert_eq!(passed(&system("b", 10, NOW_MS - 60)), 10);
        assert_eq!(passed(&system("b", 10, u64::MAX)), MAX_AWAY_MS);
        // A clock that is not set, before or now.
        assert_eq!(passed(&system("b", 10, 1_000)), 10);
        let unset = Mark { wall_ms: 1_000, ..mark() };
        assert_eq!(begin(Some(&unset), &system("b", 10, NOW_MS)), 5_010);
        // Without a name of the start, and the first time.
        let nameless = System { boot: None, ..system("", 10, NOW_MS + 60) };
        assert_eq!(begin(Some(&mark()), &nameless), 5_060);
        assert_eq!(begin(None, &system("b", 10, 77)), 77);
    }

    #[test]
    fn a_folder_goes_on_with_its_time_and_a_damaged_mark_is_none() {
        let folder = Folder::new("clock");
        let mut clock = FolderClock::open(&folder.0);
        assert!(clock.is_due() && clock.now_ms() >= UNSET_MS.min(wall_ms()));
        // As if the wall clock had been set forward by a year, then back, while the program ran.
        clock.start_ms = 5_000;
        clock.mark();
        assert!(!clock.is_due());
        let again = FolderClock::open(&folder.0);
        assert!((5_000..5_000 + 120_000).contains(&again.now_ms()), "{}", again.now_ms());
        let text = fs::read_to_string(folder.0.join(FILE)).unwrap();
        assert_eq!(Mark::read(&text), clock.marked);
        for end in 0..text.len() - 1 {
            assert_eq!(Mark::read(&text[..end]), None, "{end}");
        }
        assert_eq!(Mark::read(&text.replace('5', "6")), None);
        clock.marked = clock.marked.map(|mark| Mark { wall_ms: mark.wall_ms - 60_000, ..mark });
        assert!(clock.is_due(), "the wall clock was set");
    }

    /// What failed before: a device without a battery for its clock stored a message in 1970, got the time, and at the
    /// next start the message's lifetime was over.
    #[test]
    fn lifetimes_go_on_when_the_clock_is_set() {
        let folder = Folder::new("set");
        let System { boot, uptime_ms, .. } = System::now();
        let Some(boot) = boot else { return };
        let unset = Mark { boot, uptime_ms, wall_ms: 20_000, time_ms: 20_000 };
        fs::write(folder.0.join(FILE), unset.text()).unwrap();
        let now = crate::Instant::START;
        let open = || HubStorage::open(&folder.0, 1_000, now).unwrap();
        let (mut storage, _) = open();
        let (until, to) = (now + Span::from_s(24 * 3_600), [(0, Receiver::Open(None))].into());
        let message = HubMessage { id: 1, body: vec![7], until, to };
        storage.write(&[HubChange::Added(message)], now).unwrap();
        drop(storage);
        let (_, restored) = open();
        let left = restored.state.open[0].until - now;
        assert!((Span::from_s(23 * 3_600)..=Span::from_s(24 * 3_600)).contains(&left), "{left:?}");
    }
}
