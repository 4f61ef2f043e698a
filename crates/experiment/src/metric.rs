//! Metrics of a run's summary that a check can name: the numbers of [`Summary`].

use crate::nearest::{advice, nearest};
use crate::plan::{Plan, Workload};
use record::{Part, Shape, Summary};
use std::collections::{BTreeMap, BTreeSet};

/// Checks that a summary has `metric`. The error names the nearest known metric.
pub(crate) fn check<'a>(
    metric: &'a str,
    groups: impl IntoIterator<Item = &'a String>,
    names: &'a Names,
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
        names.programs.correct(&mut parts, correct)?;
    }
    if !names.is_partial {
        names.workloads.correct(&mut parts, correct)?;
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

/// The names in the results that an experiment defines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    programs: Programs,
    workloads: Workloads,
    /// Whether workloads may be missing, because the file has other problems.
    pub is_partial: bool,
}

impl Names {
    /// The names in the results of a plan.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut names = Self::default();
        names.add(plan);
        names
    }

    /// Adds those of a plan: cells may have other names.
    pub(crate) fn add(&mut self, plan: &Plan) {
        self.programs.add(plan);
        self.workloads.add(plan);
    }
}

/// The workloads with separate figures, by the part of the summary that these are in.
#[derive(Debug, Clone, Default)]
struct Workloads {
    named: BTreeMap<&'static str, BTreeSet<String>>,
    /// The payload sizes of an exchange, in bytes.
    sizes: BTreeMap<String, BTreeSet<String>>,
}

/// The parts of the summary with the figures of a workload each, and how the file calls it.
const PARTS: [(&str, &str); 3] =
    [("exchanges", "exchange"), ("loads", "load"), ("probes", "probe")];

impl Workloads {
    fn add(&mut self, plan: &Plan) {
        for workload in &plan.workloads {
            let part = match workload {
                Workload::Exchange(exchange) => {
                    let sizes = exchange.sizes.iter().map(u64::to_string);
                    self.sizes.entry(exchange.name.clone()).or_default().extend(sizes);
                    "exchanges"
                }
                Workload::Load(_) => "loads",
                Workload::Probe(_) => "probes",
                _ => continue,
            };
            self.named.entry(part).or_default().insert(workload.name().to_owned());
        }
    }

    /// Replaces an unknown workload, or an unknown size of an exchange, by the nearest known one.
    fn correct<'a>(
        &'a self,
        parts: &mut [&'a str],
        correct: impl Fn(&str, &[&'a str]) -> Result<&'a str, String>,
    ) -> Result<(), String> {
        let Some((part, kind)) = PARTS.into_iter().find(|(part, _)| parts.first() == Some(part))
        else {
            return Ok(());
        };
        let Some(named) = self.named.get(part) else {
            return Err(format!("no workload is `{kind}`"));
        };
        let known = |names: &'a BTreeSet<String>| -> Vec<&'a str> {
            names.iter().map(String::as_str).chain(["*"]).collect()
        };
        match parts.get_mut(1) {
            Some(name) if !known(named).contains(name) => *name = correct(name, &known(named))?,
            _ => {}
        }
        if let ["exchanges", name, "sizes", size, ..] = parts
            && let Some(sizes) = self.sizes.get(*name)
            // What is no number is a question of the form.
            && size.parse::<u64>().is_ok()
            && !sizes.contains(*size)
        {
            let all: Vec<&str> = sizes.iter().map(String::as_str).collect();
            return Err(format!("`{name}` has the sizes {}", all.join(", ")));
        }
        Ok(())
    }
}

/// The metrics of programs, by command or group.
#[derive(Debug, Clone, Default)]
struct Programs(BTreeMap<String, BTreeSet<String>>);

impl Programs {
    fn add(&mut self, plan: &Plan) {
        let commands = plan.workloads.iter().filter_map(|workload| match workload {
            Workload::Command(command) => Some((&command.name, &command.metrics)),
            _ => None,
        });
        let nodes = plan.nodes.iter();
        let groups = nodes.filter_map(|node| Some((&node.group, &node.program.as_ref()?.metrics)));
        for (program, metrics) in commands.chain(groups).filter(|(_, all)| !all.is_empty()) {
            let names = metrics.iter().map(|metric| metric.name.clone());
            self.0.entry(program.clone()).or_default().extend(names);
        }
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
        assert_eq!(check("messages.rtd_ms.mean", &groups, &Names::default()), Ok(()));
        assert_eq!(check("groups.utility.tx_bytes", &groups, &Names::default()), Ok(()));
        let near = check("groups.utilty.tx_byte", &groups, &Names::default()).unwrap_err();
        assert_eq!(near, "did you mean `groups.utility.tx_bytes`?");
    }

    #[test]
    fn metrics_of_programs_are_those_of_the_file() {
        let groups: [String; 0] = [];
        let metrics = ["throughput".to_owned(), "errors".to_owned()];
        let programs = Programs([("iperf".to_owned(), metrics.into())].into());
        let programs = Names { programs, ..Names::default() };
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
        let none = check("programs.x.y.mean", &groups, &Names::default()).unwrap_err();
        assert_eq!(none, "no program has `metrics`");
    }

    #[test]
    fn figures_of_exchanges_are_known_by_their_form() {
        let groups: [String; 0] = [];
        let name = |name: &str| BTreeSet::from([name.to_owned()]);
        let named = [("exchanges", name("coap")), ("loads", name("polling"))].into();
        let sizes = [("coap".to_owned(), name("2500"))].into();
        let workloads = Workloads { named, sizes };
        let names = Names { workloads, ..Names::default() };
        for good in [
            "exchanges.coap.failed",
            "exchanges.coap.sizes.2500.time_ms",
            "exchanges.coap.sizes.2500.sections.payload_1.bytes",
        ] {
            assert_eq!(check(good, &groups, &names), Ok(()), "{good}");
        }
        let near = check("exchanges.coap.sizes.2500.time", &groups, &names).unwrap_err();
        assert!(near.contains("time_ms"), "{near}");
        let example = check("exchanges.coap.sizes.big.time_ms", &groups, &names).unwrap_err();
        assert_eq!(example, "write for example `exchanges.coap.sizes.1.exchanges`");
        assert!(check("exchanges.coap.sizes.2500", &groups, &names).is_err());
        assert!(check("messages.sent.mean", &groups, &names).is_err());
        assert_eq!(check("loads.polling.response_ms.p99", &groups, &names), Ok(()));
        assert_eq!(check("loads.polling.unanswered_pct", &groups, &names), Ok(()));
        assert!(check("loads.polling.response_ms", &groups, &names).is_err());
        assert!(check("loads.polling.slip_ms.p98", &groups, &names).is_err());
        // What failed: figures of workloads that do not exist were accepted, and never found.
        let near = check("loads.poling.unanswered_pct", &groups, &names).unwrap_err();
        assert_eq!(near, "did you mean `loads.polling.unanswered_pct`?");
        let size = check("exchanges.coap.sizes.2501.time_ms", &groups, &names).unwrap_err();
        assert_eq!(size, "`coap` has the sizes 2500");
        let none = check("probes.p.cores.0.busy.p99", &groups, &names).unwrap_err();
        assert_eq!(none, "no workload is `probe`");
    }
}
