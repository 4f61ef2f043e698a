//! The effects of requests on nodes' programs: a reply is sent when what it says is true.

use super::Reply;
use crate::bed::jobs::{Job, Role};
use experiment::PlannedFaultKind as Kind;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::mpsc::Sender;
use units::{Instant, Span};

/// Longest wait for programs to end and to start. A program that takes longer to end after SIGTERM may
/// as well ignore it. Shorter than a client waits for its reply.
const LIMIT: Span = Span::from_s(10);

/// A request whose effect has not happened yet.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub effect: Effect,
    /// The reply, or the nodes to show in it then.
    pub reply: Result<Reply, Vec<String>>,
    pub answer: Sender<Reply>,
}

/// What has to happen before the reply to a request.
#[derive(Debug)]
pub(crate) struct Effect {
    what: Kind,
    nodes: HashSet<usize>,
    /// The programs that have to end.
    ending: BTreeSet<usize>,
    until: Instant,
}

impl Effect {
    /// The effect of a fault on nodes, before it is injected.
    pub(crate) fn of(
        what: Kind,
        nodes: impl IntoIterator<Item = usize>,
        jobs: &[Job],
        now: Instant,
    ) -> Self {
        let nodes: HashSet<usize> = nodes.into_iter().collect();
        let ends = |job: &Job| match what {
            Kind::Kill => true,
            Kind::Stop | Kind::Restart => job.role == Role::Node,
            // It was stopped just before, and starts again once it has ended.
            Kind::Start => job.role == Role::Node && job.asked_to_end,
            Kind::Pause | Kind::Resume => false,
        };
        let running = |job: &Job| job.is_started && job.is_alive() && nodes.contains(&job.node);
        let ending = jobs.iter().enumerate().filter(|(_, job)| ends(job) && running(job));
        let ending = ending.map(|(id, _)| id).collect();
        Self { what, nodes, ending, until: now + LIMIT }
    }

    /// Whether it has happened, or why it will not; `None` if that is not known yet. `restarts` says
    /// whether the program of a node starts again once it has ended.
    pub(crate) fn outcome(
        &self,
        jobs: &[Job],
        restarts: impl Fn(usize) -> bool,
        now: Instant,
    ) -> Option<Result<(), String>> {
        let is_late = now >= self.until;
        let mut ending = self.ending.iter().filter_map(|id| jobs.get(*id));
        if let Some(job) = ending.find(|job| job.is_alive()) {
            return is_late.then(|| Err(self.still_runs(job)));
        }
        if !matches!(self.what, Kind::Start | Kind::Restart) {
            return Some(Ok(()));
        }
        let is_own = |job: &Job| job.role == Role::Node && self.nodes.contains(&job.node);
        let own = jobs.iter().enumerate().filter(|(_, job)| is_own(job));
        // The last of each node: a restart adds a job and keeps the ended one.
        let last: BTreeMap<usize, usize> = own.map(|(id, job)| (job.node, id)).collect();
        for (node, id) in last {
            let job = &jobs[id];
            let has_not_begun = job.is_started && job.started.is_none() && job.is_alive();
            match self.ending.contains(&id) {
                true if restarts(node) => return is_late.then(|| Err(not_in_time(job))),
                true => return Some(Err(overtaken(job))),
                false if has_not_begun => return is_late.then(|| Err(not_in_time(job))),
                false => {}
            }
            if let Some(why) = &job.not_started {
                return Some(Err(why.clone()));
            }
        }
        Some(Ok(()))
    }

    fn still_runs(&self, job: &Job) -> String {
        let name = &job.name;
        match self.what {
            Kind::Kill => format!(
                "a program of `{name}` still exists {LIMIT} after SIGKILL; the kernel ends it when its \
                 system call returns, such as one of a device or a file system that does not respond"
            ),
            Kind::Stop => format!(
                "the program of `{name}` still runs {LIMIT} after SIGTERM, which it may ignore; to end it: \
                 `thingbed kill {name}`"
            ),
            _ => format!(
                "the program of `{name}` still runs {LIMIT} after SIGTERM, which it may ignore; it starts \
                 again once it has ended; to end it: `thingbed kill {name}`, then `thingbed start {name}`"
            ),
        }
    }
}

fn not_in_time(job: &Job) -> String {
    let name = &job.name;
    format!(
        "the program of `{name}` did not start within {LIMIT}; the machine may be busy: `thingbed ps {name}` \
         shows its state"
    )
}

