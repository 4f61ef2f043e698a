//! All forms of the report with text that tries to leave its place: names come from experiment files,
//! programs, captures and capsules of others.

#[allow(dead_code, missing_docs)]
mod fixture;

use fixture::Invention;
use report::{
    Capture, CompareFigure, Sweep, capture_terminal, compare, json, junit, markdown, terminal,
    write_capture_html, write_html,
};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Markup of each form, and characters that steer a terminal.
const HOSTILE: [&str; 16] = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\" onmouseover=\"alert(1)",
    "' onfocus='alert(1)",
    "a | b |\n| c",
    "**bold** _it_ `code`",
    "[link](javascript:alert(1))",
    "~~deleted~~ $x$",
    "&lt;b&gt; &amp;",
    "\u{1b}[2J\u{1b}]0;title\u{7}",
    "a\r\nb\tc\u{0}\u{85}",
    "=cmd|'/C calc'!A0",
    "\u{202e}drowssap\u{2066}x\u{2069}",
    "]]>\u{fffe}\u{ffff}",
    "line\u{2028}separator\u{2029}",
];

/// A sweep with this text in each name that a user chooses.
fn sweep_of(text: &str, folder: &Path) -> Sweep {
    let invention = Invention {
        experiment: text.to_owned(),
        metric: text.to_owned(),
        models: vec![text.to_owned(), "other".to_owned()],
        networks: vec!["ideal".to_owned(), format!("{text} net")],
        repeats: 1,
        consumers: 1,
        messages: 10,
        seconds: 5,
    };
    // Folders of runs cannot have all of these names.
    let folders = invention.write_as(folder, |m, n, repeat| format!("{m}-{n}-{repeat}"));
    invention.write_beside(folder);
    let mut summary: Value = read(&folders[0].join("summary.json"));
    summary["verdict"]["status"] = "failed".into();
    summary["verdict"]["reasons"] = serde_json::json!([text]);
    fixture::write(&folders[0].join("summary.json"), &summary);
    let mut all: Value = read(&folder.join("summary.json"));
    all[0] = summary;
    fixture::write(&folder.join("summary.json"), &all);
    Sweep::read(folder).unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Whether a character moves the cursor, sends an escape sequence, or changes the direction of text.
fn steers(c: char) -> bool {
    (c.is_control() && c != '\n')
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// `text` without what a backslash escapes.
fn unescaped(text: &str) -> String {
    let mut rest = text.chars();
    let mut found = String::new();
    while let Some(c) = rest.next() {
        match c {
            '\\' => drop(rest.next()),
            c => found.push(c),
        }
    }
    found
}

#[test]
fn a_name_does_not_steer_the_terminal() {
    for text in HOSTILE {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep_of(text, folder.path());
        for width in [0, 40, 80, 200, u16::MAX] {
            let shown = terminal(&sweep, width, false);
            assert!(!shown.contains(steers), "{text:?} at {width}: {shown:?}");
            // The headline is one line: a name cannot add another verdict.
            assert!(shown.starts_with("✗ FAILED  "), "{shown}");
        }
    }
}

#[test]
fn a_name_does_not_leave_its_cell_of_a_markdown_table() {
    for text in HOSTILE {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep_of(text, folder.path());
        let whole = markdown(&sweep);
        assert!(!whole.contains(steers), "{text:?}: {whole:?}");
        let mut bars = 0;
        for line in whole.lines() {
            let markup = unescaped(line);
            // Of the report's own markup, only the status is bold.
            let own = markup.replace("**FAILED**", "");
            assert!(!own.contains(['<', '>', '*', '_', '`', '[', '~', '$', '&']), "{line}");
            let found = markup.matches('|').count();
            assert!(bars == 0 || found == 0 || found == bars, "{line}\n{whole}");
            bars = found;
        }
    }
}

#[test]
fn a_name_is_text_in_junit_xml() {
    for text in HOSTILE {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep_of(text, folder.path());
        let xml = junit(&sweep);
        let legal = |c: char| {
            // XML 1.0, production 2.
            matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        };
        assert!(xml.chars().all(legal), "{text:?}: {xml:?}");
        let read = quick_junit::Report::deserialize_from_str(&xml);
        let read = read.unwrap_or_else(|error| panic!("{text:?}: {error}\n{xml}"));
        let cases: Vec<usize> =
            read.test_suites.iter().map(|suite| suite.test_cases.len()).collect();
        assert_eq!(cases, [4, 3], "runs, and expectations");
        let failed = &read.test_suites[0].test_cases[0].status;
        assert!(matches!(failed, quick_junit::TestCaseStatus::NonSuccess { .. }), "{failed:?}");
    }
}

#[test]
fn json_has_names_as_they_are() {
    for text in HOSTILE {
        let folder = tempfile::tempdir().unwrap();
        let sweep = sweep_of(text, folder.path());
        let found = json(&sweep, Path::new("report.html"));
        let back: Value = serde_json::from_str(&found.to_string()).unwrap();
        assert_eq!(back["experiment"], text);
        assert_eq!(back["runs"][0]["cell"]["model"], text);
        assert_eq!(back["runs"][0]["status"], "failed");
        assert_eq!(back["status"], "failed");
    }
}

/// The names of all elements of a page, and of all attributes, outside scripts and styles.
fn markup(page: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let tag = &rest[start + 1..];
        let end = tag.find('>').unwrap();
        let inside = &tag[..end];
        let name = inside.split([' ', '\n']).next().unwrap().to_owned();
        // Values are in double quotes, and have none themselves.
        let outside = inside.split('"').step_by(2).collect::<Vec<_>>().join(" ");
        let attributes = outside.split_whitespace().skip(1);
        // Long text has no class, so that it may wrap.
        let attributes = attributes.map(|word| word.trim_end_matches('=').to_owned());
        let attributes = attributes.filter(|name| name != "class").collect();
        rest = &tag[end + 1..];
        if let "script" | "style" = &*name {
            let close = format!("</{name}>");
            rest = &rest[rest.find(&close).unwrap()..];
        }
        found.push((name, attributes));
    }
    found
}

#[test]
fn a_name_adds_no_element_and_no_attribute_to_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    let page = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        write_html(&sweep_of(text, folder.path()), &path).unwrap();
        fs::read_to_string(&path).unwrap()
    };
    // The same page with a harmless name of about this length has the same elements.
    let harmless = markup(&page("name"));
    assert!(harmless.len() > 100, "{}", harmless.len());
    for text in HOSTILE {
        let page = page(text);
        assert_eq!(markup(&page), harmless, "{text:?}");
        // Scripts follow: JSON may have any character, and the chart library has control characters.
        let own = &page[..page.find("<script ").unwrap()];
        assert!(!own.contains(steers), "{text:?}");
    }
}

