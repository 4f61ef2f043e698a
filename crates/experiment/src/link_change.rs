//! Changes of a running link, with the file's keys, checks and errors.

use crate::file::Impairment;
use crate::plan::PlannedChannel;
use crate::problem::{Errors, Problem};
use crate::read::{Read, Sink};
use crate::resolve::{ChannelWait, changed_keys, check_change};
use crate::source::Source;
use crate::tree::{self, Content, Node};
use medium::{Direction, Overlay};
use serde_json::{Map, Value};
use std::sync::Arc;
use units::Bytes;

/// One direction of a running link.
#[derive(Debug, Clone, Copy)]
pub struct RunningLink<'a> {
    /// How the links of its network share it.
    pub channel: &'a PlannedChannel,
    /// MTU of its network.
    pub mtu: Bytes,
    /// Direction.
    pub way: Direction,
    /// Its configured impairments.
    pub configured: &'a medium::Impairment,
}

/// Resolves changes such as `loss=10%`: each is a key of an impairment and its value as text. An
/// empty value removes the key from the link. `links` are all links to change.
///
/// # Errors
/// If a file with these keys would be invalid, or a key contradicts the configured impairments of a
/// link.
pub fn link_change(
    keys: &[(String, String)],
    links: &[RunningLink<'_>],
) -> Result<Overlay, Errors> {
    let mut overlay = read(keys, "")?;
    for link in links {
        overlay = check(keys, link)?;
    }
    Ok(overlay)
}

/// Reads the keys alone.
fn read(keys: &[(String, String)], configured: &str) -> Result<Overlay, Errors> {
    let source = source(keys, configured);
    let fail = |problems| Errors::new(source.clone(), problems);
    let (set, _, mut sink) = parse(&source).map_err(fail)?;
    let Some(set) = set.filter(|_| sink.is_clean()) else { return Err(fail(sink.problems)) };
    let mut overlay = changed_keys(&set, &mut sink);
    if !sink.is_clean() {
        return Err(fail(sink.problems));
    }
    for (key, _) in keys.iter().filter(|(_, value)| value.is_empty()) {
        let key = if key == "outage" { "outages" } else { key };
        overlay.0.insert(key.to_owned(), Value::Null);
    }
    overlay.0.remove("clip");
    Ok(overlay)
}

/// Checks the keys together with the configured impairments of a link.
fn check(keys: &[(String, String)], link: &RunningLink<'_>) -> Result<Overlay, Errors> {
    let configured = typed(link.configured);
    let stays = configured.iter().filter(|(key, _)| !keys.iter().any(|(new, _)| new == *key));
    let stays: String = stays.map(|(key, value)| format!("  {key}: {value}\n")).collect();
    let source = source(keys, &stays);
    let fail = |problems| Errors::new(source.clone(), problems);
    let (set, base, mut sink) = parse(&source).map_err(fail)?;
    let complete = set.unwrap_or_default().after(&base.unwrap_or_default());
    let channel_wait = ChannelWait::of(link.channel, link.way == Direction::Up);
    check_change(&complete, channel_wait, link.mtu, &mut sink);
    if sink.is_clean() {
        return read(keys, "");
    }
    let advice = "`KEY=` removes a key of the link; `thingbed link show` lists the keys that it \
                  has";
    let problems = sink.problems.into_iter().map(|problem| problem.note(advice));
    Err(fail(problems.collect()))
}

/// The text that errors quote: the keys as typed, and the link's current keys.
fn source(keys: &[(String, String)], configured: &str) -> Arc<Source> {
    let mut text = "set:\n".to_owned();
    for (key, value) in keys {
        // A control character would end the line, and no valid value has one.
        let value: String = value.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text += &format!("  {key}: {value}\n");
    }
    if !configured.is_empty() {
        text += &format!("configured now:\n{configured}");
    }
    Arc::new(Source { file: "link set".into(), text })
}

type Parsed = (Option<Impairment>, Option<Impairment>, Sink);

fn parse(source: &Source) -> Result<Parsed, Vec<Problem>> {
    let (tree, problems) = tree::parse(&source.text).map_err(|problem| vec![problem])?;
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut sink = Sink::default();
    let mut part = |name: &str| Impairment::read(child(&tree, name)?, &mut sink);
    let (set, base) = (part("set"), part("configured now"));
    Ok((set, base, sink))
}

fn child<'n>(tree: &'n Node, name: &str) -> Option<&'n Node> {
    let Content::Map(entries) = &tree.content else { return None };
    entries.iter().find(|(key, _)| key.text == name).map(|(_, node)| node)
}

