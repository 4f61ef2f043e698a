//! Filters and wills that wait for the hub: the last state of each, within a limit of memory.

use super::{Device, Job, Subscribe};
use crate::gateway::{Effect, Lane, Side};
use crate::message::{Message, Up};
use crate::reason;
use crate::session::Origin;
use std::collections::VecDeque;

/// Memory of a filter or will that waits, with its lane, in addition to names and messages, in bytes.
const OVERHEAD: usize = 1_024;

impl Device {
    /// A client subscribes.
    pub(super) fn subscribe(
        &mut self,
        origin: Origin,
        filter: String,
        retained: bool,
    ) -> Vec<Effect> {
        if self.clients.backlog.is_full() {
            self.clients.backlog.drop_one();
            let actions = self.clients.subscribed(&origin, &filter, reason::QUOTA);
            return self.act(actions);
        }
        self.subscribe_anew(filter, retained, Some(origin))
    }

    /// Subscribes for all clients of the device.
    pub(super) fn subscribe_anew(
        &mut self,
        filter: String,
        retained: bool,
        origin: Option<Origin>,
    ) -> Vec<Effect> {
        let qos = self.clients.granted(&filter).unwrap_or_default();
        let client = origin.as_ref().map_or(0, |origin| origin.client.len());
        let held = self.clients.backlog.count(2 * filter.len() + client + OVERHEAD);
        let job = Subscribe { filter: filter.clone(), qos, retained, after: None, _held: held };
        self.replace(Lane::Filter(filter), Job::Subscribe(job, origin))
    }

    /// No client wants a filter any more.
    pub(super) fn unsubscribe(&mut self, filter: String) -> Vec<Effect> {
        let held = self.clients.backlog.count(2 * filter.len() + OVERHEAD);
        let job = Job::Frame(Up::Unsubscribe(filter.clone()), Some(held));
        self.replace(Lane::Filter(filter), job)
    }

    /// A client has this will, or none.
    pub(super) fn will(&mut self, client: String, will: Option<Message>) -> Vec<Effect> {
        let size = will.as_ref().map_or(0, Message::size);
        let held = self.clients.backlog.count(2 * client.len() + size + OVERHEAD);
        let (lane, period_s) = (Lane::Will(client.clone()), self.period_s);
        self.replace(lane, Job::Frame(Up::Will { client, will, period_s }, Some(held)))
    }

    /// Queues a filter or will in place of what waits in its lane: the hub needs the last state only. Of
    /// subscriptions, those stay whose clients wait for the answer.
    fn replace(&mut self, lane: Lane, job: Job) -> Vec<Effect> {
        let jobs = self.lanes.entry(lane.clone()).or_default();
        let waiting = std::mem::take(&mut jobs.waiting);
        let (mut kept, mut given_up) = (VecDeque::new(), Vec::new());
        for own in waiting {
            match (own, &job) {
                (Job::Subscribe(own, Some(origin)), Job::Frame(..)) => given_up.push((own, origin)),
                (Job::Subscribe(own, Some(origin)), Job::Subscribe(_, now))
                    if now.as_ref() != Some(&origin) && self.clients.awaits(&origin) =>
                {
                    kept.push_back(Job::Subscribe(own, Some(origin)));
                }
                _ => {}
            }
        }
        jobs.waiting = kept;
        let mut effects = Vec::new();
        for (Subscribe { filter, qos, .. }, origin) in given_up {
            // A client can unsubscribe before the answer to its subscription, and waits for that, too.
            let actions = self.clients.subscribed(&origin, &filter, qos);
            effects.extend(self.act(actions));
        }
        effects.extend(self.push(lane, job));
        effects
    }

