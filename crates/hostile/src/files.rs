//! Files of others.

use crate::input::{pieces, scratch};
use ::capsule::Capsule;
use ::experiment::{Experiment, LinkProfile, Only};
use ::image::Archive;
use ::trace::{Arrivals, Method, Mix, Reader, Tally, read_resources};
use director::{Conditions, PerformanceMap};
use flate2::Compression;
use flate2::write::GzEncoder;
use link::{Distribution, Impairment, Keys, LightTrace, SizeDelays, Table, Trace};
use record::event::{
    self, ExchangeEvent, MessageEvent, Probed, SectionEvent, SinkEvent, SourceEvent,
};
use std::fs;
use std::io::Write;
use std::path::Path;
use units::Draw;

/// Files of a run folder that others read.
const FOLDER: [&str; 4] = ["summary.json", "run.json", "messages.parquet", "links.parquet"];

/// Any text where a trace, a distribution or a change of a link is looked for.
pub(crate) fn tables(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let file = Path::new("any");
    if let Ok(trace) = Trace::parse(file, text) {
        assert!(trace.mean_bit_s() > 0.0);
    }
    if let Err(error) = LightTrace::parse(file, text) {
        assert!(!error.to_string().is_empty());
    }
    let _ = SizeDelays::parse(file, text);
    if let Ok(table) = Table::parse(file, text) {
        let shape = Distribution::Table(table);
        for u in [0.0, 0.5, 1.0 - f64::EPSILON] {
            assert!(shape.quantile(u).abs() <= 4.0);
        }
    }
    if let Ok(changes) = serde_json::from_str::<Keys>(text) {
        let _ = Impairment::default().with(&changes);
    }
}

