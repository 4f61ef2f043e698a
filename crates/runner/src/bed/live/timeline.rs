//! The timeline of a running lab: faults and changes of links, done and planned.

use super::inventory::Inventory;
use super::{ManualChange, Occurrence, Request};
use crate::bed::environment::LEAD;
use crate::bed::faults::{Faults, InjectedFault};
use crate::bed::{Bed, some};
use experiment::{PlannedChangeKind, PlannedFault};
use link::Direction;
use units::{Instant, Span};

/// Maximum number of entries: the last ones that happened, and the next ones.
const MOST: usize = 500;
/// Faults of one kind within this time are one entry: a fault of a group hits all its nodes.
const TOGETHER_S: f64 = 0.1;

impl Bed<'_> {
    /// Faults and changes, in the order of their times.
    pub(super) fn timeline(&self, inventory: &Inventory, faults: &Faults) -> Vec<Occurrence> {
        let since = |at: Instant| at.seconds_from(self.since);
        let now = since(clock::now());
        let begun = self.begun;
        let by_hand = self.control.as_ref().map(|(socket, _)| socket.made()).unwrap_or_default();
        let by_hand = by_hand.iter().map(|made: &ManualChange| Occurrence {
            at_s: Some(since(made.at)),
            what: format!("{} by hand", text(&made.request)),
            planned: false,
        });
        let pending = faults.pending().map(|fault: PlannedFault| Occurrence {
            // Faults count from offset 0, LEAD after the impairments begin; timetables do not.
            at_s: begun.map(|begun| since(begun + LEAD + fault.at)),
            what: format!("{} {}", fault.what, some(&fault.nodes)),
            planned: true,
        });
        let changes = inventory.plan.networks.iter().flat_map(|network| {
            network.timetable.iter().map(|change| {
                let at_s = begun.map(|begun| since(begun + change.at));
                let what = format!("{}: {}", network.name, change_text(&change.what));
                Occurrence { at_s, what, planned: at_s.is_none_or(|at| at > now) }
            })
        });
        let mut all: Vec<Occurrence> = by_hand.chain(pending).chain(changes).collect();
        all.extend(injected(&faults.made, since));
        // Faults have no time before the start signal; they are the last then.
        let key = |one: &Occurrence| one.at_s.unwrap_or(f64::INFINITY);
        all.sort_by(|a, b| key(a).total_cmp(&key(b)));
        around(all)
    }
}

/// Faults that were injected; those of one kind at one time as one entry.
fn injected(made: &[InjectedFault], since: impl Fn(Instant) -> f64) -> Vec<Occurrence> {
    let mut groups: Vec<(f64, &InjectedFault, Vec<String>)> = Vec::new();
    for fault in made {
        let at = since(fault.at);
        match groups.last_mut() {
            // Compared with the first one: a chain of close faults must not become one entry.
            Some((first, one, nodes)) if one.what == fault.what && at - *first < TOGETHER_S => {
                nodes.push(fault.node.clone());
            }
            _ => groups.push((at, fault, vec![fault.node.clone()])),
        }
    }
    let entry = |(at, fault, nodes): (f64, &InjectedFault, Vec<String>)| Occurrence {
        at_s: Some(at),
        what: format!("{} {}", fault.what, some(&nodes)),
        planned: false,
    };
    groups.into_iter().map(entry).collect()
}

/// The entries around now, if there are too many.
fn around(mut all: Vec<Occurrence>) -> Vec<Occurrence> {
    let first_planned = all.iter().position(|one| one.planned).unwrap_or(all.len());
    // Planned entries follow all others: they have later times, or none yet.
    all.truncate(first_planned + MOST / 2);
    let excess = all.len().saturating_sub(MOST);
    all.drain(..excess.min(first_planned));
    all
}