/// A capture with this text wherever a capture file or a later version could put it.
fn capture_of(text: &str) -> Capture {
    let row = serde_json::json!({"protocol": text, "packets": 1, "bytes": 60});
    let way = serde_json::json!({"packets": 1, "bytes": 60});
    let capture = serde_json::json!({
        "complete": false, "packets": 3, "bytes": 180, "duration_s": 1.0, "notes": [text],
        "points": [{"name": text}], "kinds": [{"kind": text, "packets": 1, "bytes": 60}],
        "later_fragments": [row], "icmp_messages": [row], "other_protocols": [row],
        "unread": [{"point": text, "reason": text, "number": 7, "name": text, "packets": 1}],
        "messages": {(text): {(text): 1}}, "tcp": {"packets": 1},
        "paths": [{"from": text, "to": text}], "nodes": [{"node": text}],
        "flows": [{"point": text, "transport": text, "protocol": text, "a": text, "b": text,
            "forward": way, "back": way}],
    });
    Capture::parse(&capture.to_string(), Path::new("c.pcapng")).unwrap()
}

#[test]
fn text_of_a_capture_stays_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.html");
    let page = |text: &str| {
        write_capture_html(&capture_of(text), text, &path).unwrap();
        fs::read_to_string(&path).unwrap()
    };
    let harmless = markup(&page("name"));
    for text in HOSTILE {
        assert_eq!(markup(&page(text)), harmless, "{text:?}");
        for width in [0, 60, 300] {
            let shown = capture_terminal(&capture_of(text), width, false, 10);
            assert!(!shown.contains(steers), "{text:?}: {shown:?}");
        }
    }
}

#[test]
fn a_page_of_a_capture_says_which_rows_it_leaves_out() {
    let flows: Vec<Value> =
        (0..201).map(|n| serde_json::json!({"a": format!("10.0.0.{n}:1")})).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.html");
    let page = |count: usize| {
        let capture = serde_json::json!({"flows": flows[..count]}).to_string();
        write_capture_html(&Capture::parse(&capture, &path).unwrap(), "c", &path).unwrap();
        fs::read_to_string(&path).unwrap()
    };
    let all = page(200);
    assert!(all.contains("10.0.0.199:1") && !all.contains("The first 200"));
    let more = page(201);
    assert!(more.contains("The first 200 of 201 flows") && !more.contains("10.0.0.200:1"));
}

