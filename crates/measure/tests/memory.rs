//! The memory for a run's rows does not depend on their number.

use measure::{
    Message, MessageTable, OrderStatistics, ProbeRow, ProgramValue, RowTable, SectionRow,
};
use record::event::Section;
use std::path::Path;
use std::process::Command;

/// The variable with the number of rows.
const ROWS: &str = "THINGBED_TEST_ROWS";

/// Writes this number of rows to each table, changes those of messages as the events of programs do,
/// and computes what the figures of exchanges need.
fn write(folder: &Path, rows: u64) {
    let mut messages = MessageTable::new(folder);
    let mut sections = RowTable::<SectionRow>::new(folder);
    let mut probes = RowTable::<ProbeRow>::new(folder);
    let mut values = RowTable::<ProgramValue>::new(folder);
    let mut statistics = OrderStatistics::new(folder);
    for number in 0..rows {
        let ns = number as i64;
        messages.push(Message { message: number, intended_ns: ns, ..Message::default() });
        let section = Section::Payload;
        sections.push(SectionRow { message: number, section, end_ns: ns, ..SectionRow::default() });
        let deviation = (number % 1_013) as f64;
        probes.push(ProbeRow {
            probe: "p".into(),
            node: "n".into(),
            core: 0,
            mode: "busy".into(),
            intended_ns: ns,
            sent_ns: ns,
            answered_ns: Some(ns),
            deviation,
        });
        values.push(ProgramValue {
            program: "p".into(),
            node: "n".into(),
            metric: "m".into(),
            number,
            time_ns: Some(ns),
            value: deviation,
            unit: "ms".into(),
        });
        for key in 0..12 {
            statistics.push(key, deviation);
        }
    }
    for number in (0..rows).rev() {
        let change = |row: &mut Message| row.received_ns = Some(number as i64 + 1);
        messages.update(number as usize, change).unwrap();
    }
    let path = |name: &str| folder.join(name);
    measure::write_messages(&path("messages.parquet"), &messages).unwrap();
    measure::write_sections(&path("sections.parquet"), &sections).unwrap();
    measure::write_probes(&path("probes.parquet"), &probes).unwrap();
    measure::write_program_values(&path("metrics.parquet"), &values).unwrap();
    let middle = statistics.ranks(&3, &[rows / 2]).unwrap();
    assert!((400.0..600.0).contains(&middle[0]), "{middle:?}");
    let outcomes = measure::outcomes(&messages, rows as i64).unwrap();
    assert_eq!(outcomes.received, rows);
}

/// The peak of the resident memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
#[ignore = "a part of the next test, which runs it in a separate process"]
fn write_rows() {
    let Ok(rows) = std::env::var(ROWS) else { return };
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), rows.parse().unwrap());
    println!("peak {}", peak());
}

/// The peak of a process that writes this number of rows, in KiB.
fn peak_of(rows: u64) -> u64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "write_rows", "--nocapture"]);
    let output = command.env(ROWS, rows.to_string()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "peak");
    let peak = at.and_then(|at| words.get(at + 1)?.parse().ok());
    peak.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// What failed before: each row of an exchange, its sections, a probe or a metric took 100 to 200 B.
#[test]
fn four_times_as_many_rows_take_no_more_memory() {
    let [few, many] = [70_000, 280_000].map(peak_of);
    println!("70,000 rows of each table: {few} KiB, 280,000: {many} KiB");
    // In memory, 210,000 rows of four tables are about 100,000 KiB. The Parquet writer keeps a
    // description of each group of rows until the file ends.
    assert!(many < few + 16 * 1024, "{few} KiB for 70,000 rows, {many} KiB for 280,000");
}