/// A change by hand, in words.
fn text(request: &Request) -> String {
    let pairs = |set: &[(String, String)]| {
        let words = set.iter().map(|(key, value)| match value.is_empty() {
            true => format!("no {key}"),
            false => format!("{key} {value}"),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let ends = |links: &super::Links| {
        let network = links.network.as_ref().map_or(String::new(), |name| format!("{name}: "));
        format!("{network}{}{}", some(&links.nodes), way(links.way.as_slice()))
    };
    match request {
        Request::Set { links, set, over } => {
            format!("{}: {}{}", ends(links), pairs(set), over_text(*over))
        }
        Request::Down { links, down: true } => format!("{} down", ends(links)),
        Request::Down { links, .. } => format!("{} up again", ends(links)),
        Request::Change { nodes, set } => format!("{}: {}", some(nodes), pairs(set)),
        Request::Destroy { nodes } => format!("destroy {}", some(nodes)),
        _ => "change".to_owned(),
    }
}

/// A planned change, in words.
fn change_text(change: &PlannedChangeKind) -> String {
    match change {
        PlannedChangeKind::Set { nodes, ways, set, over } => {
            let set = link::Impairment::change_text(set);
            format!("{}{}: {set}{}", some(nodes), way(ways), over_text(*over))
        }
        PlannedChangeKind::Down { nodes, down: true } => format!("{} down", some(nodes)),
        PlannedChangeKind::Down { nodes, .. } => format!("{} up again", some(nodes)),
        PlannedChangeKind::Multicast { passes: true } => "multicast restored".to_owned(),
        PlannedChangeKind::Multicast { .. } => "multicast off".to_owned(),
        PlannedChangeKind::Partition { parts } if parts.is_empty() => "partition ends".to_owned(),
        PlannedChangeKind::Partition { parts } => {
            let parts: Vec<_> = parts.iter().map(|part| some(part)).collect();
            format!("partition: {}", parts.join(" | "))
        }
    }
}

fn way(ways: &[Direction]) -> &'static str {
    match ways {
        [Direction::Up] => " uplink",
        [Direction::Down] => " downlink",
        _ => "",
    }
}

fn over_text(over: Span) -> String {
    if over == Span::ZERO { String::new() } else { format!(", over {over}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::live::Links;
    use experiment::PlannedFaultKind;

    #[test]
    fn a_fault_of_a_group_is_one_entry() {
        let fault = |ns, node: &str, what| InjectedFault {
            at: Instant::from_ns(ns),
            what,
            node: node.to_owned(),
        };
        let (kill, start) = (PlannedFaultKind::Kill, PlannedFaultKind::Start);
        let made = [
            fault(1_000_000_000, "a", kill),
            fault(1_000_100_000, "b", kill),
            fault(1_000_200_000, "a", start),
            fault(2_000_000_000, "a", start),
        ];
        let all = injected(&made, |at| at.seconds_from(Instant::START));
        let what: Vec<_> = all.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(what, ["kill a, b", "start a", "start a"]);
    }

    #[test]
    fn the_entries_around_now_remain() {
        let entry =
            |n: usize| Occurrence { at_s: Some(n as f64), what: n.to_string(), planned: n >= 2000 };
        let all = around((0..4000).map(entry).collect());
        assert_eq!(all.len(), MOST);
        assert!(
            all.iter().any(|one| one.what == "1999") && all.iter().any(|one| one.what == "2000")
        );
        let early = around((2000..4000).map(entry).collect());
        assert_eq!((early.len(), early[0].what.as_str()), (MOST / 2, "2000"));
        let late = around((0..2000).map(entry).collect());
        assert_eq!((late.len(), late[MOST - 1].what.as_str()), (MOST, "1999"));
        assert_eq!(around((0..3).map(entry).collect()).len(), 3);
    }

    #[test]
    fn changes_by_hand_are_described() {
        let links =
            |way| Links { nodes: vec!["a".to_owned()], network: Some("lan".to_owned()), way };
        let set = vec![("delay".to_owned(), "5 ms".to_owned()), ("loss".to_owned(), String::new())];
        let set = Request::Set {
            links: links(Some(Direction::Up)),
            set,
            over: Span::from_ns(10_000_000_000),
        };
        assert_eq!(text(&set), "lan: a uplink: delay 5 ms, no loss, over 10 s");
        assert_eq!(text(&Request::Down { links: links(None), down: true }), "lan: a down");
    }
    use proptest::prelude::*;

    proptest! {
        /// The kept entries are a part of all, without a gap, with as many done and planned ones as fit.
        #[test]
        fn no_entry_between_two_kept_ones_is_missing(done in 0..1_200_usize, planned in 0..1_200_usize) {
            let entry = |n: usize| Occurrence {
                at_s: Some(n as f64),
                what: n.to_string(),
                planned: n >= done,
            };
            let all = around((0..done + planned).map(entry).collect());
            let numbers: Vec<usize> = all.iter().map(|one| one.what.parse().unwrap()).collect();
            prop_assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
            let kept_planned = all.iter().filter(|one| one.planned).count();
            prop_assert_eq!(kept_planned, planned.min(MOST / 2));
            prop_assert_eq!(all.len() - kept_planned, done.min(MOST - kept_planned));
        }
    }

    #[test]
    fn faults_at_one_time_are_grouped_by_kind_and_order() {
        let fault = |at_ms: u64, node: &str, what| InjectedFault {
            at: Instant::START + Span::from_ms(at_ms),
            what,
            node: node.to_owned(),
        };
        let (kill, stop) = (PlannedFaultKind::Kill, PlannedFaultKind::Stop);
        let made = [
            fault(0, "a", kill),
            fault(99, "b", kill),
            fault(101, "c", kill),
            fault(101, "d", stop),
            fault(101, "e", kill),
        ];
        let all = injected(&made, |at| at.seconds_from(Instant::START));
        let found: Vec<_> = all.iter().map(|one| (one.at_s.unwrap(), one.what.as_str())).collect();
        let expected =
            [(0.0, "kill a, b"), (0.101, "kill c"), (0.101, "stop d"), (0.101, "kill e")];
        assert_eq!(found, expected);
        assert!(injected(&[], |_| 0.0).is_empty());
    }

    #[test]
    fn planned_changes_are_described() {
        let nodes = vec!["a".to_owned(), "b".to_owned()];
        let parts = vec![nodes.clone(), vec!["c".to_owned()]];
        for (change, text) in [
            (PlannedChangeKind::Down { nodes: nodes.clone(), down: true }, "a, b down"),
            (PlannedChangeKind::Down { nodes, down: false }, "a, b up again"),
            (PlannedChangeKind::Multicast { passes: true }, "multicast restored"),
            (PlannedChangeKind::Multicast { passes: false }, "multicast off"),
            (PlannedChangeKind::Partition { parts }, "partition: a, b | c"),
            (PlannedChangeKind::Partition { parts: Vec::new() }, "partition ends"),
        ] {
            assert_eq!(change_text(&change), text);
        }
    }
}
