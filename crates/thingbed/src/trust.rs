//! Counts the runs of a sweep that the machine disturbed, and advises the user.

use record::{Status, Summary};
use serde_json::Value;

/// Disturbed runs of a sweep.
#[derive(Debug, Default)]
pub struct Trust {
    runs: usize,
    /// Runs that are invalid because the machine was busy.
    busy: usize,
}

impl Trust {
    /// Counts a run by its summary.
    pub fn add(&mut self, summary: &Value) {
        self.runs += 1;
        let reasons = Summary::verdict_in(summary).reasons;
        // Only evidence about the machine: a run may be invalid for another reason, which no idle
        // machine changes.
        let mut invalid = reasons.iter().filter(|reason| reason.status == Status::Invalid);
        self.busy += usize::from(invalid.any(|reason| reason.name.is_of_machine()));
    }

    /// Advice for the user if the machine disturbed runs: what happened and the fix. `again` is the
    /// command that repeats the invalid runs, `in_virtual_time` one for virtual time, if that works,
    /// and `page` the path of the report.
    pub fn advice(
        &self,
        again: &str,
        in_virtual_time: impl FnOnce() -> Option<String>,
        page: &str,
    ) -> Option<String> {
        if self.busy == 0 {
            return None;
        }
        let runs = match (self.busy, self.runs) {
            (1, 1) => "the run".to_owned(),
            (busy, runs) if busy == runs => format!("all {runs} runs"),
            (busy, runs) => format!("{busy} of {runs} runs"),
        };
        let close = match in_virtual_time() {
            Some(command) => format!(
                "In virtual time, a busy machine changes no figure:\n  {command}\nFor real time, \
                 close"
            ),
            None => "Close".to_owned(),
        };
        Some(format!(
            "This machine was too busy during {runs}, so those results may show the machine \
             instead of your system; {page} marks them as invalid. {close} other programs, or use a \
             machine with more CPUs, then repeat only the invalid runs:\n  {again}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn summary(status: &str, name: &str) -> Value {
        let reason = json!({"status": status, "name": name, "value": 99.0, "limit": 50.0,
            "unit": "%", "meaning": "", "detail": ""});
        json!({"verdict": {"status": status, "reasons": [reason]}})
    }

    #[test]
    fn only_a_busy_machine_is_blamed() {
        let mut trust = Trust::default();
        trust.add(&summary("suspect", "CPU steal"));
        trust.add(&summary("invalid", "links outside tolerance"));
        assert_eq!(trust.advice("again", || None, "page"), None);
        trust.add(&summary("invalid", "seconds with saturated CPUs"));
        let advice = trust.advice("thingbed run e.yaml", || None, "runs/e/report.html").unwrap();
        assert!(advice.contains("during 1 of 3 runs"), "{advice}");
        assert!(advice.contains("runs/e/report.html"), "{advice}");
        assert!(advice.ends_with("thingbed run e.yaml"), "{advice}");
        let both = trust.advice("again", || Some("thingbed run e.yaml --clock virtual".into()), "");
        let text = "no figure:\n  thingbed run e.yaml --clock virtual\nFor real time, close other";
        assert!(both.is_some_and(|both| both.contains(text)));
    }
}
