//! Resolves payload files.

use crate::problem::Problem;
use crate::read::{At, Sink};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Placeholder of the message number in a payload. Without it, programs append the number.
const MARKER: &[u8] = b"##########";

/// Maximum size of a payload file, in bytes; messages are smaller.
const MAX_PAYLOAD: u64 = input::MAX_TEXT;

/// Absolute path of a payload file, and the length of its messages, B.
pub(super) fn find(path: &At<String>, base: &Path, sink: &mut Sink) -> Option<(PathBuf, u64)> {
    let full = base.join(&path.value);
    let why = match std::fs::metadata(&full) {
        Ok(_) => match input::read(&full, MAX_PAYLOAD).map(|bytes| length(&bytes)) {
            Ok(Some(length)) => return Some((std::path::absolute(&full).unwrap_or(full), length)),
            Ok(None) => {
                let text =
                    format!("the payload `{}` has two places for the message number", path.value);
                let label = "keep at most one run of exactly ten #";
                sink.add(Problem::new(text).at(path.place).label(label));
                return None;
            }
            Err(error) => format!("cannot be read: {error}"),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    let mut problem = Problem::new(format!("the payload `{}` {why}", path.value));
    // A file that exists is not misspelt: it cannot be read.
    let near = if full.exists() { None } else { near_file(&full) };
    let label = match near {
        Some(near) => {
            format!("did you mean `{}`?", Path::new(&path.value).with_file_name(near).display())
        }
        None => "paths are relative to the experiment file".to_owned(),
    };
    problem = problem.at(path.place).label(label);
    sink.add(problem.note(format!("Thingbed looked for {}", full.display())));
    None
}

/// Length of a message with this payload, B. `None`: two placeholders.
fn length(payload: &[u8]) -> Option<u64> {
    let markers = payload.windows(MARKER.len()).filter(|window| *window == MARKER).count();
    match markers {
        0 => Some((payload.len() + MARKER.len()) as u64),
        1 => Some(payload.len() as u64),
        _ => None,
    }
}

/// A file next to `path` with a similar name.
pub(super) fn near_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let names: Vec<String> = std::fs::read_dir(path.parent()?)
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    crate::nearest::nearest(name, &names).map(str::to_owned)
}
