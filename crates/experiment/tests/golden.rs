//! User-visible texts in golden files; `UPDATE_GOLDEN=1` updates them.

use experiment::{Experiment, Only};
use std::fs;
use std::path::{Path, PathBuf};

/// Compares `text` with the file at `path`, or updates the file.
fn golden(path: &Path, text: &str) -> Result<(), String> {
    let text = format!("{}\n", text.trim_end());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, text).unwrap();
        return Ok(());
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected == text {
        return Ok(());
    }
    Err(format!("{} differs.\n--- actual\n{text}\n--- expected\n{expected}", path.display()))
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

#[test]
fn every_bad_file_is_refused_with_its_text() {
    let mut wrong = Vec::new();
    for path in files("tests/golden/bad", "yaml") {
        let text = match Experiment::read(&path) {
            Ok(_) => "accepted".to_owned(),
            Err(errors) => errors.to_string(),
        };
        assert_ne!(text, "accepted", "{} should be refused", path.display());
        wrong.extend(golden(&path.with_extension("txt"), &text).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_good_file_resolves_to_its_plans() {
    let here = std::env::current_dir().unwrap();
    let mut wrong = Vec::new();
    for path in files("tests/golden/good", "yaml") {
        let experiment = Experiment::read(&path).unwrap_or_else(|errors| panic!("{errors}"));
        let mut texts = Vec::new();
        for cell in experiment.cells(&Only::all()).unwrap() {
            let plan = experiment.plan(&cell, 1, 5).unwrap();
            let text = plan.to_string().replace(&format!("{}/", here.display()), "");
            texts.push(text);
        }
        wrong.extend(golden(&path.with_extension("txt"), &texts.join("\n\n----\n\n")).err());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_plan_reads_back_from_its_json() {
    let experiment = Experiment::read(Path::new("tests/golden/good/everything.yaml")).unwrap();
    let cell = &experiment.cells(&Only::all()).unwrap()[0];
    let plan = experiment.plan(cell, 1, 5).unwrap();
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<experiment::Plan>(&json).unwrap(), plan);
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["nodes"][1]["links"][0]["interface"], "eth0");
    assert_eq!(value["nodes"][1]["links"][0]["mac"], "02:00:0a:00:00:02");
    assert_eq!(value["networks"][0]["channel"]["shared"], "250 kbit/s");
    assert_eq!(value["workloads"][0]["interaction"]["down"], "pgm/publish-subscribe");
    assert_eq!(value["cell"]["network"], "radio");
}

#[test]
fn a_file_that_is_not_there_is_said_so() {
    let text = Experiment::read(Path::new("tests/golden/none.yaml")).unwrap_err().to_string();
    assert!(text.contains("tests/golden/none.yaml") && text.contains("No such file"), "{text}");
    let text = Experiment::read(Path::new("tests/golden")).unwrap_err().to_string();
    assert!(text.contains("it is a folder"), "{text}");
}
