//! Checks of experiment files: where errors point and which fix they name, ranges of numbers in the
//! checks and in the schema, and combinations of keys.

mod combinations;
mod errors;
mod limits;
mod subnets;
mod workloads;

use std::collections::BTreeSet;

/// Two nodes on a network.
const PAIR: &str = "experiment: e
nodes: {a: {}, b: {}}
networks: {n: {attach: [a, b], subnet: 10.0.0.0/24}}
duration: 1 s
";

/// [`PAIR`] with the lines of `text`, which replace those of the same key.
pub fn file(text: &str) -> String {
    let key = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let own: BTreeSet<String> = text.lines().map(key).collect();
    let kept = PAIR.lines().filter(|line| !own.contains(&key(line)));
    kept.chain(text.lines()).map(|line| format!("{line}\n")).collect()
}
