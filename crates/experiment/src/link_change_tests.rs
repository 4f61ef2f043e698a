//! Tests of changes of a running link.

use super::*;
use link::{Impairment as Configured, Key, Kind, Loss};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

fn change(keys: &[&str], configured: &Configured) -> Result<Keys, String> {
    on(&link::Channel::Switch, keys, configured)
}

fn on(channel: &link::Channel, keys: &[&str], configured: &Configured) -> Result<Keys, String> {
    let pair = |key: &&str| {
        let (key, value) = key.split_once('=').unwrap();
        (key.to_owned(), value.to_owned())
    };
    let keys: Vec<_> = keys.iter().map(pair).collect();
    let link = RunningLink { channel, mtu: Bytes::new(1500), way: Direction::Up, configured };
    link_change(&keys, &[link]).map_err(|errors| errors.to_string())
}

fn configured(keys: Value) -> Configured {
    serde_json::from_value(keys).unwrap()
}

fn bursts() -> Configured {
    configured(json!({"gilbert_elliott": {"p": "5 %", "r": "30 %"}}))
}

#[test]
fn keys_and_values_are_those_of_the_file() {
    let slow = configured(json!({"delay": "30 ms"}));
    let new = change(&["loss=10%", "jitter=5 ms", "queue=7", "rate=1 Mbit/s"], &slow).unwrap();
    let set = slow.with(&new).unwrap();
    assert_eq!((set.mean_loss(), set.delay.jitter), (0.1, "5 ms".parse().unwrap()));
    assert_eq!(set.delay.mean, slow.delay.mean);
    assert_eq!(set.queue.limit, link::Limit::Frames(7));
    let bursts = change(&["gilbert_elliott={p: 1 %, r: 10 %}"], &slow).unwrap();
    assert!(matches!(slow.with(&bursts).unwrap().loss, Loss::GilbertElliott(_)));
    let outage = change(&["outage={at: 1 s, lasts: 2 s}"], &slow).unwrap();
    assert_eq!(slow.with(&outage).unwrap().outage.0.len(), 1);
}

#[test]
fn a_key_without_a_value_is_taken_off() {
    let more = json!({"rate": "1 Mbit/s", "queue": 5});
    let configured = bursts().with(&serde_json::from_value(more).unwrap()).unwrap();
    let new = change(&["gilbert_elliott="], &configured).unwrap();
    assert_eq!(configured.with(&new).unwrap().mean_loss(), 0.0);
    let message = change(&["rate="], &configured).unwrap_err();
    assert!(message.contains("`queue` without a `rate` has no effect"), "{message}");
    let removed = change(&["rate=", "queue="], &configured).unwrap();
    let set = configured.with(&removed).unwrap();
    assert_eq!(set, bursts());
}

#[test]
fn what_a_file_would_be_refused_for_is_refused() {
    let none = Configured::default();
    for (keys, words) in [
        (&["cpu=200 MHz"][..], &["thingbed set NODE cpu="][..]),
        (&["los=10%"], &["unknown key `los`", "did you mean `loss`?"]),
        (&["lost="], &["unknown key `lost`"]),
        (&["delay=80"], &["link set:2:10", "80 ms"]),
        (&["loss=110%"], &["100 %"]),
        (&["jitter=5ms"], &["a jitter of 5 ms above the delay of 0 ms", "`KEY=` removes"]),
        (&["queue=10"], &["`queue` without a `rate` has no effect"]),
        (&["codel={}"], &["`codel` without a `rate`"]),
        (&["trace=up.trace"], &["cannot change during a run"]),
        (&["distribution={table: a.dist}", "jitter=0ms"], &["cannot change during a run"]),
        (&["delay=1 ms\nloss: 5 %"], &["error"]),
        (&["delay=[1"], &["error"]),
    ] {
        let message = change(keys, &none).unwrap_err();
        for word in words {
            assert!(message.contains(word), "no `{word}` for {keys:?}:\n{message}");
        }
    }
}