/// Configured impairments of a direction as keys of the file, without defaults.
fn typed(configured: &medium::Impairment) -> Map<String, Value> {
    let complete = |impairment: &medium::Impairment| match serde_json::to_value(impairment) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    };
    let (mut keys, defaults) = (complete(configured), complete(&medium::Impairment::default()));
    keys.retain(|key, value| defaults.get(key) != Some(value));
    // An outage contradicts no other key.
    keys.remove("outages");
    if let Some(trace) = &configured.trace {
        keys.insert("trace".to_owned(), trace.file.display().to_string().into());
    }
    if let medium::Distribution::Table(table) = &configured.distribution {
        let table = serde_json::json!({ "table": table.file });
        keys.insert("distribution".to_owned(), table);
    }
    if let Some(overhead) = keys.get_mut("overhead") {
        *overhead = format!("{overhead} B").into();
    }
    keys.values_mut().for_each(without_nulls);
    // The plan does not keep `clip`. Without it, the file would have been rejected.
    if configured.jitter > configured.delay {
        keys.insert("clip".to_owned(), true.into());
    }
    keys
}

/// Removes null values.
fn without_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, value| !value.is_null());
        map.values_mut().for_each(without_nulls);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use medium::Impairment as Configured;

    fn change(keys: &[&str], configured: &Configured) -> Result<Overlay, String> {
        on(&PlannedChannel::Switch, keys, configured)
    }

    fn on(
        channel: &PlannedChannel,
        keys: &[&str],
        configured: &Configured,
    ) -> Result<Overlay, String> {
        let pair = |key: &&str| {
            let (key, value) = key.split_once('=').unwrap();
            (key.to_owned(), value.to_owned())
        };
        let keys: Vec<_> = keys.iter().map(pair).collect();
        let link = RunningLink { channel, mtu: Bytes::new(1500), way: Direction::Up, configured };
        link_change(&keys, &[link]).map_err(|errors| errors.to_string())
    }

    fn bursts() -> Configured {
        let model = serde_json::json!({"p": "5 %", "r": "30 %", "1-h": "100 %", "1-k": "0 %"});
        Configured {
            gilbert_elliott: serde_json::from_value(model).unwrap(),
            ..Configured::default()
        }
    }

    #[test]
    fn keys_and_values_are_those_of_the_file() {
        let slow = Configured { delay: "30 ms".parse().unwrap(), ..Configured::default() };
        let new = change(&["loss=10%", "jitter=5 ms", "queue=7", "rate=1 Mbit/s"], &slow).unwrap();
        let set = new.on(&slow).unwrap();
        assert_eq!((set.loss, set.jitter), ("10 %".parse().unwrap(), "5 ms".parse().unwrap()));
        assert_eq!((set.delay, set.queue), (slow.delay, medium::Limit::Frames(7)));
        let bursts = change(&["gilbert_elliott={p: 1 %, r: 10 %}"], &slow).unwrap();
        assert!(bursts.on(&slow).unwrap().gilbert_elliott.is_some());
        let outage = change(&["outage={at: 1 s, lasts: 2 s}"], &slow).unwrap();
        assert_eq!(outage.on(&slow).unwrap().outages.len(), 1);
    }

    #[test]
    fn a_key_without_a_value_is_taken_off() {
        let configured = Configured {
            rate: Some("1 Mbit/s".parse().unwrap()),
            queue: medium::Limit::Frames(5),
            ..bursts()
        };
        let new = change(&["gilbert_elliott="], &configured).unwrap();
        assert_eq!(new.on(&configured).unwrap().mean_loss(), 0.0);
        let message = change(&["rate="], &configured).unwrap_err();
        assert!(message.contains("`queue` without a `rate` has no effect"), "{message}");
        let set = change(&["rate=", "queue="], &configured).unwrap().on(&configured).unwrap();
        assert_eq!(set, bursts());
    }

    #[test]
    fn what_a_file_would_be_refused_for_is_refused() {
        let none = Configured::default();
        for (keys, words) in [
            (&["los=10%"][..], &["unknown key `los`", "did you mean `loss`?"][..]),
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
        let all = change(&["loss=100%"], &bursts()).unwrap().on(&bursts()).unwrap();
        assert_eq!((all.gilbert_elliott, all.mean_loss()), (None, 1.0));
        let trains = change(&["loss=5%", "loss_unit=train"], &bursts()).unwrap();
        let trains = trains.on(&bursts()).unwrap();
        let back = change(&["gilbert_elliott={p: 5 %, r: 30 %}"], &trains).unwrap();
        assert_eq!(back.on(&trains).unwrap(), bursts());
        let both = ["loss=5%", "markov={p13: 1 %}"];
        assert!(change(&both, &bursts()).unwrap_err().contains("only one loss model"));
    }

    #[test]
    fn what_contradicts_the_link_is_refused_and_shown() {
        let slow = Configured { delay: "30 ms".parse().unwrap(), ..Configured::default() };
        assert!(change(&["jitter=40ms"], &slow).unwrap_err().contains("above the delay of 30 ms"));
        assert!(change(&["jitter=40ms", "clip=true"], &slow).is_ok());
        let rated = Configured { rate: Some("1 Mbit/s".parse().unwrap()), ..slow.clone() };
        let message = change(&["queue=1000 B"], &rated).unwrap_err();
        assert!(message.contains("a frame of 1514 B does not fit"), "{message}");
        let radio = PlannedChannel::Csma(medium::CsmaSpec::default());
        let message = on(&radio, &["rate=1 Mbit/s"], &slow).unwrap_err();
        assert!(message.contains("shared channel"), "{message}");
        assert!(on(&radio, &["loss=10%", "queue=10"], &slow).is_ok());
    }

    /// Every valid configuration is read back unchanged.
    #[test]
    fn every_configuration_can_be_changed() {
        let complete = serde_json::json!({
            "delay": "30 ms", "jitter": "45 ms", "correlation": "25 %", "distribution": "pareto",
            "keep_order": true, "loss": "3 %", "loss_correlation": "25 %", "loss_unit": "train",
            "corrupt": "1 %", "corrupt_correlation": "2 %", "duplicate": "1 %",
            "duplicate_correlation": "2 %", "reorder": "5 %", "reorder_correlation": "50 %",
            "gap": 5, "rate": "1 Mbit/s", "burst": "1600 B", "overhead": -14,
            "cell": {"size": "48 B", "overhead": "5 B"}, "queue": "9 kB",
            "codel": {"target": "5 ms", "interval": "100 ms"},
            "slot": {"min": "1 ms", "max": "2 ms", "packets": 5, "bytes": "1500 B"},
            "outages": [{"at": "1 s", "lasts": "1 s"}]
        });
        let grant = serde_json::json!({"grant": {"tti": "20 ms", "transport_block": "148 B"},
            "queue": 50, "markov": {"p13": "1 %", "p31": "99 %", "p32": "0 %", "p23": "100 %",
            "p14": "0 %"}});
        for configured in [complete, grant] {
            let configured: Configured = serde_json::from_value(configured).unwrap();
            let new = change(&["duplicate=20%"], &configured).unwrap_or_else(|e| panic!("{e}"));
            let expected = Configured { duplicate: "20 %".parse().unwrap(), ..configured.clone() };
            assert_eq!(new.on(&configured).unwrap(), expected);
        }
    }
}
