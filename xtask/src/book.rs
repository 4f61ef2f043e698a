//! `cargo xtask book`: the documentation as a book, by mdBook.
//!
//! Pages link to files of the whole tree, to decisions and results too, and mdBook only renders
//! pages of its source folder that are in its table of contents. So the book's source folder has
//! all pages and the files that they link to, at their places in the tree, and a table of contents
//! in which those of `docs/SUMMARY.md` come first.

use crate::links;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// The book's source folder, as in `book.toml`.
const SOURCE: &str = "target/book-source";
const SUMMARY: &str = "docs/SUMMARY.md";
const FIRST: &str = "README.md";
/// What follows the pages of `docs/SUMMARY.md`: the pages below a folder; "": all that are left.
const PARTS: [(&str, &str); 3] =
    [("Results", "docs/results/"), ("Decisions", "docs/decisions/"), ("The project", "")];

/// Tracked text files, by their path.
type Files = BTreeMap<String, String>;

/// Builds the book in `target/book`. `names` are those of all tracked files, which are not all text.
///
/// # Errors
/// If a page has no title, a file cannot be copied, or mdBook fails or is not installed.
pub fn build(root: &Path, files: &Files, names: &[String]) -> Result<(), String> {
    let source = root.join(SOURCE);
    // Pages that were removed or renamed since the last time.
    let _ = std::fs::remove_dir_all(&source);
    for name in contents(files, names) {
        let (from, to) = (root.join(&name), source.join(&name));
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let folder = to.parent().ok_or("a file without a folder")?;
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::copy(from, to).map_err(failed)?;
    }
    let summary = summary(files)?;
    std::fs::write(source.join("SUMMARY.md"), summary).map_err(|error| error.to_string())?;
    let done = Command::new("mdbook").arg("build").arg(root).status();
    match done.map_err(|error| format!("mdbook: {error}; cargo install mdbook --locked")) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("mdbook: {status}")),
        Err(error) => Err(error),
    }
}

/// Files of the book: all pages, the files of `docs`, and what pages link to.
fn contents(files: &Files, names: &[String]) -> BTreeSet<String> {
    let is_of_book = |name: &&String| is_page(name) || name.starts_with("docs/");
    let mut found: BTreeSet<String> = names.iter().filter(is_of_book).cloned().collect();
    let pages = files.iter().filter(|(name, _)| is_page(name));
    for target in pages.flat_map(|(name, text)| links::targets(name, text)) {
        let folder = format!("{target}/");
        let is_target = |name: &&String| **name == target || name.starts_with(&folder);
        found.extend(names.iter().filter(is_target).cloned());
    }
    // The book has a separate table of contents.
    found.remove(SUMMARY);
    found
}

/// The table of contents of all pages.
fn summary(files: &Files) -> Result<String, String> {
    let own = files.get(SUMMARY).ok_or("docs/SUMMARY.md: no such file")?;
    // The first page is also the book's index.html, so its links must be relative to the top.
    let first = format!("# Summary\n\n[Thingbed]({FIRST})\n");
    let own = own.strip_prefix("# Summary\n").ok_or("docs/SUMMARY.md: no `# Summary`")?;
    // Links of the table are relative to `docs`.
    let mut text = first + &own.replace("](", "](docs/");
    let mut known: BTreeSet<String> = links::targets(SUMMARY, own).collect();
    known.extend([SUMMARY, FIRST].map(str::to_owned));
    for (title, folder) in PARTS {
        let _ = writeln!(text, "\n# {title}\n");
        for (name, page) in files.iter().filter(|(name, _)| is_page(name)) {
            if name.starts_with(folder) && known.insert(name.clone()) {
                let title = page.lines().find_map(|line| line.strip_prefix("# "));
                let title = title.ok_or_else(|| format!("{name}: no title"))?;
                // Brackets in a title would end the link's text.
                let _ = writeln!(text, "- [{}]({name})", title.replace(['[', ']'], ""));
            }
        }
    }
    Ok(text)
}

fn is_page(name: &str) -> bool {
    name.ends_with(".md")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Files {
        let files = [
            (SUMMARY, "# Summary\n\n[Overview](README.md)\n\n# Start\n\n- [Load](load.md)\n"),
            ("docs/README.md", "# Thingbed\n[more](../README.md) [files](../experiments/some)\n"),
            ("docs/load.md", "# Load\n[why](decisions/0001-a.md)\n"),
            ("docs/picture.svg", "<svg/>"),
            ("docs/decisions/0001-a.md", "# 1. A [x]\n"),
            ("README.md", "# Read\n"),
            ("SECURITY.md", "# Safe\n"),
            ("experiments/some/a.yaml", "a: 1\n"),
            ("experiments/something.yaml", "b: 1\n"),
            ("crates/a.rs", ""),
        ];
        files.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    }

    #[test]
    fn every_page_is_in_the_table_of_contents_once() {
        let text = summary(&files()).unwrap();
        let own = "# Summary\n\n[Thingbed](README.md)\n\n[Overview](docs/README.md)\n\n# Start\n\n\
                   - [Load](docs/load.md)\n";
        let decisions = "\n# Decisions\n\n- [1. A x](docs/decisions/0001-a.md)\n";
        let rest = "\n# The project\n\n- [Safe](SECURITY.md)\n";
        assert_eq!(text, format!("{own}\n# Results\n\n{decisions}{rest}"));
        let mut files = files();
        files.insert("docs/untitled.md".to_owned(), "text\n".to_owned());
        assert_eq!(summary(&files).unwrap_err(), "docs/untitled.md: no title");
    }

    #[test]
    fn the_book_has_what_its_pages_link_to_and_nothing_else() {
        let files = files();
        let mut names: Vec<String> = files.keys().cloned().collect();
        names.push("docs/picture.png".to_owned());
        let found: Vec<String> = contents(&files, &names).into_iter().collect();
        let expected = [
            "README.md",
            "SECURITY.md",
            "docs/README.md",
            "docs/decisions/0001-a.md",
            "docs/load.md",
            "docs/picture.png",
            "docs/picture.svg",
            "experiments/some/a.yaml",
        ];
        assert_eq!(found, expected);
    }
}
