//! CPU wait time of nodes' programs: time lost to other programs, without the time that a
//! configured limit causes.

use experiment::Plan;
use lab::Scheduled;
use measure::Usage;
use units::Span;

/// Minimum share of all CPU time for which wait times must be known.
const COVERED: f64 = 0.9;

/// Scheduler statistics of one node.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Waits {
    /// CPU time of its programs before the measurement.
    pub before: Span,
    /// CPU time since then of the programs that lived at the end.
    pub run: Span,
    /// Their wait time for a CPU since then, without throttling by limits.
    pub wait: Span,
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
            let kept = usage.totals.get(node).map_or(Span::ZERO, |total| total.throttled);
            Self {
                before: before.run,
                // Differences saturate: programs that ended are in the first reading only.
                run: after.run - before.run,
                wait: after.wait - before.wait - kept,
            }
        })
        .collect()
    }

    /// Total wait time per message, in ms, for `messages`. `None` without messages, and if the wait
    /// times do not cover nearly all CPU time: threads that ended meanwhile are missing, and a
    /// kernel may not report any.
    pub(crate) fn per_message_ms(all: &[Self], usage: &Usage, messages: u64) -> Option<f64> {
        let used: Span = usage.totals.iter().map(|total| total.cpu).sum();
        let known: Span = all.iter().map(|node| node.run).sum();
        let waited: Span = all.iter().map(|node| node.wait).sum();
        let complete = known > Span::ZERO && known.as_ns() as f64 >= COVERED * used.as_ns() as f64;
        (messages > 0 && complete).then(|| waited.as_ns() as f64 / messages as f64 / 1e6)
    }

    /// Total wait time in percent of run and wait time; `None` if nothing ran.
    pub(crate) fn share_pct(all: &[Self]) -> Option<f64> {
        let sum = |of: fn(&Self) -> Span| all.iter().map(of).sum::<Span>().as_ns() as f64;
        let (run, wait) = (sum(|node| node.run), sum(|node| node.wait));
        (run > 0.0).then(|| 100.0 * wait / (run + wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_a_share_of_what_programs_wanted() {
        let [before, run, wait] = [9, 300, 100].map(Span::from_ns);
        let one = Waits { before, run, wait };
        assert_eq!(Waits::share_pct(&[one, Waits::default()]), Some(25.0));
        assert_eq!(Waits::share_pct(&[Waits::default()]), None);
        let two = Waits { wait: Span::from_ms(3), ..one };
        let usage = |cpu_ns| {
            let cpu = Span::from_ns(cpu_ns);
            let total = measure::NodeTotal { cpu, throttled: Span::ZERO };
            Usage::from(vec![total])
        };
        let per_message =
            |cpu_ns, messages| Waits::per_message_ms(&[two, two], &usage(cpu_ns), messages);
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
        let ns = Span::from_ns;
        let at = |run, wait| Scheduled { run: ns(run), wait: ns(wait) };
        let before = vec![at(100, 50), at(100, 50), at(100, 50)];
        // The second node's programs ended, so that their times are no longer in the sum.
        let after = [at(300, 150), at(10, 5), at(100, 60)];
        let total = |throttled| measure::NodeTotal { cpu: ns(1), throttled: ns(throttled) };
        let usage = Usage::from(vec![total(70), total(0), total(900)]);
        let found = Waits::between(&plan, before, &after, &usage);
        let of = |before, run, wait| Waits { before: ns(before), run: ns(run), wait: ns(wait) };
        assert_eq!(found, [of(100, 200, 30), of(100, 0, 0), of(100, 0, 0)]);
        // A node that was never measured has no row.
        let fewer = Waits::between(&plan, vec![at(1, 1)], &after, &Usage::from(Vec::new()));
        assert_eq!(fewer, [of(1, 299, 149)]);
    }
}
