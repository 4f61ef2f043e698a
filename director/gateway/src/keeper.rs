//! Stores retained messages of the hub, also if its disk is full for a while.

use crate::gateway::{Effect, LIFETIME};
use crate::hub::Hub;
use crate::storage::{Storage, Unwritten};
use director::io::Incoming;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// Time after which what could not be written is written again.
const AGAIN: Duration = Duration::from_secs(1);

/// Messages cannot be written.
struct Failing {
    since: Instant,
    again_at: Instant,
}

/// The storage of the hub's gateway, if it has one, and what waits for it.
pub struct Keeper {
    storage: Option<Storage>,
    failing: Option<Failing>,
    /// Frames of devices with messages that are not stored, and their times of arrival.
    frames: VecDeque<(Instant, Incoming)>,
}

impl Keeper {
    /// Stores messages here.
    pub fn new(storage: Option<Storage>) -> Self {
        Self { storage, failing: None, frames: VecDeque::new() }
    }

    /// Writes what is not on the disk yet, and returns what follows from that. On a full disk it tries
    /// again later; until then, messages are in memory only, and are not acknowledged.
    ///
    /// # Errors
    /// If there can be no further attempt.
    pub async fn save(&mut self, hub: &mut Hub) -> io::Result<Vec<Effect>> {
        let now = Instant::now();
        // The device has given them up, and has sent them again.
        while self.frames.front().is_some_and(|(at, _)| now > *at + LIFETIME + AGAIN) {
            self.frames.pop_front();
        }
        if self.failing.as_ref().is_some_and(|own| now < own.again_at) {
            return Ok(Vec::new());
        }
        let unwritten = hub.unwritten();
        let is_none = unwritten == Unwritten::Changes(Vec::new());
        let Some(mut storage) = self.storage.take_if(|_| !is_none) else {
            return Ok(self.written(hub));
        };
        let needs_all = unwritten == Unwritten::All || storage.is_large();
        let all = needs_all.then(|| hub.all_retained());
        // A disk takes long: sessions and clients go on meanwhile.
        let written = tokio::task::spawn_blocking(move || {
            let written = storage.save(&unwritten, all.as_ref());
            (storage, written)
        });
        let (storage, written) = match written.await {
            Ok(ended) => ended,
            Err(error) => {
                // Dropped, they would count as taken.
                std::mem::forget(std::mem::take(&mut self.frames));
                return Err(io::Error::other(error));
            }
        };
        let mut effects = Vec::new();
        match written {
            Err(error) => {
                let again_at = Instant::now() + AGAIN;
                match &mut self.failing {
                    Some(failing) => failing.again_at = again_at,
                    None => {
                        effects.push(Effect::Log(failure(storage.folder(), &error)));
                        self.failing = Some(Failing { since: now, again_at });
                    }
                }
            }
            Ok(()) => {
                if let Some(Failing { since, .. }) = self.failing.take() {
                    let (folder, time) = (storage.folder().display(), now - since);
                    effects.push(Effect::Log(format!(
                        "retained messages are written to {folder} again, after {} s",
                        time.as_secs()
                    )));
                }
                effects.extend(self.written(hub));
            }
        }
        self.storage = Some(storage);
        Ok(effects)
    }

    /// All is stored.
    fn written(&mut self, hub: &mut Hub) -> Vec<Effect> {
        // Dropped, they count as taken.
        self.frames.clear();
        hub.written()
    }

    /// A frame of a device needs no answer, but its messages may have to be stored first: until then, the
    /// device must not acknowledge them.
    pub fn take(&mut self, mut frame: Incoming) {
        if self.failing.is_some() && frame.is_request {
            frame.message = Vec::new();
            self.frames.push_back((Instant::now(), frame));
        }
    }
}

/// What the operator must know of a failed write.
fn failure(folder: &Path, error: &io::Error) -> String {
    let fix = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "free space there"
        }
        _ => "check the folder and its disk",
    };
    format!(
        "cannot write retained messages to {}: {error}. They are in memory only, and those with QoS 1 and \
         2 are acknowledged when they can be written: {fix}",
        folder.display()
    )
}
