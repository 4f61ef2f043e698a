//! The examples in the documents are valid experiments.

use experiment::{Experiment, LinkProfile, Only};
use std::fs;
use std::path::{Path, PathBuf};

/// The reference of the experiment file: an overview, and a folder of pages.
const REFERENCE: &str = "docs/experiment-file";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages of the reference, by their paths in the repository.
fn reference() -> Vec<String> {
    let entries = fs::read_dir(root().join(REFERENCE)).unwrap();
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut pages: Vec<String> =
        entries.map(|entry| format!("{REFERENCE}/{}", name(entry.unwrap()))).collect();
    pages.push(format!("{REFERENCE}.md"));
    pages.sort();
    pages
}

/// YAML blocks of a document.
fn blocks(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let parts = text.split("```yaml\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// Keys that name files, and what these may contain.
const FILES: [(&str, &str); 3] = [
    ("payload: ", "reading ##########"),
    ("light: ", "0 20 0 1\n100 25 0\n"),
    ("heavy: ", "1\n2\n"),
];

/// Checks `text` in a folder with the files that it names.
fn check(text: &str) {
    let dir = tempfile::tempdir().unwrap();
    let named = |line: &str, (key, content): (&str, &'static str)| {
        let (_, rest) = line.split_once(key)?;
        Some((rest.split([',', '}', ' ']).next()?.to_owned(), content))
    };
    for (name, content) in text.lines().flat_map(|line| FILES.map(|key| named(line, key))).flatten()
    {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let path = dir.path().join("e.yaml");
    fs::write(&path, text).unwrap();
    let experiment = Experiment::read(&path).unwrap_or_else(|e| panic!("{e}\n{text}"));
    for cell in experiment.cells(&Only::all()).unwrap() {
        experiment.plan(&cell, 0, 1).unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
}

#[test]
fn whole_examples_are_good() {
    let others = ["README.md", "docs/lab.md", "docs/profiles.md", "docs/devices.md"];
    let pages = others.map(str::to_owned).into_iter().chain(reference());
    let whole: Vec<String> = pages.flat_map(|page| blocks(&page)).collect();
    let whole: Vec<_> = whole.iter().filter(|text| text.contains("experiment: ")).collect();
    assert!(whole.len() >= 25, "{} examples", whole.len());
    whole.into_iter().for_each(|text| check(text));
}

#[test]
fn the_references_parts_make_one_experiment() {
    let parts = reference().into_iter().flat_map(|page| blocks(&page));
    let parts: Vec<_> = parts.filter(|text| !text.contains("experiment: ")).collect();
    assert!(parts.len() >= 10, "{} parts", parts.len());
    check(&format!("experiment: parts\nduration: 10 s\n{}", parts.concat()));
}

#[test]
fn the_overview_and_the_book_list_all_pages_of_the_reference() {
    for list in ["docs/experiment-file.md", "docs/SUMMARY.md"] {
        let text = fs::read_to_string(root().join(list)).unwrap();
        for page in reference() {
            let link = format!("({})", page.strip_prefix("docs/").unwrap());
            assert!(page == list || text.contains(&link), "{list} does not list {page}");
        }
    }
}

/// A reader of a page begins with an example that runs.
#[test]
fn each_page_of_the_reference_has_an_example() {
    for page in reference() {
        assert!(!blocks(&page).is_empty(), "{page} has no example");
    }
}

#[test]
fn the_page_of_profiles_lists_those_that_there_are() {
    let path = root().join("docs/profiles.md");
    let page = fs::read_to_string(&path).unwrap();
    let rows: String = LinkProfile::known()
        .map(|name| LinkProfile::find(name, Path::new("")).unwrap_or_else(|e| panic!("{e}")))
        .map(|p| format!("| `{}` | {} | {} |\n", p.name, p.technology, p.quality()))
        .collect();
    let head = "| name | what | values |\n| --- | --- | --- |\n";
    let (before, after) = page.split_once(head).unwrap();
    let rest = after.split_once("\n## ").unwrap().1;
    let expected = format!("{before}{head}{rows}\n## {rest}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let page = fs::read_to_string(&path).unwrap();
    assert!(page == expected, "update the page: UPDATE_GOLDEN=1 cargo test -p experiment");
}
