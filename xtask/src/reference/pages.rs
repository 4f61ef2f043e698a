//! Markers in pages.

use crate::links::headings;

const BEGIN: &str = "<!-- generated: ";
const CLOSE: &str = "-->";
const END: &str = "<!-- end -->";

/// A part of a page.
#[derive(Debug)]
pub enum Piece {
    /// Text that stays.
    Text(String),
    /// A table, in place of what is there.
    Table(Marker),
}

/// A marker of a table.
#[derive(Debug)]
pub struct Marker {
    /// The marker itself.
    pub text: String,
    /// Definition of the schema.
    pub name: String,
    /// Keys to list; none: all.
    pub keys: Vec<Key>,
    /// Anchor of the section that has the table.
    pub section: String,
}

/// A key in a marker.
#[derive(Debug)]
pub struct Key {
    pub name: String,
    /// Where its details are.
    pub link: Option<String>,
}

/// Splits a page at its markers.
///
/// # Errors
/// If a marker has no end.
pub fn pieces(page: &str) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut rest, mut before) = (Vec::new(), page, String::new());
    while let Some((text, after)) = rest.split_once(BEGIN) {
        // The section's heading may come before an earlier table of the page.
        before.push_str(text);
        let (inside, after) =
            after.split_once(CLOSE).ok_or(format!("no `{CLOSE}` after `{BEGIN}`"))?;
        let (_, after) =
            after.split_once(END).ok_or(format!("no `{END}` after `{BEGIN}{inside}`"))?;
        pieces.push(Piece::Text(text.to_owned()));
        pieces.push(Piece::Table(marker(inside, anchor(&before))));
        // The next piece begins with the end of this one.
        pieces.push(Piece::Text(END.to_owned()));
        rest = after;
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

fn marker(inside: &str, section: String) -> Marker {
    let (name, keys) = inside.split_once(':').unwrap_or((inside, ""));
    let keys = keys.split(',').map(str::trim).filter(|key| !key.is_empty());
    let key = |key: &str| match key.split_once('=') {
        Some((name, link)) => Key { name: name.to_owned(), link: Some(link.to_owned()) },
        None => Key { name: key.to_owned(), link: None },
    };
    Marker {
        text: format!("{BEGIN}{inside}{CLOSE}"),
        name: name.trim().to_owned(),
        keys: keys.map(key).collect(),
        section,
    }
}

/// Anchor of the last heading in `text`.
fn anchor(text: &str) -> String {
    headings(text).last().unwrap_or_default()
}
