//! Writes what an end stores, apart from the thread that serves its sockets.

use super::log;
use crate::{Instant, Span};
use std::io;
use std::path::PathBuf;

/// Where messages are stored.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub path: PathBuf,
    /// Maximum size of all messages, in bytes.
    pub limit: u64,
}

/// Time after which changes that could not be written are written again.
const AGAIN: Span = Span::from_s(1);

/// A log of changes in a folder.
pub(super) trait Store: Send + 'static {
    /// What changes.
    type Change: Send + 'static;

    /// Writes what has changed; it is on the disk when this returns.
    ///
    /// # Errors
    /// The limit is reached, or the disk is full or fails: nothing of it counts.
    fn write(&mut self, changes: &[Self::Change], now: Instant) -> io::Result<()>;

    /// The application has the outcome of a message. If that record is lost, it gets it again.
    fn report(&mut self, id: u64);
}

/// Checks that messages of `added` bytes fit in a folder that has `size` bytes of them.
///
/// # Errors
/// They exceed the limit.
pub(super) fn check_room(size: u64, added: u64, limit: u64) -> io::Result<()> {
    if added == 0 || size + added <= limit {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "messages of {size} bytes are stored, and {added} more exceed the limit of {limit}: wait for outcomes, or raise the limit"
    )))
}

/// An end whose changes are stored.
pub(super) trait Changing<C> {
    /// What has changed since the last call.
    fn take_changes(&mut self) -> Vec<C>;
    /// Changes that could not be written.
    fn keep_changes(&mut self, changes: Vec<C>);
}

/// Changes that are not on the disk, and why.
#[derive(Debug)]
pub(super) struct Unwritten<C> {
    pub why: String,
    pub changes: Vec<C>,
}

/// The storage of an end, if it has one.
#[derive(Debug)]
pub(super) struct Writer<S> {
    store: Option<S>,
    /// Earliest time at which changes that could not be written are written again.
    again_at: Instant,
    folder: PathBuf,
}

impl<S: Store> Writer<S> {
    /// Writes to a storage in this folder.
    pub fn new(store: Option<S>, folder: PathBuf) -> Self {
        Self { store, again_at: Instant::START, folder }
    }

    /// Whether there is a storage.
    pub fn has_storage(&self) -> bool {
        self.store.is_some()
    }

    /// Writes what has changed. If that fails, for example on a full disk, the end keeps it, and what
    /// follows from it waits.
    ///
    /// # Errors
    /// What failed.
    pub async fn save(
        &mut self,
        end: &mut impl Changing<S::Change>,
        now: Instant,
    ) -> Result<(), String> {
        let Err(Unwritten { why, changes }) = self.write(end.take_changes(), now).await else {
            self.again_at = now;
            return Ok(());
        };
        self.again_at = now + AGAIN;
        end.keep_changes(changes);
        Err(why)
    }

    /// The same between other events: with a pause after a failure, so that the disk is not busy with
    /// attempts.
    ///
    /// # Errors
    /// Only if there will be no further attempt.
    pub async fn save_in_time(
        &mut self,
        end: &mut impl Changing<S::Change>,
        now: Instant,
    ) -> Result<(), String> {
        if now < self.again_at {
            return Ok(());
        }
        let had_storage = self.has_storage();
        self.save(end, now).await.or_else(|why| match had_storage && !self.has_storage() {
            true => Err(why),
            false => Ok(()),
        })
    }

    /// The application has the outcome of a message.
    pub fn report(&mut self, id: u64) {
        self.store.iter_mut().for_each(|store| store.report(id));
    }

    /// Writes changes; they are on the disk when it returns.
    ///
    /// # Errors
    /// What failed; then none of them is. If the storage is lost with them, [`Self::has_storage`] says so.
    pub async fn write(
        &mut self,
        changes: Vec<S::Change>,
        now: Instant,
    ) -> Result<(), Unwritten<S::Change>> {
        let Some(mut store) = self.store.take_if(|_| !changes.is_empty()) else {
            return Ok(());
        };
        // A disk takes long: other tasks go on meanwhile.
        let written = tokio::task::spawn_blocking(move || {
            let written = store.write(&changes, now);
            (store, changes, written)
        });
        let (store, changes, written) = match written.await {
            Ok(ended) => ended,
            Err(error) => return Err(Unwritten { why: error.to_string(), changes: Vec::new() }),
        };
        self.store = Some(store);
        let Err(error) = written else { return Ok(()) };
        let folder = self.folder.display();
        let fix = log::fix(&error);
        Err(Unwritten { why: format!("cannot store messages in {folder}: {error}{fix}"), changes })
    }
}