    /// Filters and clients that were refused since the last call.
    pub(super) fn report_refused(&self) -> Option<Effect> {
        let refused = self.clients.backlog.take_dropped();
        let used = self.clients.backlog.used() >> 20;
        (refused > 0).then(|| {
            Effect::Log(format!(
                "{refused} filters and clients with wills were refused: filters and wills that wait for the \
                 hub's gateway take {used} MiB. They are accepted again when it answers"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Room;
    use crate::gateway::Ended;
    use crate::packet::{Connect, MQTT_5, Options, Packet};

    /// Frames of filters and wills that are kept.
    fn jobs(device: &Device) -> usize {
        device.lanes.values().map(|jobs| jobs.waiting.len() + jobs.sent.len()).sum()
    }

    /// A client with a will connects; the code of the answer.
    fn connect(device: &mut Device, name: &str) -> u8 {
        let will = Message { topic: "w".to_owned(), ..Message::default() };
        let client = name.to_owned();
        let connect =
            Connect { level: MQTT_5, client, will: Some(will), clean: true, ..Connect::default() };
        let actions = device.clients.connect(1, connect);
        let answer = |own: &Effect| match own {
            Effect::Send(_, Packet::ConnAck { code, .. }) => Some(*code),
            _ => None,
        };
        device.act(actions).iter().find_map(answer).unwrap()
    }

    /// It subscribes; the codes of the answer, if it is there.
    fn subscribe(device: &mut Device, filters: &[String]) -> Option<Vec<u8>> {
        let filters = filters.iter().map(|filter| (filter.clone(), Options::of(1))).collect();
        let subscribe = Packet::Subscribe { id: 1, filters };
        let actions = device.clients.receive(1, subscribe, Room::default());
        let answer = |own| match own {
            Effect::Send(_, Packet::SubAck { codes, .. }) => Some(codes),
            _ => None,
        };
        device.act(actions).into_iter().find_map(answer)
    }

    fn close(device: &mut Device) {
        let actions = device.clients.close(1, true);
        device.act(actions);
    }

    /// What failed before: each connection added two frames of its will and two of each filter.
    #[test]
    fn clients_that_come_and_go_while_the_hub_is_silent_take_no_further_memory() {
        let (mut device, _) = Device::new(1, 60);
        let filters: Vec<String> = (0..100).map(|number| format!("f/{number}")).collect();
        for _ in 0..50 {
            assert_eq!(connect(&mut device, "c"), 0);
            assert_eq!(subscribe(&mut device, &filters), None);
            close(&mut device);
        }
        // What is on its way and the last state of each, and the greeting.
        assert_eq!(jobs(&device), 2 * (100 + 1) + 1);
        // Once the hub answers, the last states follow, and nothing is left.
        device.ended(Lane::Alive, Ended::Delivered(Vec::new()));
        let will = Lane::Will("c".to_owned());
        let lanes = filters.iter().cloned().map(Lane::Filter).chain([will]);
        for lane in lanes {
            let last = device.ended(lane.clone(), Ended::Delivered(vec![1, 0]));
            let [Effect::Transport { frame, .. }] = &last[..] else { panic!("{last:?}") };
            let (_, last) = Up::decode(frame).unwrap();
            assert!(matches!(last, Up::Unsubscribe(_) | Up::Will { will: None, .. }), "{last:?}");
            assert_eq!(device.ended(lane, Ended::Delivered(Vec::new())), []);
        }
        assert_eq!((jobs(&device), device.lanes.len()), (0, 0));
        assert_eq!(device.clients.backlog.used(), 0);
    }

    /// What failed before: clients with other names and filters took memory without a limit.
    #[test]
    fn clients_with_other_names_are_refused_while_too_much_waits_for_the_hub() {
        let (mut device, _) = Device::new(1, 60);
        let most = 8 << 20;
        device.clients.backlog = crate::budget::Outflow::of(most);
        let long = "x".repeat(1_000);
        let mut refused = 0;
        for number in 0..5_000 {
            let name = format!("{number}/{long}");
            let code = connect(&mut device, &name);
            if code != 0 {
                assert_eq!(code, reason::BUSY);
                refused += 1;
                continue;
            }
            subscribe(&mut device, &[name]);
            close(&mut device);
        }
        let used = device.clients.backlog.used();
        assert!((most..most + 20_000).contains(&used), "{used} B");
        assert!(device.lanes.len() < 3_000 && refused > 3_000, "{refused} refused");
        // A client without a will can connect. It has no filter, and knows that.
        device.clients.connect(1, Connect { level: MQTT_5, ..Connect::default() });
        assert_eq!(subscribe(&mut device, &["a".to_owned()]), Some(vec![reason::QUOTA]));
        let logs: Vec<Effect> = device.tick();
        let expected = format!("{} filters and clients with wills were refused", refused + 1);
        assert!(format!("{logs:?}").contains(&expected), "{logs:?}");
        assert!(device.report_refused().is_none(), "reported once");
        // What the hub has got makes room.
        for lane in device.lanes.keys().cloned().collect::<Vec<_>>() {
            device.ended(lane.clone(), Ended::Delivered(vec![1, 0]));
            device.ended(lane, Ended::Delivered(Vec::new()));
        }
        assert_eq!(device.clients.backlog.used(), 0);
        assert_eq!(subscribe(&mut device, &["a".to_owned()]), None);
        let answer = device.ended(Lane::Filter("a".to_owned()), Ended::Delivered(vec![1, 0]));
        assert!(matches!(answer[..], [Effect::Send(1, Packet::SubAck { .. })]), "{answer:?}");
    }

    /// A client that repeats its packet after a new connection waits for one answer, and one that gives a filter
    /// up still gets the answer to its subscription.
    #[test]
    fn each_subscription_has_one_answer_while_others_of_its_filter_wait() {
        let (mut device, _) = Device::new(1, 60);
        let (filter, lane) = (["a".to_owned()], Lane::Filter("a".to_owned()));
        let kept = Connect { level: 4, client: "kept".to_owned(), ..Connect::default() };
        for _ in 0..5 {
            device.clients.connect(1, kept.clone());
            assert_eq!(subscribe(&mut device, &filter), None);
        }
        // The first one is on its way.
        assert_eq!(device.lanes[&lane].waiting.len(), 1);
        let answers = |effects: Vec<Effect>| {
            let is_answer = |own: &&Effect| matches!(own, Effect::Send(_, Packet::SubAck { .. }));
            effects.iter().filter(is_answer).count()
        };
        let end = Packet::Unsubscribe { id: 2, filters: filter.to_vec() };
        let actions = device.clients.receive(1, end, Room::default());
        assert_eq!(answers(device.act(actions)), 1);
        assert_eq!(answers(device.ended(lane.clone(), Ended::Delivered(vec![1, 0]))), 0);
        device.ended(lane, Ended::Delivered(Vec::new()));
        assert_eq!(jobs(&device), 1, "the greeting");
    }
}
