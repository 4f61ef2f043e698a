//! When nodes were off: a power failure is a fault that kills all programs of a node, and a machine is off
//! while it does not run. A node is not idle then, and neither is a paused one.

use crate::bed::faults::InjectedFault;
use crate::bed::jobs::{Job, Role};
use crate::results::Results;
use experiment::PlannedFaultKind as Kind;
use units::{Instant, Span};

/// Times in which a node was off or paused: disjoint, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct OffTimes(Vec<(Instant, Instant)>);

impl OffTimes {
    /// Those of a node of a run, up to the end of the measurement.
    pub fn of_node(results: &Results<'_>, node: usize) -> Self {
        let Some((from, to)) = measured(results) else { return Self::default() };
        let name = &results.plan.nodes[node].name;
        let faults = results.injected.iter().filter(|fault| fault.node == *name);
        let own = |job: &&Job| job.node == node && job.role == Role::Node && job.is_machine;
        Self::of(faults, results.jobs.iter().filter(own), from, to)
    }

    /// Those between `from` and `to`. `machine`: the runs of the node's machine, if it is one.
    fn of<'r>(
        faults: impl Iterator<Item = &'r InjectedFault>,
        machine: impl Iterator<Item = &'r Job>,
        from: Instant,
        to: Instant,
    ) -> Self {
        let runs: Vec<(Instant, Instant)> =
            machine.filter_map(|job| Some((job.started?, job.ended.unwrap_or(to)))).collect();
        let is_machine = !runs.is_empty();
        let mut off = if is_machine { gaps(runs, from, to) } else { Vec::new() };
        let (mut killed, mut paused) = (None, None);
        for InjectedFault { at, what, .. } in faults {
            let over = match what {
                Kind::Pause => {
                    paused.get_or_insert(*at);
                    continue;
                }
                Kind::Kill => {
                    // The runs of a machine say when it is on.
                    if !is_machine {
                        killed.get_or_insert(*at);
                    }
                    paused.take()
                }
                Kind::Resume => paused.take(),
                // A machine that has to end continues for that. Other programs of a node stay paused.
                Kind::Stop | Kind::Restart if is_machine => paused.take(),
                Kind::Start | Kind::Restart => killed.take(),
                Kind::Stop => continue,
            };
            off.extend(over.map(|begin| (begin, *at)));
        }
        off.extend([killed, paused].into_iter().flatten().map(|begin| (begin, to)));
        Self::joined(off, from, to)
    }

    /// Times of any order as disjoint ones between `from` and `to`.
    fn joined(mut times: Vec<(Instant, Instant)>, from: Instant, to: Instant) -> Self {
        times.sort_unstable();
        let mut all: Vec<(Instant, Instant)> = Vec::new();
        for (begin, end) in times {
            let (begin, end) = (begin.max(from), end.min(to));
            match all.last_mut() {
                _ if begin >= end => {}
                Some((_, last)) if *last >= begin => *last = end.max(*last),
                _ => all.push((begin, end)),
            }
        }
        Self(all)
    }

    /// Time off between `from` and `to`.
    pub fn within(&self, from: Instant, to: Instant) -> Span {
        let each = self.0.iter().map(|(begin, end)| (*begin.max(&from), *end.min(&to)));
        each.filter(|(begin, end)| begin < end).map(|(begin, end)| end - begin).sum()
    }

    /// All of it.
    pub fn total(&self) -> Span {
        self.within(Instant::START, Instant::NEVER)
    }
}

/// Start and end of the time over which energy is computed.
pub(crate) fn measured(results: &Results<'_>) -> Option<(Instant, Instant)> {
    let at = |phase: &str| results.phases.iter().find(|(name, _)| *name == phase);
    Some((at("load")?.1, at("stop")?.1))
}

/// Times between `from` and `to` in which none of these runs was.
fn gaps(mut runs: Vec<(Instant, Instant)>, from: Instant, to: Instant) -> Vec<(Instant, Instant)> {
    runs.sort_unstable();
    let mut all = Vec::new();
    let mut on_until = from;
    for (begin, end) in runs {
        all.push((on_until, begin));
        on_until = on_until.max(end);
    }
    all.push((on_until, to));
    // A run that began before the last one had ended leaves none.
    all.retain(|(begin, end)| begin < end);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::fake::{job, second};

    fn fault(at: u64, what: Kind) -> InjectedFault {
        InjectedFault { at: second(at), what, node: "n-0".to_owned() }
    }

    /// Seconds off between 100 and 200 s.
    fn off(faults: &[(u64, Kind)], machine: &[(u64, Option<u64>)]) -> f64 {
        let faults: Vec<_> = faults.iter().map(|(at, what)| fault(*at, *what)).collect();
        let runs = machine.iter().map(|(started, ended)| Job {
            started: Some(second(*started)),
            ended: ended.map(second),
            ..job(0, Role::Node)
        });
        let runs: Vec<_> = runs.collect();
        OffTimes::of(faults.iter(), runs.iter(), second(100), second(200)).total().as_s()
    }

    #[test]
    fn a_node_is_off_from_a_kill_to_its_start() {
        use Kind::{Kill, Pause, Restart, Resume, Start, Stop};
        assert_eq!(off(&[], &[]), 0.0);
        assert_eq!(off(&[(110, Kill), (115, Start)], &[]), 5.0);
        assert_eq!(off(&[(110, Kill), (112, Kill), (115, Restart), (190, Kill)], &[]), 15.0);
        // Only its own program ends, or starts again: the node is on.
        assert_eq!(off(&[(110, Stop), (120, Start), (130, Restart)], &[]), 0.0);
        assert_eq!(off(&[(120, Pause), (150, Resume)], &[]), 30.0);
        // Paused, then killed; what was paused stays so when the program starts again.
        assert_eq!(off(&[(120, Pause), (130, Kill), (140, Start)], &[]), 20.0);
        assert_eq!(off(&[(120, Pause), (130, Start)], &[]), 80.0);
        // Before and after the measurement.
        assert_eq!(off(&[(90, Pause), (110, Resume), (195, Kill), (300, Start)], &[]), 15.0);
    }

    #[test]
    fn a_machine_is_off_while_it_does_not_run() {
        use Kind::{Kill, Pause, Resume, Start, Stop};
        assert_eq!(off(&[], &[(50, None)]), 0.0);
        // It takes 3 s to end after the stop.
        let runs = [(50, Some(123)), (140, None)];
        assert_eq!(off(&[(120, Stop), (140, Start)], &runs), 17.0);
        // It was switched off within, and never started again.
        assert_eq!(off(&[], &[(50, Some(180))]), 20.0);
        // The pause ends with the kill, and overlaps no time off.
        let runs = [(50, Some(130)), (150, None)];
        assert_eq!(off(&[(120, Pause), (130, Kill), (150, Start)], &runs), 30.0);
        assert_eq!(off(&[(160, Pause), (170, Resume)], &runs), 30.0);
    }

    #[test]
    fn the_time_off_of_a_second_is_its_share() {
        let times =
            OffTimes(vec![(second(10), second(12)), (second(12) + Span::from_ms(500), second(20))]);
        let of = |at| times.within(second(at), second(at + 1)).as_s();
        assert_eq!([9, 10, 12, 19, 20].map(of), [0.0, 1.0, 0.5, 1.0, 0.0]);
    }
}
