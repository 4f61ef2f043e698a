//! What nodes' programs waited for a CPU: because others had it, and not because a limit
//! that was asked for kept it from them.

use experiment::Plan;
use lab::Scheduled;
use measure::Usage;
use std::collections::HashMap;

/// The share of all CPU time of programs whose waits have to be known.
const COVERED: f64 = 0.9;

/// One node's dealings with the scheduler.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Waits {
    /// CPU time that its programs had before measuring began, in ns.
    pub before_ns: u64,
    /// CPU time that those had since which lived at the end, in ns.
    pub run_ns: u64,
    /// Time that they waited for a CPU since, that of limits left out, in ns.
    pub wait_ns: u64,
}

impl Waits {
    /// Those of each node of `plan`, in its order.
    pub(crate) fn between(
        plan: &Plan,
        before: Vec<Scheduled>,
        after: &[Scheduled],
        usage: &Usage,
    ) -> Vec<Self> {
        let mut throttled: HashMap<&str, u64> = HashMap::new();
        for row in &usage.nodes {
            *throttled.entry(&row.node).or_default() += row.used.throttled_ns;
        }
        let each = plan.nodes.iter().zip(before).zip(after);
        each.map(|((node, before), after)| {
            // A task that a limit stops stays in its queue, and counts as one that waits.
            let kept = throttled.get(node.name.as_str()).copied().unwrap_or(0);
            Self {
                before_ns: before.run_ns,
                run_ns: after.run_ns.saturating_sub(before.run_ns),
                wait_ns: after.wait_ns.saturating_sub(before.wait_ns).saturating_sub(kept),
            }
        })
        .collect()
    }

    /// What all waited, in ms for each of `messages`. None without messages, and where the waits
    /// are not those of nearly all that ran: threads that ended in the meantime are not among
    /// them, and a kernel may not tell at all.
    pub(crate) fn per_message_ms(all: &[Self], usage: &Usage, messages: u64) -> Option<f64> {
        let used: u64 = usage.nodes.iter().map(|row| row.used.user_ns + row.used.system_ns).sum();
        let known: u64 = all.iter().map(|node| node.run_ns).sum();
        let waited: u64 = all.iter().map(|node| node.wait_ns).sum();
        let complete = known > 0 && known as f64 >= COVERED * used as f64;
        (messages > 0 && complete).then(|| waited as f64 / messages as f64 / 1e6)
    }

    /// What all waited, in percent of what they ran and waited; nothing where nobody ran.
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
            let used = lab::Reading { user_ns, ..lab::Reading::default() };
            let row = measure::UsageRow {
                node: "a".into(),
                second: 0,
                used,
                carried: measure::Carried::default(),
            };
            Usage { nodes: vec![row], ..Usage::default() }
        };
        let per_message =
            |user_ns, messages| Waits::per_message_ms(&[two, two], &usage(user_ns), messages);
        assert_eq!(per_message(620, 4), Some(1.5));
        assert_eq!(per_message(620, 0), None);
        assert_eq!(per_message(700, 4), None, "a seventh of what ran is not known");
        assert_eq!(Waits::per_message_ms(&[Waits::default()], &usage(0), 4), None, "no schedstat");
    }
}