#[test]
fn a_model_of_loss_takes_the_place_of_another() {
    let all = bursts().with(&change(&["loss=100%"], &bursts()).unwrap()).unwrap();
    assert_eq!(all.loss, "100 %".parse::<units::Ratio>().unwrap().into());
    let trains = change(&["loss=5%", "loss_unit=train"], &bursts()).unwrap();
    let trains = bursts().with(&trains).unwrap();
    let back = change(&["gilbert_elliott={p: 5 %, r: 30 %}"], &trains).unwrap();
    assert_eq!(trains.with(&back).unwrap(), bursts());
    let both = ["loss=5%", "markov={p13: 1 %}"];
    assert!(change(&both, &bursts()).unwrap_err().contains("only one loss model"));
}

#[test]
fn what_contradicts_the_link_is_refused_and_shown() {
    let slow = configured(json!({"delay": "30 ms"}));
    assert!(change(&["jitter=40ms"], &slow).unwrap_err().contains("above the delay of 30 ms"));
    assert!(change(&["jitter=40ms", "clip=true"], &slow).is_ok());
    let rated = configured(json!({"delay": "30 ms", "rate": "1 Mbit/s"}));
    let message = change(&["queue=1000 B"], &rated).unwrap_err();
    assert!(message.contains("a frame of 1514 B does not fit"), "{message}");
    let radio = link::Channel::Csma(link::CsmaSpec::default());
    let message = on(&radio, &["rate=1 Mbit/s"], &slow).unwrap_err();
    assert!(message.contains("shared channel"), "{message}");
    assert!(on(&radio, &["loss=10%", "queue=10"], &slow).is_ok());
}

/// Every valid configuration is read back unchanged.
#[test]
fn every_configuration_can_be_changed() {
    let complete = json!({
        "delay": "30 ms", "jitter": "45 ms", "correlation": "25 %", "distribution": "pareto",
        "keep_order": true, "loss": "3 %", "loss_correlation": "25 %", "loss_unit": "train",
        "corrupt": "1 %", "corrupt_correlation": "2 %", "duplicate": "1 %",
        "duplicate_correlation": "2 %", "reorder": "5 %", "reorder_correlation": "50 %",
        "gap": 5, "rate": "1 Mbit/s", "burst": "1600 B", "overhead": "-14 B",
        "cell": {"size": "48 B", "overhead": "5 B"}, "queue": "9 kB",
        "codel": {"target": "5 ms", "interval": "100 ms"},
        "slot": {"min": "1 ms", "max": "2 ms", "packets": 5, "bytes": "1500 B"},
        "handover": {"every": "15 s", "spread": "30 ms", "pause": "0.1 s"},
        "outage": [{"at": "1 s", "lasts": "1 s"}]
    });
    let grant = json!({"grant": {"tti": "20 ms", "transport_block": "148 B"},
        "queue": 50, "markov": {"p13": "1 %", "p31": "99 %", "p32": "0 %", "p23": "100 %",
        "p14": "0 %"}});
    for configured in [complete, grant] {
        let configured: Configured = serde_json::from_value(configured).unwrap();
        let new = change(&["duplicate=20%"], &configured).unwrap_or_else(|e| panic!("{e}"));
        let mut expected = configured.clone();
        expected.duplicate.share = "20 %".parse().unwrap();
        assert_eq!(configured.with(&new).unwrap(), expected);
    }
}

