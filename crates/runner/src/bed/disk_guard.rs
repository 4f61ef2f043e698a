//! Watches the free space of a run's disk, and gives up what no figure depends on before it is
//! full.

use measure::FullDisk;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Limits of the space that is left to the tables and to programs, in bytes.
/// Decision 61 has these figures and the order in which parts are given up.
const LEAST: u64 = 1 << 20;
const MOST: u64 = 64 << 20;
/// Part of the space at the start of a run below which something is given up.
const SHARE: u64 = 8;

/// The disk of a run.
#[derive(Debug)]
pub(crate) struct DiskGuard {
    folder: PathBuf,
    disk: Arc<FullDisk>,
    /// Free space below which the next part is given up, in bytes.
    low: u64,
    /// Number of looks so far.
    looks: AtomicU32,
}

/// A quota is tried at one of this number of looks: allocating costs the file system work.
const QUOTA_EVERY: u32 = 10;

impl DiskGuard {
    /// Watches the disk of `folder`.
    pub fn new(folder: PathBuf, disk: Arc<FullDisk>) -> Self {
        let free = journal::free_space(&folder).unwrap_or(0);
        let low = (free / SHARE).clamp(LEAST, MOST);
        Self { folder, disk, low, looks: AtomicU32::new(0) }
    }

    /// Gives up the next part if there is little space; all at once if there is hardly any.
    pub fn look(&self) {
        let Ok(free) = journal::free_space(&self.folder) else { return };
        let tries = self.looks.fetch_add(1, Relaxed).is_multiple_of(QUOTA_EVERY);
        // What a quota leaves is not in the free space (decision 110).
        let is_used_up = tries && journal::can_allocate(&self.folder, LEAST).is_err();
        let free = if is_used_up { 0 } else { free };
        while let Some(part) = self.disk.next().filter(|_| free < self.low) {
            self.disk.give_up(part);
            // One part per look, because that may be enough. With hardly any space left, programs
            // may fill the rest before the next look.
            if free > self.low / 8 {
                return;
            }
        }
    }

    /// What was given up.
    pub fn disk(&self) -> &FullDisk {
        &self.disk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Auxiliary;

    #[test]
    fn parts_go_one_by_one_while_space_is_low() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::<FullDisk>::default();
        let free = journal::free_space(dir.path()).unwrap();
        let guard = |low| DiskGuard {
            folder: dir.path().to_owned(),
            disk: disk.clone(),
            low,
            looks: AtomicU32::new(0),
        };
        guard(0).look();
        assert_eq!(disk.next(), Some(Auxiliary::Capture), "there is space");
        // Other programs change the space meanwhile, by much less than a factor of two.
        guard(2 * free).look();
        assert_eq!(disk.next(), Some(Auxiliary::Output));
        guard(u64::MAX).look();
        assert_eq!(disk.next(), None, "hardly any space");
    }
}
