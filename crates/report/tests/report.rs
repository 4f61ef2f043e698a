//! Reports of generated sweeps.

#[allow(dead_code, missing_docs)]
mod fixture;

use fixture::Invention;
use report::{CheckStatus, Error, Status, Sweep, terminal, write_html};
use serde_json::json;
use std::fs;
use std::path::Path;

fn small() -> Invention {
    Invention { repeats: 2, consumers: 4, messages: 40, seconds: 5, ..Invention::default() }
}

fn page_of(folder: &Path) -> String {
    let sweep = Sweep::read(folder).unwrap();
    let path = folder.join("report.html");
    write_html(&sweep, &path).unwrap();
    fs::read_to_string(path).unwrap()
}

/// The page without the chart library, which contains most words.
fn words_of(page: &str) -> String {
    let library = page.find("<script>").unwrap();
    page[..library].to_owned()
}

#[test]
fn reads_a_sweep_in_the_order_of_its_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let invention = small();
    invention.write(folder.path());
    invention.write_beside(folder.path());
    let sweep = Sweep::read(folder.path()).unwrap();
    assert_eq!(sweep.runs.len(), 24);
    let cells = sweep.cells();
    assert_eq!(cells.len(), 12);
    assert_eq!(cells[1].cell.label(), "tcp-rd · ideal");
    assert_eq!(cells[1].runs.len(), 2);
    assert_eq!(sweep.axes(), ["model", "network"]);
    assert_eq!(sweep.groups(), ["utility", "consumer"]);
    assert_eq!(sweep.status(), Status::Suspect);
    assert_eq!(sweep.checks[1].status, CheckStatus::Fail);
    assert!(sweep.notes.is_empty() && sweep.runs.iter().all(|run| run.notes.is_empty()));
    assert_eq!(sweep.runs[0].messages().unwrap().len(), 40);
    assert_eq!(sweep.runs[0].usage().unwrap().len(), 25);
    assert_eq!(sweep.runs[0].links().unwrap().len(), 10);
}

#[test]
fn ours_is_relative_to_the_base_of_the_same_network() {
    let folder = tempfile::tempdir().unwrap();
    let invention = small();
    invention.write(folder.path());
    invention.write_beside(folder.path());
    let sweep = Sweep::read(folder.path()).unwrap();
    let figure = &sweep.reference.as_ref().unwrap().figures[0];
    let row = &figure.compare(&sweep)[0];
    assert_eq!(row.cell, [("model", "tcp-rd"), ("network", "ideal")].into_iter().collect());
    let median = |model: &str| {
        let cell = [("model", model), ("network", "ideal")].into_iter().collect();
        sweep.matching(&cell).spread(|run| run.metric("groups.utility.tx_bytes")).unwrap().median
    };
    let expected = 100.0 * (median("tcp-rd") / median("udp-rr") - 1.0);
    assert!((row.measured.unwrap().median - expected).abs() < 1e-9);
}

#[test]
fn the_terminal_says_the_verdict_first() {
    let folder = tempfile::tempdir().unwrap();
    let invention = small();
    invention.write(folder.path());
    invention.write_beside(folder.path());
    let sweep = Sweep::read(folder.path()).unwrap();
    let text = terminal(&sweep, 200, false);
    let first = text.lines().next().unwrap();
    assert_eq!(first, "! SUSPECT  multi-protocol, 24 runs in 12 cells: 23 valid, 1 suspect");
    assert!(text.contains("suspect  the medium released 1 %"), "{text}");
    assert!(text.contains("in tcp-ps · constrained-physical #1"), "{text}");
    for word in ["constrained-paper", "Figure 17", "Table VII", "✗ fail", "utility", "kB", "p99"]
    {
        assert!(text.contains(word), "{word} is not in:\n{text}");
    }
    assert!(!text.contains('\u{1b}'));
    assert!(terminal(&sweep, 200, true).contains("\u{1b}[1;33m"));
    for width in [80, 100, 140] {
        let text = terminal(&sweep, width, false);
        let table = text.lines().filter(|line| line.starts_with('─'));
        assert!(table.map(|line| line.chars().count()).max().unwrap() <= usize::from(width));
    }
}

