//! What the documents say was measured is what lies beside them.

mod common;

use common::Said;
use std::fs;
use std::process::Command;

#[test]
fn the_table_of_the_comparison_is_that_of_its_summaries() {
    let report = Command::new(env!("CARGO_BIN_EXE_thingbed"))
        .args(["report", "docs/results/multi-protocol", "--markdown"])
        .current_dir("../..")
        .output()
        .unwrap();
    let table = Said::of(report).expect(0, &["**VALID** multi-protocol"]).out;
    let page = fs::read_to_string("../../docs/results/multi-protocol.md").unwrap();
    assert!(page.ends_with(&table), "thingbed report docs/results/multi-protocol --markdown");
}