/// Any text as an experiment file, and its plan.
pub(crate) fn experiment(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A folder that does not exist, so that no file of this machine is read.
    match Experiment::parse(text, "any.yaml", "/nonexistent") {
        Ok(experiment) => {
            // Matrices may have thousands of cells.
            for cell in experiment.cells(&Only::all()).unwrap_or_default().iter().take(2) {
                let _ = experiment.plan(cell, 0, 1);
            }
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}

/// Any text as a link profile.
pub(crate) fn profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match LinkProfile::parse(text, Path::new("/nonexistent/any.yaml")) {
        Ok(profile) => assert!(!profile.quality().is_empty()),
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}

/// Any bytes, in pieces, as the files of a run folder.
pub(crate) fn folder(bytes: &[u8]) {
    let dir = scratch();
    for (name, bytes) in FOLDER.iter().zip(pieces(bytes)) {
        fs::write(dir.path().join(name), bytes).expect("a file in memory");
    }
    if let Ok(sweep) = report::Sweep::read(dir.path()) {
        let _ = report::terminal(&sweep, 100, false);
        let _ = report::write_html(&sweep, &dir.path().join("report.html"));
    }
}

/// Any bytes as the decisions of a run that `--replay` repeats.
pub(crate) fn replay(bytes: &[u8]) {
    let dir = scratch();
    let path = dir.path().join("decisions.parquet");
    fs::write(&path, bytes).expect("a file in memory");
    match measure::read_decisions(&path, &[3, 2]) {
        Ok(replay) => assert_eq!(replay.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Any bytes as the events that a program wrote.
pub(crate) fn events(bytes: &[u8]) {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let check = |read: Result<usize, String>| match read {
        Ok(events) => assert!(events <= lines, "{events} events in {lines} lines"),
        Err(why) => assert!(!why.is_empty()),
    };
    check(event::read::<MessageEvent<'static, SourceEvent>>(bytes).map(|all| all.len()));
    check(event::read::<MessageEvent<'static, SinkEvent>>(bytes).map(|all| all.len()));
    check(event::read::<ExchangeEvent>(bytes).map(|all| all.len()));
    check(event::read::<SectionEvent>(bytes).map(|all| all.len()));
    check(event::read::<Probed>(bytes).map(|all| all.len()));
}

/// Any text as a performance map, and a question to it.
pub(crate) fn map(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match PerformanceMap::from_json(text) {
        Ok(map) => {
            let near = map.near(&Conditions::default());
            for model in map.models().collect::<Vec<_>>() {
                let _ = map.predict(model, &near);
            }
            let again = PerformanceMap::from_json(&map.to_json());
            assert!(again.is_ok(), "what was written is read");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Any bytes as a trace of requests and as a file of resources, any text as what a
/// schedule, a distribution or a mix is asked for by.
pub(crate) fn trace(bytes: &[u8]) {
    let [bytes, text] = pieces(bytes)[..] else { return };
    let text = String::from_utf8_lossy(text);
    let mut reader = Reader::new(bytes);
    let mut tally = Tally::default();
    let mut lines = Vec::new();
    while let Some(read) = reader.read().expect("a slice can be read") {
        match read {
            Ok(request) => {
                tally.add(&request);
                lines.push(request.to_string());
            }
            Err(error) => tally.add_fault(&error),
        }
    }
    assert_eq!(tally.finish().requests, lines.len() as u64);
    // What was read is written so that it reads back.
    let again = lines.join("\n");
    let mut reader = Reader::new(again.as_bytes());
    for line in &lines {
        let request = reader.read().expect("a slice").expect("a line").expect("a request");
        assert_eq!(&request.to_string(), line);
    }
    let _ = read_resources(bytes);
    let _ = text.parse::<Mix<Method>>();
    // Files are none of the fuzzer's business.
    if !text.contains("measured")
        && let Ok(arrivals) = text.parse::<Arrivals>()
    {
        let mut before = 0;
        for at in arrivals.times(Draw::new(1, 2, 3), true).take(100) {
            assert!(at >= before);
            before = at;
        }
    }
}

const MANIFEST: &[u8] = br#"[{"Config":"config.json","RepoTags":["a:1"],"Layers":["layer"]}]"#;

fn config() -> Vec<u8> {
    format!(r#"{{"rootfs":{{"diff_ids":["sha256:{}"]}}}}"#, "0".repeat(64)).into_bytes()
}

/// Any bytes as an image's archive, its manifest, its configuration or its layer; and
/// nothing is ever written outside of the folder that it is unpacked into.
pub(crate) fn image(bytes: &[u8]) {
    let Some((&part, bytes)) = bytes.split_first() else { return };
    let dir = scratch();
    let (archive, root) = (dir.path().join("archive"), dir.path().join("box/root"));
    fs::create_dir_all(&root).expect("a folder in memory");
    let texts = [MANIFEST.to_vec(), config(), Vec::new()];
    let names = ["manifest.json", "config.json", "layer"];
    match part % 4 {
        3 => fs::write(&archive, bytes).expect("a file in memory"),
        which => {
            fs::create_dir(&archive).expect("a folder in memory");
            for (number, name) in names.iter().enumerate() {
                let text = if number == usize::from(which) { bytes } else { &texts[number] };
                fs::write(archive.join(name), text).expect("a file in memory");
            }
        }
    }
    if let Err(error) = Archive::open(&archive, None).and_then(|archive| archive.unpack(&root)) {
        assert!(!error.to_string().is_empty());
    }
    let count = |folder: &Path| fs::read_dir(folder).expect("a folder").count();
    assert_eq!(count(dir.path()), 2, "something was written outside of it");
    assert_eq!(count(&dir.path().join("box")), 1);
}

/// Any bytes as a capsule, as the archive in it, or as its manifest with an empty file; and nothing is
/// ever written outside of the folder that it is unpacked into.
pub(crate) fn capsule(bytes: &[u8]) {
    let Some((&part, bytes)) = bytes.split_first() else { return };
    let dir = scratch();
    let (file, parent) = (dir.path().join("any.capsule"), dir.path().join("box"));
    fs::create_dir(&parent).expect("a folder in memory");
    let packed = match part % 3 {
        0 => bytes.to_vec(),
        1 => compressed(bytes),
        _ => compressed(&archive(bytes)),
    };
    fs::write(&file, packed).expect("a file in memory");
    let count = |folder: &Path| fs::read_dir(folder).expect("a folder").count();
    match Capsule::open_in(&file, &parent) {
        Ok(capsule) => assert!(capsule.file().starts_with(&parent)),
        Err(error) => assert!(!error.is_empty()),
    }
    assert_eq!(count(dir.path()), 2, "something was written outside of it");
    assert_eq!(count(&parent), 0, "its folder is removed");
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).and_then(|()| out.finish()).expect("memory")
}

/// An archive with a manifest and the file of no bytes, by its digest.
fn archive(manifest: &[u8]) -> Vec<u8> {
    // The SHA-256 of no bytes.
    let blob = "blobs/e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in
        [("capsule.json", manifest), (blob, &[]), ("home/e.yaml", b"experiment: e")]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, bytes).expect("memory");
    }
    archive.into_inner().expect("memory")
}
