//! Collectors: one for each node whose programs send StatsD or OpenTelemetry metrics or serve Prometheus metrics.

use crate::bed::jobs::{Files, Job, Role};
use crate::bed::own_metrics::metrics;
use crate::collect::{CollectError, events};
use crate::error::Error;
use experiment::{OTLP, Plan, Rule, STATSD, Scrape};
use record::event::{Collected, CollectorSource, lines};
use record::spec::{CollectorSpec, OtlpSpec, PageSpec, Spec, StatsdSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use units::Instant;

/// The collectors of a plan, with their files in `dir`. `program` implements them.
pub(crate) fn jobs(plan: &Plan, program: &Path, dir: &Path) -> Result<Vec<Job>, Error> {
    let mut jobs = Vec::new();
    for (node, planned) in plan.nodes.iter().enumerate() {
        let files = Files::named(dir, &format!("{}.metrics", planned.name));
        let mut spec = CollectorSpec {
            statsd: None,
            otlp: None,
            pages: Vec::new(),
            events: files.events.clone(),
        };
        metrics(plan, node).for_each(|metric| add(&mut spec, &metric.rule));
        if spec.statsd.is_none() && spec.otlp.is_none() && spec.pages.is_empty() {
            continue;
        }
        let text = serde_json::to_vec(&spec).unwrap_or_default();
        fs::write(&files.spec, text).map_err(Error::write(&files.spec))?;
        let argv = [program, Path::new(CollectorSpec::PROGRAM), &files.spec];
        let argv = argv.map(|word| word.display().to_string()).into();
        jobs.push(Job::of(node, &planned.name, None, Role::Collector, argv, dir, files));
    }
    Ok(jobs)
}

/// Adds what a metric needs.
fn add(spec: &mut CollectorSpec, rule: &Rule) {
    match rule {
        Rule::Json(_) | Rule::Match(_) => {}
        Rule::Statsd(name) => {
            let empty = || StatsdSpec { address: STATSD.into(), names: Vec::new() };
            let names = &mut spec.statsd.get_or_insert_with(empty).names;
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Rule::Opentelemetry(text) => {
            let empty = || OtlpSpec { address: OTLP.into(), series: Vec::new() };
            let series = &mut spec.otlp.get_or_insert_with(empty).series;
            if !series.contains(text) {
                series.push(text.clone());
            }
        }
        Rule::Prometheus(scrape) => match place(spec, scrape).map(|place| &mut spec.pages[place]) {
            Some(page) if page.series.contains(&scrape.series) => {}
            Some(page) => page.series.push(scrape.series.clone()),
            None => spec.pages.push(PageSpec {
                port: scrape.port,
                path: scrape.path.clone(),
                every_ns: scrape.every.as_ns(),
                series: vec![scrape.series.clone()],
            }),
        },
    }
}

/// The number of the page that has a series.
fn place(spec: &CollectorSpec, scrape: &Scrape) -> Option<usize> {
    spec.pages.iter().position(|page| {
        (page.port, &page.path, page.every_ns) == (scrape.port, &scrape.path, scrape.every.as_ns())
    })
}

/// What the collectors of a run recorded, by node.
#[derive(Debug, Default)]
pub(crate) struct CollectedValues(BTreeMap<usize, Recorded>);

/// The spec of a collector, and its record, which is read again for each metric: it may be longer
/// than the memory.
#[derive(Debug)]
struct Recorded {
    spec: CollectorSpec,
    node: String,
    events: PathBuf,
    /// Names without a metric.
    unknown: BTreeSet<(CollectorSource, String)>,
    /// Why a page of Prometheus metrics could not be read the first time that this was so, by page.
    unreadable: BTreeMap<u32, String>,
}

/// Most names without a metric that are kept: only some are shown.
const UNKNOWN: usize = 1_000;

impl CollectedValues {
    /// Reads the records. The unfinished line of a killed collector is ignored.
    pub fn read(jobs: &[Job]) -> (Self, Vec<String>) {
        let (mut all, mut failures) = (BTreeMap::new(), Vec::new());
        for job in jobs.iter().filter(|job| job.role == Role::Collector) {
            // A collector that was restarted continued the same file.
            if all.contains_key(&job.node) {
                continue;
            }
            match Recorded::read(&job.name, &job.files) {
                Ok(recorded) => drop(all.insert(job.node, recorded)),
                Err(why) => {
                    let path = job.files.events.display();
                    failures.push(format!("metrics of {}: {path}: {why}", job.name));
                }
            }
        }
        (Self(all), failures)
    }

    /// Passes the values of a metric on a node with their times to `take`. Returns whether its rule is
    /// about a collector, not about output.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn values(
        &self,
        node: usize,
        rule: &Rule,
        take: &mut dyn FnMut(Instant, f64),
    ) -> Result<bool, CollectError> {
        use CollectorSource::{Opentelemetry, Prometheus, Statsd};
        let recorded = self.0.get(&node);
        let (source, name, page) = match rule {
            Rule::Json(_) | Rule::Match(_) => return Ok(false),
            Rule::Statsd(name) => (Statsd, name, None),
            Rule::Prometheus(scrape) => {
                let page = recorded.and_then(|own| place(&own.spec, scrape));
                (Prometheus, &scrape.series, page.map(|page| page as u32))
            }
            Rule::Opentelemetry(text) => (Opentelemetry, text, None),
        };
        let Some(recorded) = recorded else { return Ok(true) };
        for event in events::<Collected>(&recorded.node, &recorded.events)? {
            let event = event?;
            let is_own = event.source == source && event.page == page && event.name == *name;
            if let Some(value) = event.value.filter(|_| is_own) {
                take(Instant::from_ns(event.time_ns), value);
            }
        }
        Ok(true)
    }

    /// Why a page of Prometheus metrics could not be read at least once, if that is so.
    pub fn unreadable(&self, node: usize, scrape: &Scrape) -> Option<&str> {
        let recorded = self.0.get(&node)?;
        let page = place(&recorded.spec, scrape)? as u32;
        recorded.unreadable.get(&page).map(String::as_str)
    }

    /// Names that a node's programs sent and no metric has, to correct a misspelt one.
    pub fn unknown(&self, node: usize, source: CollectorSource) -> impl Iterator<Item = &str> {
        let all = self.0.get(&node).into_iter().flat_map(|own| &own.unknown);
        all.filter(move |(of, _)| *of == source).map(|(_, name)| name.as_str())
    }
}

impl Recorded {
    /// Reads a record once, to know whether it is whole.
    fn read(node: &str, files: &Files) -> Result<Self, String> {
        let text = fs::read(&files.spec).map_err(|error| error.to_string())?;
        let spec = serde_json::from_slice(&text).map_err(|why| why.to_string())?;
        // A collector creates its record first, so that a missing one is an error.
        let file = File::open(&files.events).map_err(|error| error.to_string())?;
        let (mut unknown, mut unreadable) = (BTreeSet::new(), BTreeMap::new());
        for event in lines::<Collected>(file).map_err(|error| error.to_string())? {
            let event = event?;
            match (event.value, event.page) {
                (None, Some(page)) => drop(unreadable.entry(page).or_insert(event.name)),
                (None, None) if unknown.len() < UNKNOWN => {
                    unknown.insert((event.source, event.name));
                }
                _ => {}
            }
        }
        let (node, events) = (node.to_owned(), files.events.clone());
        Ok(Self { spec, node, events, unknown, unreadable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    #[test]
    fn metrics_of_one_page_are_read_with_one_request() {
        let mut spec =
            CollectorSpec { statsd: None, otlp: None, pages: Vec::new(), events: "e".into() };
        let page = |series: &str, every| {
            let (port, path, every) = (80, "/".to_owned(), Span::from_s(every));
            Rule::Prometheus(Scrape { series: series.to_owned(), port, path, every })
        };
        let statsd = |name: &str| Rule::Statsd(name.to_owned());
        let sent = [statsd("x"), statsd("x"), Rule::Opentelemetry("y".to_owned())];
        let pages = [page("a", 1), page("b", 1), page("a", 1), page("a", 2)];
        for rule in pages.into_iter().chain(sent) {
            add(&mut spec, &rule);
        }
        let pages: Vec<_> = spec.pages.iter().map(|page| page.series.join(" ")).collect();
        assert_eq!(pages, ["a b", "a"]);
        assert_eq!(spec.statsd.unwrap().names, ["x"]);
        assert_eq!(spec.otlp.unwrap().series, ["y"]);
    }

    /// The values of a metric; `None` if they are not a collector's.
    fn values(all: &CollectedValues, node: usize, rule: &Rule) -> Option<Vec<(Instant, f64)>> {
        let mut found = Vec::new();
        let is_own = all.values(node, rule, &mut |at, value| found.push((at, value))).unwrap();
        is_own.then_some(found)
    }

    #[test]
    fn pages_of_two_ports_are_told_apart() {
        let scrape = |port| Scrape {
            series: "x".to_owned(),
            port,
            path: "/metrics".to_owned(),
            every: Span::from_s(1),
        };
        let mut spec =
            CollectorSpec { statsd: None, otlp: None, pages: Vec::new(), events: "e".into() };
        [80, 81].into_iter().for_each(|port| add(&mut spec, &Rule::Prometheus(scrape(port))));
        let dir = tempfile::tempdir().unwrap();
        let job = collector(dir.path(), 3);
        fs::write(&job.files.spec, serde_json::to_vec(&spec).unwrap()).unwrap();
        let lines = "0,prometheus,x,5,0\n0,prometheus,x,1000,1\n";
        fs::write(&job.files.events, format!("{HEAD}{lines}")).unwrap();
        let (all, failures) = CollectedValues::read(&[job]);
        assert!(failures.is_empty(), "{failures:?}");
        let found = |port| values(&all, 3, &Rule::Prometheus(scrape(port))).unwrap();
        assert_eq!(
            (found(80), found(81)),
            (vec![(Instant::START, 5.0)], vec![(Instant::START, 1_000.0)])
        );
        assert_eq!(found(82), []);
    }
    fn collector(dir: &Path, node: usize) -> Job {
        let files = Files::named(dir, &format!("n-{node}.metrics"));
        Job::of(node, &format!("n-{node}"), None, Role::Collector, Vec::new(), dir, files)
    }

    const SPEC: &str = r#"{"statsd": null, "otlp": null, "pages": [], "events": "e"}"#;
    const HEAD: &str = "time_ns,source,name,value,page\n";

    #[test]
    fn each_node_has_its_record_once_and_a_damaged_one_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let jobs: Vec<Job> = (0..5).map(|node| collector(dir.path(), node)).collect();
        let write = |node: usize, spec: &str, events: &str| {
            fs::write(&jobs[node].files.spec, spec).unwrap();
            fs::write(&jobs[node].files.events, events).unwrap();
        };
        // Whole, cut by a kill, damaged, with a damaged spec, and without a file.
        write(0, SPEC, &format!("{HEAD}5,statsd,x,1.5,\n6,statsd,x,,\n7,statsd,y,2,\n"));
        write(1, SPEC, &format!("{HEAD}5,statsd,x,1,\n6,statsd,x,2"));
        write(2, SPEC, &format!("{HEAD}5,statsd,x,one,\n"));
        write(3, "{", HEAD);
        let started_again = jobs[0].again();
        let others = Job { role: Role::Node, ..collector(dir.path(), 9) };
        let all: Vec<Job> = jobs.iter().cloned().chain([started_again, others]).collect();
        let (found, failures) = CollectedValues::read(&all);
        let named: Vec<_> = failures.iter().filter_map(|text| text.split(':').next()).collect();
        assert_eq!(named, ["metrics of n-2", "metrics of n-3", "metrics of n-4"]);
        let values_of = |node| values(&found, node, &Rule::Statsd("x".to_owned())).unwrap();
        assert_eq!(
            (values_of(0), values_of(1)),
            (vec![(Instant::from_ns(5), 1.5)], vec![(Instant::from_ns(5), 1.0)])
        );
        assert!((2..6).all(|node| values_of(node).is_empty()));
        assert_eq!(values(&found, 0, &Rule::Json("x".to_owned())), None, "that is in its output");
    }

    /// A misspelt name is reported with those that were sent, of the same source only.
    #[test]
    fn unknown_names_are_those_of_their_source() {
        let dir = tempfile::tempdir().unwrap();
        let job = collector(dir.path(), 0);
        fs::write(&job.files.spec, SPEC).unwrap();
        let events = format!("{HEAD}1,statsd,a,,\n2,opentelemetry,b,,\n3,statsd,c,4,\n");
        fs::write(&job.files.events, events).unwrap();
        let (found, failures) = CollectedValues::read(&[job]);
        assert!(failures.is_empty(), "{failures:?}");
        let unknown = |node, source| found.unknown(node, source).collect::<Vec<_>>();
        assert_eq!(unknown(0, CollectorSource::Statsd), ["a"]);
        assert_eq!(unknown(0, CollectorSource::Opentelemetry), ["b"]);
        assert!(unknown(0, CollectorSource::Prometheus).is_empty());
        assert!(unknown(1, CollectorSource::Statsd).is_empty());
    }
}
