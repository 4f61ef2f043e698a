//! Errors of reading, unpacking and caching images.

use crate::platform::Platform;
use std::io;
use std::path::{Path, PathBuf};

/// How many platforms an error names: an archive may have any number.
const MOST_NAMES: usize = 8;

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the image {archive}: {fault}")]
pub struct Error {
    /// The archive, or the cache's folder.
    pub archive: PathBuf,
    /// The cause.
    pub fault: Fault,
}

/// Why an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The archive cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// The archive is neither a `docker save` archive nor an OCI image layout.
    #[error(
        "no image in it: neither manifest.json (docker save) nor oci-layout with index.json \
         (OCI layout)\n  {0}"
    )]
    NoImage(&'static str),
    /// No image matches the given name, or several match, or the archive has several images
    /// and no name was given.
    #[error("{problem}; the images in it are: {}\n  select one: `image: NAME`", .names.join(", "))]
    NoMatch {
        /// The problem with the selection, as part of the message.
        problem: String,
        /// The names of the images in the archive.
        names: Vec<String>,
    },
    /// The image is for another platform.
    #[error(
        "is for {found}, and not for {expected}\n  save the image for that platform, or name \
         another one next to `root`, whose programs QEMU runs: `platform: linux/arm64`"
    )]
    Platform {
        /// The platforms of its images, as `os/architecture` or `os/architecture/variant`.
        found: String,
        /// The selected platform; by default this machine's.
        expected: String,
    },
    /// A part of the image is missing, truncated or does not match its digest.
    #[error(
        "{part} is damaged: {why}\n  fetch or save the archive again; Thingbed used nothing \
             of it"
    )]
    Damaged {
        /// Which part, e.g. `layer 2 of 3 (blobs/sha256/...)`.
        part: String,
        /// What is wrong with it, and where.
        why: String,
    },
    /// A layer has an entry that no layer may have.
    #[error(
        "{layer} has the entry `{entry}`, {why}\n  refused for safety: Thingbed used nothing \
             of this image"
    )]
    Refused {
        /// Which layer.
        layer: String,
        /// The entry's name.
        entry: String,
        /// Why it is refused.
        why: String,
    },
    /// The image unpacks to more than is allowed.
    #[error(
        "{what}\n  refused: it could fill the disk. If you trust the image, name a larger limit \
         next to `root`: `root_limit: 20 GiB`"
    )]
    TooLarge {
        /// Which limit it exceeds.
        what: String,
    },
    /// The cache cannot be written.
    #[error("could not {action}: {source}{}", disk_hint(.source))]
    Cache {
        /// The action that failed, and its path.
        action: String,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Fault {
    pub(crate) fn at(self, archive: &Path) -> Error {
        Error { archive: archive.to_owned(), fault: self }
    }

    pub(crate) fn platform(found: &[Platform], expected: &Platform) -> Self {
        let mut names: Vec<String> = found.iter().map(Platform::to_string).collect();
        // Attestations have a platform of this name, and are no images.
        names.retain(|name| name != "unknown/unknown" || found.len() == 1);
        names.sort();
        names.dedup();
        let more = names.len().saturating_sub(MOST_NAMES);
        names.truncate(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} others") } else { String::new() };
        Self::Platform { found: names.join(", ") + &more, expected: expected.to_string() }
    }

    pub(crate) fn damaged(part: impl Into<String>, why: impl ToString) -> Self {
        Self::Damaged { part: part.into(), why: why.to_string() }
    }

    pub(crate) fn cache(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Cache { action, source }
    }
}

fn disk_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "\n  free space there, or set XDG_CACHE_HOME to another folder for unpacked images"
        }
        io::ErrorKind::PermissionDenied => "\n  set XDG_CACHE_HOME to a folder for unpacked images",
        _ => "",
    }
}