fn overtaken(job: &Job) -> String {
    let name = &job.name;
    format!(
        "the program of `{name}` has ended and does not start again, because another command stopped it \
         meanwhile; to start it: `thingbed start {name}`"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::jobs::State;
    use crate::controller::fake::job;
    use lab::{Exit, Usage};

    const NOW: Instant = Instant::from_ns(1_000_000_000);

    fn running(node: usize) -> Job {
        Job { state: State::Ready, is_started: true, started: Some(NOW), ..job(node, Role::Node) }
    }

    fn end(job: &mut Job) {
        let (exit, usage) = (Exit::Signal(9), Usage::default());
        job.state = State::Ended { exit, usage, starved: None };
    }

    fn effect(what: Kind, jobs: &[Job]) -> Effect {
        Effect::of(what, [0], jobs, NOW)
    }

    fn late() -> Instant {
        NOW + LIMIT
    }

    #[test]
    fn a_kill_is_done_when_all_programs_of_the_node_have_ended() {
        let other = Job { role: Role::Background, ..running(0) };
        let mut jobs = vec![running(0), other, running(1)];
        let effect = effect(Kind::Kill, &jobs);
        end(&mut jobs[0]);
        assert_eq!(effect.outcome(&jobs, |_| false, NOW), None);
        let why = effect.outcome(&jobs, |_| false, late()).unwrap().unwrap_err();
        assert!(why.contains("`n-0` still exists 10 s after SIGKILL"), "{why}");
        end(&mut jobs[1]);
        assert_eq!(effect.outcome(&jobs, |_| false, NOW), Some(Ok(())));
    }

    #[test]
    fn a_stop_that_is_ignored_says_so_in_time() {
        let mut jobs = vec![running(0), Job { role: Role::Background, ..running(0) }];
        let effect = effect(Kind::Stop, &jobs);
        assert_eq!(effect.outcome(&jobs, |_| false, NOW), None);
        let why = effect.outcome(&jobs, |_| false, late()).unwrap().unwrap_err();
        assert!(why.contains("after SIGTERM") && why.contains("`thingbed kill n-0`"), "{why}");
        end(&mut jobs[0]);
        assert_eq!(effect.outcome(&jobs, |_| false, NOW), Some(Ok(())), "only its own program");
    }

    #[test]
    fn a_restart_is_done_when_the_new_program_runs() {
        let mut jobs = vec![running(0)];
        let effect = effect(Kind::Restart, &jobs);
        assert_eq!(effect.outcome(&jobs, |_| true, NOW), None);
        end(&mut jobs[0]);
        assert_eq!(effect.outcome(&jobs, |_| true, NOW), None, "not begun");
        let why = effect.outcome(&jobs, |_| false, NOW).unwrap().unwrap_err();
        assert!(why.contains("another command stopped it"), "{why}");
        jobs.push(Job { started: None, ..running(0) });
        assert_eq!(effect.outcome(&jobs, |_| false, NOW), None, "not begun");
        let why = effect.outcome(&jobs, |_| false, late()).unwrap().unwrap_err();
        assert!(why.contains("did not start within 10 s"), "{why}");
        jobs[1].not_started = Some("no such program".into());
        end(&mut jobs[1]);
        let failed = effect.outcome(&jobs, |_| false, NOW);
        assert_eq!(failed, Some(Err("no such program".into())));
        jobs[1] = running(0);
        assert_eq!(effect.outcome(&jobs, |_| false, NOW), Some(Ok(())));
    }

    #[test]
    fn a_start_waits_for_the_program_and_for_one_that_ends() {
        let running_already = [running(0)];
        let started = effect(Kind::Start, &running_already);
        assert_eq!(started.outcome(&running_already, |_| false, NOW), Some(Ok(())));
        let mut jobs = vec![Job { asked_to_end: true, ..running(0) }];
        let effect = effect(Kind::Start, &jobs);
        assert_eq!(effect.outcome(&jobs, |_| true, NOW), None);
        end(&mut jobs[0]);
        jobs.push(running(0));
        assert_eq!(effect.outcome(&jobs, |_| false, NOW), Some(Ok(())));
        // One that waits for others in the set-up is no matter of this request.
        let waits = [Job { is_started: false, started: None, ..running(0) }];
        let effect = Effect::of(Kind::Start, [0], &waits, NOW);
        assert_eq!(effect.outcome(&waits, |_| false, NOW), Some(Ok(())));
    }
}
