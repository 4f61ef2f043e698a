//! CPU wait time of nodes' programs: time lost to other programs, without the time that a
//! configured limit causes.

use experiment::Plan;
use lab::Scheduled;
use measure::Usage;

/// Minimum share of all CPU time for which wait times must be known.
const COVERED: f64 = 0.9;

/// Scheduler statistics of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Waits {
    /// CPU time of its programs before the measurement, in ns.
    pub before_ns: u64,
    /// CPU time since then of the programs that lived at the end, in ns.
    pub run_ns: u64,
    /// Their wait time for a CPU since then, without throttling by limits, in ns.
    pub wait_ns: u64,
}

impl Waits {
    /// The statistics of each node of `plan`, in its order.
    pub(crate) fn between(
        plan: &Plan,
        before: Vec<Scheduled>,
        after: &[Scheduled],
        usage: &Usage,
    ) -> Vec<Self> {
        let each = (0..plan.nodes.len()).zip(before).zip(after);
        each.map(|((node, before), after)| {
            // A throttled task stays in its run queue and counts as waiting.
            let kept = usage.totals.get(node).map_or(0, |total| total.throttled_ns);
            Self {
                before_ns: before.run_ns,
                run_ns: after.run_ns.saturating_sub(before.run_ns),
                wait_ns: after.wait_ns.saturating_sub(before.wait_ns).saturating_sub(kept),
            }
        })
        .collect()
    }

    /// Total wait time per message, in ms, for `messages`. `None` without messages, and if the wait
    /// times do not cover nearly all CPU time: threads that ended meanwhile are missing, and a
    /// kernel may not report any.
    pub(crate) fn per_message_ms(all: &[Self], usage: &Usage, messages: u64) -> Option<f64> {
        let used: u64 = usage.totals.iter().map(|total| total.cpu_ns).sum();
        let known: u64 = all.iter().map(|node| node.run_ns).sum();
        let waited: u64 = all.iter().map(|node| node.wait_ns).sum();
        let complete = known > 0 && known as f64 >= COVERED * used as f64;
        (messages > 0 && complete).then(|| waited as f64 / messages as f64 / 1e6)
    }

    /// Total wait time in percent of run and wait time; `None` if nothing ran.
    pub(crate) fn share_pct(all: &[Self]) -> Option<f64> {
        let sum = |of: fn(&Self) -> u64| all.iter().map(of).sum::<u64>() as f64;
        let (run, wait) = (sum(|node| node.run_ns), sum(|node| node.wait_ns));
        (run > 0.0).then(|| 100.0 * wait / (run + wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_a_share_of_what_programs_wanted() {
        let one = Waits { before_ns: 9, run_ns: 300, wait_ns: 100 };
        assert_eq!(Waits::share_pct(&[one, Waits::default()]), Some(25.0));
        assert_eq!(Waits::share_pct(&[Waits::default()]), None);
        let two = Waits { wait_ns: 3_000_000, ..one };
        let usage = |user_ns| {
            let total = measure::NodeTotal { cpu_ns: user_ns, throttled_ns: 0 };
            Usage::from(vec![total])
        };
        let per_message =
            |user_ns, messages| Waits::per_message_ms(&[two, two], &usage(user_ns), messages);
        assert_eq!(per_message(620, 4), Some(1.5));
        assert_eq!(per_message(620, 0), None);
        assert_eq!(per_message(700, 4), None, "a seventh of what ran is not known");
        assert_eq!(Waits::per_message_ms(&[Waits::default()], &usage(0), 4), None, "no schedstat");
    }
    #[test]
    fn throttling_is_no_wait_and_counters_that_shrink_are_none() {
        let plan = crate::test_plan::plan(
            "experiment: e
nodes: {a: {count: 3}}
networks: {lan: {attach: [a], subnet: 10.0.0.0/24}}
workloads: [{command: {on: a-1, run: ['true']}}]
duration: 1 s
",
        );
        let at = |run_ns, wait_ns| Scheduled { run_ns, wait_ns };
        let before = vec![at(100, 50), at(100, 50), at(100, 50)];
        // The second node's programs ended, so that their times are no longer in the sum.
        let after = [at(300, 150), at(10, 5), at(100, 60)];
        let total = |throttled_ns| measure::NodeTotal { cpu_ns: 1, throttled_ns };
        let usage = Usage::from(vec![total(70), total(0), total(900)]);
        let found = Waits::between(&plan, before, &after, &usage);
        let of = |run_ns, wait_ns| Waits { before_ns: 100, run_ns, wait_ns };
        assert_eq!(found, [of(200, 30), of(0, 0), of(0, 0)]);
        // A node that was never measured has no row.
        let fewer = Waits::between(&plan, vec![at(1, 1)], &after, &Usage::from(Vec::new()));
        assert_eq!(fewer, [Waits { before_ns: 1, run_ns: 299, wait_ns: 149 }]);
    }
}
