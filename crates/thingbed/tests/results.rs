//! The results in the documents match the data files next to them.

mod common;

use common::CommandOutput;
use std::fs;
use std::process::Command;

#[test]
fn the_table_of_the_comparison_is_that_of_its_summaries() {
    let report = Command::new(env!("CARGO_BIN_EXE_thingbed"))
        .args(["report", "docs/results/multi-protocol", "--markdown"])
        .current_dir("../..")
        .output()
        .unwrap();
    let table = CommandOutput::of(report).expect(0, &["**VALID** multi-protocol"]).out;
    let page = fs::read_to_string("../../docs/results/multi-protocol.md").unwrap();
    assert!(page.ends_with(&table), "thingbed report docs/results/multi-protocol --markdown");
}

/// Start of a generated block: the rest of the line is the arguments for Thingbed.
const BEGIN: &str = "<!-- thingbed ";
const END: &str = "<!-- end -->\n";

/// `page` with the current output of Thingbed between the marks.
fn said_anew(page: &str) -> String {
    let mut parts = page.split_inclusive(BEGIN);
    let mut anew = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (arguments, rest) = part.split_once(" -->\n").expect("a mark ends with its line");
        let (_, after) = rest.split_once(END).expect("a mark has an end");
        let output = Command::new(env!("CARGO_BIN_EXE_thingbed"))
            .args(arguments.split_whitespace())
            .current_dir("../..")
            .output()
            .unwrap();
        let text = CommandOutput::of(output).expect(0, &[]).out;
        anew += &format!("{arguments} -->\n\n{}\n\n{END}{after}", text.trim());
    }
    anew
}

#[test]
fn the_tables_of_pages_are_those_of_their_summaries() {
    let mut pages = 0;
    for entry in fs::read_dir("../../docs/results").unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let page = fs::read_to_string(&path).unwrap();
        if !page.contains(BEGIN) {
            continue;
        }
        let anew = said_anew(&page);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &anew).unwrap();
        }
        pages += 1;
        let same = page == anew || std::env::var_os("UPDATE_GOLDEN").is_some();
        assert!(same, "{}: UPDATE_GOLDEN=1 writes it anew", path.display());
    }
    assert!(pages > 0, "no page has marks");
}
