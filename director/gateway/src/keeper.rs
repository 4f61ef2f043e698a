//! Stores what a gateway keeps, also if its disk is full for a while.

use crate::folder::Folder;
use crate::gateway::{Effect, LIFETIME, Side};
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

/// The folder of a gateway, if it has one, and what waits for it.
pub struct Keeper {
    folder: Option<Folder>,
    failing: Option<Failing>,
    /// Frames of devices with messages that are not stored, and their times of arrival.
    frames: VecDeque<(Instant, Incoming)>,
}

impl Keeper {
    /// Stores messages and sessions here.
    pub fn new(folder: Option<Folder>) -> Self {
        Self { folder, failing: None, frames: VecDeque::new() }
    }

    /// Whether there is a folder.
    pub fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// Writes what is not on the disk yet, and returns what follows from that. On a full disk it tries
    /// again later; until then, messages are in memory only, and are not acknowledged.
    ///
    /// # Errors
    /// If there can be no further attempt.
    pub async fn save(&mut self, side: &mut impl Side) -> io::Result<Vec<Effect>> {
        let now = Instant::now();
        // The device has given them up, and has sent them again.
        while self.frames.front().is_some_and(|(at, _)| now > *at + LIFETIME + AGAIN) {
            self.frames.pop_front();
        }
        if self.failing.as_ref().is_some_and(|own| now < own.again_at) {
            return Ok(Vec::new());
        }
        let work = self.folder.as_ref().and_then(|folder| folder.work(side));
        let Some((mut folder, work)) = work.and_then(|work| Some((self.folder.take()?, work)))
        else {
            return Ok(self.written(side));
        };
        // A disk takes long: sessions and clients go on meanwhile.
        let written = tokio::task::spawn_blocking(move || {
            let written = folder.save(&work);
            (folder, written)
        });
        let (folder, written) = match written.await {
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
                        effects.push(Effect::Log(failure(folder.path(), &error)));
                        self.failing = Some(Failing { since: now, again_at });
                    }
                }
            }
            Ok(()) => {
                if let Some(Failing { since, .. }) = self.failing.take() {
                    let (path, time) = (folder.path().display(), now - since);
                    effects.push(Effect::Log(format!(
                        "retained messages and sessions are written to {path} again, after {} s",
                        time.as_secs()
                    )));
                }
                effects.extend(self.written(side));
            }
        }
        self.folder = Some(folder);
        Ok(effects)
    }

    /// All is stored.
    fn written(&mut self, side: &mut impl Side) -> Vec<Effect> {
        // Dropped, they count as taken.
        self.frames.clear();
        side.written()
    }

    /// A frame of a device needs no answer, but its messages may have to be stored first (`is_stored`):
    /// until then, the device must not acknowledge them.
    pub fn take(&mut self, mut frame: Incoming, is_stored: bool) {
        if self.failing.is_some() && is_stored && frame.is_request {
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
        "cannot write retained messages and sessions to {}: {error}. They are in memory only, and messages \
         with QoS 1 and 2 for them are acknowledged when they can be written: {fix}",
        folder.display()
    )
}