#[test]
fn names_of_axes_and_values_stay_in_the_table_of_a_comparison() {
    let exchanges = serde_json::json!({"transfer": {"exchanges": 1, "failed": 0, "sizes": {
        "0": {"time_ms": 5.0, "time_low_ms": 4.9, "time_high_ms": 5.1}}}});
    for text in HOSTILE {
        let folder = tempfile::tempdir().unwrap();
        for (place, value) in [text, "other"].iter().enumerate() {
            let run = folder.path().join(place.to_string());
            fs::create_dir(&run).unwrap();
            let summary = serde_json::json!({"experiment": "e", "seed": 1, "repeat": 0,
                "cell": {(text): value, "axis": text}, "exchanges": exchanges});
            fixture::write(&run.join("summary.json"), &summary);
        }
        let sweep = Sweep::read(folder.path()).unwrap();
        let table = compare(&sweep, text, CompareFigure::Time).unwrap();
        assert!(!table.contains(steers), "{table:?}");
        // Two tables, of which each has rows of one length.
        for part in table.split("\n\n") {
            let bars = part.lines().map(|line| unescaped(line).matches('|').count());
            let bars: Vec<usize> = bars.filter(|bars| *bars > 0).collect();
            assert!(bars.iter().all(|count| *count == bars[0]), "{table}");
        }
        assert!(!unescaped(&table).contains('<'), "{table}");
        let error = compare(&sweep, "none", CompareFigure::Time).unwrap_err();
        assert!(!error.contains(steers) && !error.contains('\n'), "{error:?}");
    }
}

/// Writes a page by each of the functions.
fn write_by(place: usize, sweep: &Sweep, path: &Path) {
    match place {
        0 => write_html(sweep, path).unwrap(),
        _ => write_capture_html(&Capture::default(), "c", path).unwrap(),
    }
}

#[test]
fn a_page_replaces_the_earlier_one_only_when_it_is_whole() {
    let runs = tempfile::tempdir().unwrap();
    let sweep = sweep_of("name", runs.path());
    for place in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("page.html"), folder.path().join("old.html"));
        fs::write(&path, "earlier").unwrap();
        // Another name of the earlier file: writing into that file would change it.
        fs::hard_link(&path, &old).unwrap();
        write_by(place, &sweep, &path);
        assert_eq!(fs::read_to_string(&old).unwrap(), "earlier");
        assert!(fs::read_to_string(&path).unwrap().starts_with("<!DOCTYPE html>"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no draft is left");
    }
}

#[test]
fn a_device_and_the_target_of_a_link_are_written_and_not_replaced() {
    let runs = tempfile::tempdir().unwrap();
    let sweep = sweep_of("name", runs.path());
    for place in 0..2 {
        write_by(place, &sweep, Path::new("/dev/null"));
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "earlier").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_by(place, &sweep, &link);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::read_to_string(&target).unwrap().starts_with("<!DOCTYPE html>"));
    }
    let error = write_capture_html(&Capture::default(), "c", Path::new("/no/such/c.html"));
    assert!(error.unwrap_err().to_string().contains("/no/such/c.html"));
}

/// The charts of a page.
fn charts(page: &str) -> Vec<Value> {
    let text = page.split("id=\"charts\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_str(text).unwrap()
}

#[test]
fn charts_of_hardly_any_data_have_series_of_numbers() {
    for (messages, seconds, consumers) in [(1, 1, 1), (0, 0, 0), (0, 5, 1), (2, 1, 1), (1, 5, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let invention =
            Invention { repeats: 1, messages, seconds, consumers, ..Invention::default() };
        invention.write(folder.path());
        let sweep = Sweep::read(folder.path()).unwrap();
        let path = folder.path().join("report.html");
        write_html(&sweep, &path).unwrap();
        let place = format!("{messages} messages, {seconds} s, {consumers} consumers");
        for chart in charts(&fs::read_to_string(&path).unwrap()) {
            let option = &chart["option"];
            for axis in [&option["xAxis"], &option["yAxis"]] {
                for end in ["min", "max", "interval"] {
                    assert!(axis.get(end).is_none_or(Value::is_number), "{place}: {chart}");
                }
                if let (Some(min), Some(max)) = (axis["min"].as_f64(), axis["max"].as_f64()) {
                    assert!(min < max, "{place}: {chart}");
                }
            }
            for series in option["series"].as_array().unwrap() {
                for point in series["data"].as_array().unwrap() {
                    let all = point.as_array().is_none_or(|ends| ends.iter().all(Value::is_number));
                    assert!(all, "{place}: {chart}");
                }
            }
        }
        assert!(!terminal(&sweep, 100, false).contains("NaN"), "{place}");
        assert!(!markdown(&sweep).contains("NaN"), "{place}");
    }
}
