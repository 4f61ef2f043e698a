//! What a gateway keeps in a folder: retained messages of the hub, and sessions of clients.

use crate::gateway::Side;
use crate::kept::{Change, Kept, Sessions, Unsaved};
use crate::message::Message;
use crate::storage::{Storage, Unwritten};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What is written, with all that is kept if a log is to be written anew.
pub struct Work {
    unsaved: Unsaved,
    retained: Option<BTreeMap<String, Message>>,
    sessions: Option<Vec<Vec<Change>>>,
    /// Whether the time is to be marked.
    marks: bool,
}

/// A folder that one gateway has at a time.
#[derive(Debug)]
pub struct Folder {
    /// Of the hub's gateway only.
    retained: Option<Storage>,
    sessions: Sessions,
}

impl Folder {
    /// Opens the folder of the hub's gateway, which is made if it does not exist; returns what it has.
    ///
    /// # Errors
    /// If the folder cannot be read, or another gateway has it. A full disk is no error.
    pub fn of_hub(path: &Path) -> io::Result<(Self, BTreeMap<String, Message>, Kept)> {
        let (storage, retained) = Storage::open(path)?;
        let (sessions, kept) = Sessions::open(path)?;
        Ok((Self { retained: Some(storage), sessions }, retained, kept))
    }

    /// The same of a device.
    ///
    /// # Errors
    /// As [`of_hub`](Self::of_hub).
    pub fn of_device(path: &Path) -> io::Result<(Self, Kept)> {
        let (sessions, kept) = Sessions::open(path)?;
        Ok((Self { retained: None, sessions }, kept))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.sessions.folder()
    }

    /// What was damaged, and copies of it.
    pub fn damaged(&self) -> Vec<(&'static str, &Path)> {
        let retained = self.retained.as_ref().and_then(Storage::damaged);
        let retained = retained.map(|copy| ("retained messages", copy));
        let sessions = self.sessions.damaged().map(|copy| ("sessions", copy));
        retained.into_iter().chain(sessions).collect()
    }

    /// What is to be written; `None` if all is on the disk.
    pub fn work(&self, side: &impl Side) -> Option<Work> {
        let (unsaved, marks) = (side.unsaved(), self.sessions.is_mark_due());
        if unsaved.is_none() && !marks {
            return None;
        }
        let is_large = self.retained.as_ref().is_some_and(Storage::is_large);
        let all_retained = unsaved.retained == Unwritten::All || is_large;
        let retained = all_retained.then(|| side.all_retained());
        let sessions = self.sessions.is_large().then(|| side.all_sessions());
        Some(Work { unsaved, retained, sessions, marks })
    }

    /// Writes and syncs.
    ///
    /// # Errors
    /// If the disk is full or fails: then the next call can succeed.
    pub fn save(&mut self, work: &Work) -> io::Result<()> {
        let Work { unsaved, retained, sessions, marks } = work;
        if *marks {
            self.sessions.mark();
        }
        if let Some(storage) = &mut self.retained
            && unsaved.retained != Unwritten::Changes(Vec::new())
        {
            storage.save(&unsaved.retained, retained.as_ref())?;
        }
        self.sessions.save(&unsaved.sessions, sessions.as_deref())
    }
}
