//! The results as JSON, for scripts.

use crate::Sweep;
use serde_json::{Value, json};
use std::path::Path;

/// Everything that the table of results has, and more: the verdicts with their reasons, each run's
/// figures (`summary.json`), the expectations (`expect.json`). `page`: where the report is.
pub fn json(sweep: &Sweep, page: &Path) -> Value {
    let runs: Vec<Value> = sweep
        .runs
        .iter()
        .map(|run| {
            let summary = &run.summary;
            json!({
                "folder": run.folder,
                "cell": summary.cell,
                "repeat": summary.repeat,
                "seed": summary.seed,
                "status": summary.verdict.status.to_string(),
                "reasons": summary.verdict.reasons.iter().map(|reason| json!({
                    "name": reason.name.to_string(),
                    "detail": reason.detail,
                    "meaning": reason.meaning,
                })).collect::<Vec<_>>(),
                "notes": run.notes,
                // As written by the run, so that scripts see the names of `docs/run-folder.md`.
                "figures": of(&run.folder.join("summary.json")),
            })
        })
        .collect();
    // Without runs there is no status: null.
    let worst = sweep.runs.iter().map(|run| run.summary.verdict.status).max();
    json!({
        "experiment": sweep.experiment(),
        "folder": sweep.folder,
        "report": page,
        "status": worst.map(|status| status.to_string()),
        "runs": runs,
        "expectations": of(&sweep.folder.join("expect.json")),
        "notes": sweep.notes,
    })
}

/// The content of a file; null if it is missing or damaged, as the notes say.
fn of(path: &Path) -> Value {
    let text = input::read_to_string(path, input::MAX_DATA).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}