#[test]
fn the_page_holds_all_parts_and_nothing_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let invention = small();
    invention.write(folder.path());
    invention.write_beside(folder.path());
    let page = page_of(folder.path());
    let words = words_of(&page);
    let place = |id: &str| words.find(&format!("<section id=\"{id}\"")).unwrap();
    assert!(place("results") < place("time") && place("time") < place("verdict"));
    for id in [
        "results",
        "axes",
        "time",
        "programs",
        "findings",
        "reference",
        "delay",
        "wire",
        "usage",
        "links",
        "topology",
        "verdict",
        "runs",
    ] {
        assert!(words.contains(&format!("<section id=\"{id}\"")), "{id}");
    }
    assert!(words.contains("Some runs are suspect"));
    assert!(words.contains("250 kbit/s, burst 1600 B"));
    assert!(words.contains("Thingbed 0.1.0") && words.contains("commit 0123abc"));
    assert!(!words.contains("src=") && !words.contains("http"));
    assert_eq!(words.matches("<details class=\"run\" data-cell=").count(), 24);
    assert!(page.len() < 1_200_000, "{}", page.len());
    let plots = words.matches("class=\"plot\"").count();
    let charts = words.split("id=\"charts\">").nth(1).unwrap().split("</script>").next().unwrap();
    let charts: Vec<serde_json::Value> = serde_json::from_str(charts).unwrap();
    assert_eq!(charts.len(), plots);
    let empty = |series: &serde_json::Value| series["data"].as_array().unwrap().is_empty();
    for chart in &charts {
        let series = chart["option"]["series"].as_array().unwrap();
        assert!(!series.is_empty() && !series.iter().any(empty), "{chart}");
    }
}

#[test]
fn a_single_run_is_a_sweep_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let folders = small().write(folder.path());
    let words = words_of(&page_of(&folders[0]));
    assert!(words.contains("1 run in 1 cell: 1 valid"));
    let sweep = Sweep::read(&folders[0]).unwrap();
    assert!(terminal(&sweep, 120, false).starts_with("✓ VALID"));
}

#[test]
fn a_hostile_name_stays_text() {
    let folder = tempfile::tempdir().unwrap();
    let hostile = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u{1b}[2J";
    let invention = Invention {
        experiment: hostile.to_owned(),
        metric: hostile.to_owned(),
        models: vec![hostile.to_owned(), "b\"'&".to_owned()],
        networks: vec!["ideal".to_owned()],
        ..small()
    };
    invention.write(folder.path());
    invention.write_beside(folder.path());
    let page = page_of(folder.path());
    assert!(!page.contains("<img") && !page.contains("<script>alert"));
    assert!(page.contains("&lt;img src=x"));
    assert_eq!(page.matches("</script>").count(), 4);
    let text = terminal(&Sweep::read(folder.path()).unwrap(), 120, false);
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn what_is_missing_or_damaged_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folders = small().write(folder.path());
    fs::remove_file(folders[0].join("messages.parquet")).unwrap();
    fs::write(folders[0].join("links.parquet"), b"PAR1 nonsense PAR1").unwrap();
    fs::write(folders[1].join("run.json"), b"{").unwrap();
    fs::write(folders[2].join("summary.json"), b"[]").unwrap();
    fs::remove_dir_all(&folders[3]).unwrap();
    fs::remove_file(folders[4].join("plan.json")).unwrap();
    let sweep = Sweep::read(folder.path()).unwrap();
    assert_eq!(sweep.runs.len(), 24, "what the list has is not lost");
    let words = words_of(&page_of(folder.path()));
    for word in ["messages.parquet", "links.parquet", "run.json", "summary.json", "list only"] {
        assert!(words.contains(word), "{word}");
    }
    assert!(terminal(&sweep, 120, false).contains("note: "));
}

#[test]
fn damaged_bytes_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let folders = small().write(folder.path());
    let path = folders[0].join("messages.parquet");
    let whole = fs::read(&path).unwrap();
    for place in (0..whole.len()).step_by(23) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0xff;
        fs::write(&path, &bytes).unwrap();
        let _ = report::Run::read(&folders[0]).unwrap().messages();
        fs::write(&path, &whole[..place]).unwrap();
        let read = report::Run::read(&folders[0]).unwrap().messages();
        assert!(matches!(read, Err(Error::Table { .. })));
    }
}

#[test]
fn an_empty_folder_has_no_runs() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Sweep::read(folder.path()), Err(Error::NoRuns { .. })));
    let missing = folder.path().join("nowhere");
    assert!(matches!(Sweep::read(&missing), Err(Error::Read { .. })));
    fs::write(folder.path().join("summary.json"), "[]").unwrap();
    assert!(matches!(Sweep::read(folder.path()), Err(Error::NoRuns { .. })));
}

#[test]
fn a_run_with_hardly_a_figure_still_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    fixture::write(&folder.path().join("summary.json"), &json!({"experiment": "bare"}));
    let words = words_of(&page_of(folder.path()));
    assert!(words.contains("Some runs have no verdict"));
    fixture::write(&folder.path().join("reference.json"), &json!({"figures": 3}));
    let text = terminal(&Sweep::read(folder.path()).unwrap(), 80, false);
    assert!(text.contains("reference.json is damaged"), "{text}");
}