/// A valid value of a key that is not its default.
fn sample(key: &Key, trace: &str) -> String {
    match &key.kind {
        Kind::Flag => "true".to_owned(),
        Kind::Count { .. } => "2".to_owned(),
        Kind::Share => "5 %".to_owned(),
        Kind::Time => "5 ms".to_owned(),
        Kind::Size if key.name == "max" => "900 B".to_owned(),
        Kind::Size => "100 B".to_owned(),
        Kind::SignedSize => "-4 B".to_owned(),
        Kind::Rate => "1 Mbit/s".to_owned(),
        Kind::Limit => "7".to_owned(),
        Kind::File => trace.to_owned(),
        Kind::Word(_, words) => (*words.last().unwrap()).to_owned(),
        Kind::WordOr(words, _) => words.last().unwrap().0.to_owned(),
        Kind::OneOrMore(_) => "{at: 1 s, lasts: 2 s}".to_owned(),
        Kind::Map(model) if model.name == "Handover" => "{every: 5 s, pause: 5 ms}".to_owned(),
        Kind::Map(model) if model.name == "CellularTrace" => {
            format!("{{light: {0}.light, heavy: {0}}}", trace)
        }
        Kind::Map(model) => {
            let required = model.keys.iter().filter(|key| key.is_required);
            let keys = required.map(|key| format!("{}: {}", key.name, sample(key, trace)));
            format!("{{{}}}", keys.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Keys of a link and their values, as text.
type Texts = BTreeMap<&'static str, String>;

fn messages(errors: &Errors) -> BTreeSet<String> {
    errors.problems().iter().map(|problem| problem.message().to_owned()).collect()
}

/// The settings of a link in a file with these keys, or the problems of the file.
fn by_file(keys: &Texts) -> Result<Configured, BTreeSet<String>> {
    let keys: String =
        keys.iter().map(|(key, value)| format!("        {key}: {value}\n")).collect();
    let text = format!(
        "experiment: e\nnodes: {{a: {{}}, b: {{}}}}\nduration: 1 s\nworkloads: [{{command: {{on: a, \
         run: [\"true\"]}}}}]\nnetworks:\n  net:\n    attach: [a, b]\n    subnet: 10.0.0.0/24\n    \
         links:\n      a:\n       up:\n{keys}"
    );
    let experiment = crate::Experiment::parse(&text, "e.yaml", "").map_err(|e| messages(&e))?;
    let cell = &experiment.cells(&crate::Only::all()).unwrap()[0];
    Ok(experiment.plan(cell, 0, 1).unwrap().nodes[0].links[0].up.clone())
}

/// A key that is set on a link with any other key is accepted, refused and applied as in a file with
/// both.
#[test]
fn a_live_change_of_any_key_obeys_the_rules_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("up.trace");
    std::fs::write(&trace, "1\n5\n").unwrap();
    std::fs::write(folder.path().join("up.trace.light"), "0 20 0\n100 30 0\n").unwrap();
    let trace = trace.display().to_string();
    let all: Texts = Configured::all_keys().map(|key| (key.name, sample(key, &trace))).collect();
    let together = ["delay", "jitter", "loss", "corrupt", "duplicate", "reorder", "rate"];
    let together: Texts = together.iter().map(|key| (*key, all[key].clone())).collect();
    let (mut accepted, mut refused) = (0, 0);
    for base in [Texts::new(), together] {
        for (key, value) in &all {
            let mut link = base.clone();
            link.insert(key, value.clone());
            let Ok(configured) = by_file(&link) else { continue };
            let is_new = |new: &str| new != *key && !["trace", "cellular_trace"].contains(&new);
            for (new, value) in all.iter().filter(|(new, _)| is_new(new)) {
                let changed = serde_json::from_value(json!({ *new: value })).unwrap();
                let replaced = Configured::replaced(&changed);
                let mut both = link.clone();
                both.retain(|key, _| !replaced.contains(key));
                both.insert(new, value.clone());
                let running = RunningLink {
                    channel: &link::Channel::Switch,
                    mtu: Bytes::new(1500),
                    way: Direction::Up,
                    configured: &configured,
                };
                let live = link_change(&[((*new).to_owned(), value.clone())], &[running]);
                let live = live.map_err(|errors| messages(&errors));
                // As keys: a share that follows from another is rounded there.
                let live = live.map(|changes| configured.with(&changes).unwrap().keys());
                let file = by_file(&both).map(|settings| settings.keys());
                assert_eq!(live, file, "{new} on a link with {link:?}");
                *if file.is_ok() { &mut accepted } else { &mut refused } += 1;
            }
        }
    }
    assert!(accepted > 500 && refused > 200, "{accepted} accepted, {refused} refused");
}
