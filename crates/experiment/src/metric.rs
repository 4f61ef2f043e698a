//! Metrics of a run's summary that a check can name: the numbers of [`Summary`].

use crate::nearest::{advice, nearest};
use crate::plan::{Plan, Workload};
use crate::program_metric::ProgramMetric;
use record::{Part, Shape, Summary};
use std::collections::BTreeMap;

/// Checks that a summary has `metric`. The error names the nearest known metric.
pub(crate) fn check<'a>(
    metric: &'a str,
    groups: impl IntoIterator<Item = &'a String>,
    programs: &'a Programs,
) -> Result<(), String> {
    let mut parts: Vec<&str> = metric.split('.').collect();
    let groups: Vec<&str> = groups.into_iter().map(String::as_str).chain(["*"]).collect();
    let correct = |part: &str, known: &[&'a str]| {
        let known = known.iter().copied();
        nearest(part, known.clone()).ok_or_else(|| advice(part, known))
    };
    if let ["groups", group, ..] = parts[..]
        && !groups.contains(&group)
    {
        // Names of groups and programs are the experiment's; the summary's shape accepts any.
        parts[1] = correct(group, &groups)?;
    }
    if let ["programs", ..] = parts[..] {
        programs.correct(&mut parts, correct)?;
    }
    // Each round replaces the first unknown part by the nearest known one.
    while let Err((place, here)) = Summary::shape().figure(&parts) {
        let known = here.names();
        match parts.get(place) {
            Some(part) if !known.is_empty() => parts[place] = correct(part, &known)?,
            _ => return Err(example(&parts[..place], here)),
        }
    }
    let near = parts.join(".");
    if near == metric { Ok(()) } else { Err(format!("did you mean `{near}`?")) }
}

/// The metrics of programs, by command or group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Programs(BTreeMap<String, Vec<String>>);

impl Programs {
    /// The metrics of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let commands = plan.workloads.iter().filter_map(|workload| match workload {
            Workload::Command(command) => Some((&command.name, &command.metrics)),
            _ => None,
        });
        let nodes = plan.nodes.iter();
        let groups = nodes.filter_map(|node| Some((&node.group, &node.program.as_ref()?.metrics)));
        let all = commands.chain(groups).filter(|(_, metrics)| !metrics.is_empty());
        let names = |metrics: &[ProgramMetric]| metrics.iter().map(|m| m.name.clone()).collect();
        Self(all.map(|(program, metrics)| (program.clone(), names(metrics))).collect())
    }

    /// Replaces unknown names in `programs.PROGRAM.METRIC...` by the nearest known ones.
    fn correct<'a>(
        &'a self,
        parts: &mut [&'a str],
        correct: impl Fn(&str, &[&'a str]) -> Result<&'a str, String>,
    ) -> Result<(), String> {
        let names = |of: &mut dyn Iterator<Item = &'a String>| -> Vec<&'a str> {
            of.map(String::as_str).chain(["*"]).collect()
        };
        if self.0.is_empty() {
            return Err("no program has `metrics`".to_owned());
        }
        let Some(program) = parts.get_mut(1) else { return Ok(()) };
        if *program != "*" && !self.0.contains_key(*program) {
            *program = correct(program, &names(&mut self.0.keys()))?;
        }
        let own = self.0.iter().filter(|(name, _)| *program == "*" || name == program);
        let metrics = names(&mut own.flat_map(|(_, metrics)| metrics));
        match parts.get_mut(2) {
            Some(metric) if !metrics.contains(metric) => *metric = correct(metric, &metrics)?,
            _ => {}
        }
        Ok(())
    }
}

/// What to write in place of a path that leads to `here`, which is not a number, or too long.
fn example(path: &[&str], here: Shape) -> String {
    let path: Vec<String> =
        path.iter().map(|part| (*part).to_owned()).chain(here.first()).collect();
    format!("write for example `{}`", path.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_the_nearest_is_named() {
        let groups = ["utility".to_owned()];
        assert_eq!(check("messages.rtd_ms.mean", &groups, &Programs::default()), Ok(()));
        assert_eq!(check("groups.utility.tx_bytes", &groups, &Programs::default()), Ok(()));
        let near = check("groups.utilty.tx_byte", &groups, &Programs::default()).unwrap_err();
        assert_eq!(near, "did you mean `groups.utility.tx_bytes`?");
    }

    #[test]
    fn metrics_of_programs_are_those_of_the_file() {
        let groups: [String; 0] = [];
        let metrics = ["throughput".to_owned(), "errors".to_owned()];
        let programs = Programs([("iperf".to_owned(), metrics.into())].into());
        for good in ["programs.iperf.throughput.mean", "programs.*.errors.count"] {
            assert_eq!(check(good, &groups, &programs), Ok(()), "{good}");
        }
        for (wrong, near) in [
            ("programs.iprf.throughput.p99", "programs.iperf.throughput.p99"),
            ("programs.iperf.troughput.p99", "programs.iperf.throughput.p99"),
            ("programs.iperf.throughput.p9", "programs.iperf.throughput.p90"),
        ] {
            let advice = check(wrong, &groups, &programs).unwrap_err();
            assert_eq!(advice, format!("did you mean `{near}`?"));
        }
        let none = check("programs.x.y.mean", &groups, &Programs::default()).unwrap_err();
        assert_eq!(none, "no program has `metrics`");
    }

    #[test]
    fn figures_of_exchanges_are_known_by_their_form() {
        let groups: [String; 0] = [];
        for good in [
            "exchanges.coap.failed",
            "exchanges.coap.sizes.2500.time_ms",
            "exchanges.coap.sizes.2500.sections.payload_1.bytes",
        ] {
            assert_eq!(check(good, &groups, &Programs::default()), Ok(()), "{good}");
        }
        let near =
            check("exchanges.coap.sizes.2500.time", &groups, &Programs::default()).unwrap_err();
        assert!(near.contains("time_ms"), "{near}");
        let example =
            check("exchanges.coap.sizes.big.time_ms", &groups, &Programs::default()).unwrap_err();
        assert_eq!(example, "write for example `exchanges.coap.sizes.1.exchanges`");
        assert!(check("exchanges.coap.sizes.2500", &groups, &Programs::default()).is_err());
        assert!(check("messages.sent.mean", &groups, &Programs::default()).is_err());
        assert_eq!(check("loads.polling.response_ms.p99", &groups, &Programs::default()), Ok(()));
        assert_eq!(check("loads.polling.unanswered_pct", &groups, &Programs::default()), Ok(()));
        assert!(check("loads.polling.response_ms", &groups, &Programs::default()).is_err());
        assert!(check("loads.polling.slip_ms.p98", &groups, &Programs::default()).is_err());
    }
}
