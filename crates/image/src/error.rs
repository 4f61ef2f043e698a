//! What can be wrong with an image, and where.

use std::io;
use std::path::{Path, PathBuf};

/// Why an image could not be had.
#[derive(Debug, thiserror::Error)]
#[error("the image {archive}: {fault}")]
pub struct Error {
    /// The archive, or the cache's folder.
    pub archive: PathBuf,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with an image.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It cannot be read at all.
    #[error("cannot be read: {0}")]
    Unreadable(io::Error),
    /// It is neither of the two forms.
    #[error(
        "no image in it: neither manifest.json (docker save) nor oci-layout with index.json \
         (OCI layout)\n  {0}"
    )]
    NoImage(&'static str),
    /// There is more than one image and none was chosen, or not one of these.
    #[error("{wanted}; the images in it are: {}\n  select one: `image: NAME`", .names.join(", "))]
    Which {
        /// What was asked for.
        wanted: String,
        /// The names of those that there are.
        names: Vec<String>,
    },
    /// It is for other machines.
    #[error("is for {found}, and this machine is {wanted}\n  save the image for this platform")]
    Platform {
        /// What it is for.
        found: String,
        /// What it should be for.
        wanted: String,
    },
    /// A part of it is missing, cut short or not what it says that it is.
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
    /// A layer holds something that no layer should.
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
    /// The cache could not be written.
    #[error("could not {tried}: {source}{}", disk_hint(.source))]
    Cache {
        /// What was tried, and where.
        tried: String,
        /// The kernel's word on it.
        source: io::Error,
    },
}

impl Fault {
    pub(crate) fn at(self, archive: &Path) -> Error {
        Error { archive: archive.to_owned(), fault: self }
    }

    pub(crate) fn damaged(part: impl Into<String>, why: impl ToString) -> Self {
        Self::Damaged { part: part.into(), why: why.to_string() }
    }

    pub(crate) fn cache(tried: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let tried = tried.into();
        move |source| Self::Cache { tried, source }
    }
}

fn disk_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => {
            "\n  free space there, or set XDG_CACHE_HOME to another folder for unpacked images"
        }
        io::ErrorKind::PermissionDenied => "\n  set XDG_CACHE_HOME to a folder for unpacked images",
        _ => "",
    }
}