/// JSON of the page with this id.
fn json_of(page: &str, id: &str) -> serde_json::Value {
    let text = page.split(&format!("id=\"{id}\">")).nth(1).unwrap();
    serde_json::from_str(text.split("</script>").next().unwrap()).unwrap()
}

#[test]
fn evidence_is_folded_only_when_all_runs_are_valid() {
    let folder = tempfile::tempdir().unwrap();
    let folders = small().write(folder.path());
    let folded = "<section id=\"verdict\" class=\"fold\">";
    assert!(page_of(&folders[0]).contains(folded), "one valid run");
    assert!(!page_of(folder.path()).contains(folded), "one run of the sweep is suspect");
}

#[test]
fn figures_by_axis_have_the_numbers_of_the_axis_and_of_each_cell() {
    let folder = tempfile::tempdir().unwrap();
    let invention = Invention {
        models: ["0", "10 ms", "0.5 s"].map(str::to_owned).to_vec(),
        networks: vec!["ideal".to_owned()],
        ..small()
    };
    invention.write(folder.path());
    let data = json_of(&page_of(folder.path()), "cells");
    // An axis with one value only is none.
    assert_eq!(
        data["axes"],
        json!([{"name": "model", "values": ["0", "10 ms", "0.5 s"],
        "numbers": [0.0, 10.0, 500.0], "unit": "ms"}])
    );
    let sweep = Sweep::read(folder.path()).unwrap();
    let figures = data["figures"].as_array().unwrap();
    let place = figures.iter().position(|figure| figure["name"] == "controller temperature mean");
    let place = place.unwrap();
    assert_eq!(figures[place]["unit"], "°C");
    for (cell, shown) in sweep.cells().iter().zip(data["cells"].as_array().unwrap()) {
        let mean = |summary: &report::Summary| {
            summary.program("controller", "temperature", record::Samples::mean)
        };
        let spread = cell.spread(mean).unwrap();
        assert_eq!(shown["figures"][place], json!([spread.median, spread.min, spread.max]));
    }
    assert_eq!(data["cells"][2]["at"], json!([2]));
}

#[test]
fn charts_know_their_cells_so_that_the_filter_can_hide_them() {
    let folder = tempfile::tempdir().unwrap();
    small().write(folder.path());
    let page = page_of(folder.path());
    let charts = json_of(&page, "charts");
    let mut seen = [false; 12];
    for chart in charts.as_array().unwrap() {
        let cells = chart["cells"].as_array().unwrap();
        let option = &chart["option"];
        let drawn = match chart["lines"].as_bool().unwrap() {
            true => option["series"].as_array().unwrap().len(),
            false => option["xAxis"]["data"].as_array().unwrap().len(),
        };
        assert!(cells.is_empty() || cells.len() == drawn, "{}", chart["title"]);
        cells.iter().for_each(|cell| seen[cell.as_u64().unwrap() as usize] = true);
    }
    assert!(seen.iter().all(|seen| *seen));
    let words = words_of(&page);
    assert!((0..12).all(|cell| words.contains(&format!("<tr data-cell=\"{cell}\">"))));
}

#[test]
fn throughput_and_metrics_over_time_are_those_of_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let folders = small().write(folder.path());
    let page = page_of(&folders[0]);
    let charts = json_of(&page, "charts");
    let titled = |title: &str| {
        let all = charts.as_array().unwrap().iter();
        all.clone().find(|chart| chart["title"].as_str().unwrap().starts_with(title)).unwrap()
    };
    let run = report::Run::read(&folders[0]).unwrap();
    let up: f64 = run
        .intervals()
        .unwrap()
        .iter()
        .filter(|row| row.direction == "up")
        .map(|row| row.bytes)
        .sum();
    // One interval of five seconds.
    let point = &titled("throughput")["option"]["series"][0]["data"][0];
    assert_eq!(point[0], 2.5);
    assert!((point[1].as_f64().unwrap() / (up * 8.0 / 5.0 / 1e3) - 1.0).abs() < 1e-3);
    let values = run.program_values().unwrap();
    let drawn = &titled("controller temperature")["option"]["series"][0]["data"];
    assert_eq!(drawn.as_array().unwrap().len(), values.len());
    assert!((drawn[3][1].as_f64().unwrap() / values[3].value - 1.0).abs() < 1e-3);
    assert_eq!(drawn[3][0], 1.5);
}
