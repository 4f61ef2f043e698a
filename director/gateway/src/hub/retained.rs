//! Retained messages of the hub.

use super::Hub;
use super::unwritten::Topics;
use crate::gateway::{BATCH, Effect, Side};
use crate::kept::Kept;
use crate::message::Message;
use crate::server::MAX_PACKETS;
use crate::session::Origin;
use crate::storage::{Change, Unwritten};
use director::topic;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Maximum number of retained messages.
const MAX_RETAINED: usize = 100_000;
/// Maximum size of all retained messages, in bytes; then further ones are not retained.
const MAX_SIZE: usize = 256 << 20;

impl Hub {
    /// Retained messages of a filter after a topic, and whether there are more.
    pub(super) fn retained(&self, filter: &str, after: Option<&str>) -> (Vec<Message>, bool) {
        let (mut taken, mut size) = (Vec::new(), 0);
        let now_s = self.clients.now_s();
        // Not from the first topic: each page would look at those of all pages before it.
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (topic, message) in self.retained.range::<str, _>((begin, Bound::Unbounded)) {
            #[cfg(test)]
            self.looked_at.set(self.looked_at.get() + 1);
            if !topic::matches(filter, topic) || message.is_expired(now_s) {
                continue;
            }
            size += message.size();
            if size > BATCH && !taken.is_empty() {
                return (taken, true);
            }
            taken.push(message.clone());
        }
        (taken, false)
    }

    /// Subscribes a client of the hub. It gets the retained messages that can wait for it.
    pub(super) fn subscribe(
        &mut self,
        origin: &Origin,
        filter: &str,
        qos: u8,
        retained: bool,
    ) -> Vec<Effect> {
        let mut actions = self.clients.subscribed(origin, filter, qos);
        let (mut after, mut more) = (None::<String>, retained);
        // Nothing is written to the client meanwhile: its connection drops further packets.
        while more && actions.len() < MAX_PACKETS {
            let (page, rest) = self.retained(filter, after.as_deref());
            after = page.last().map(|message| message.topic.clone());
            more = rest;
            actions.extend(self.clients.retained(origin, filter, page));
        }
        let mut effects = self.act(actions);
        if more {
            effects.push(Effect::Log(format!(
                "a client that subscribed to {filter} does not get all retained messages: {MAX_PACKETS} \
                 packets wait for it"
            )));
        }
        effects
    }

    /// Retained messages of a former start, with the time that is left of each, and sessions; changes are to
    /// be stored. Returns what follows from the end of the former start: wills of its clients.
    pub fn restore(&mut self, retained: BTreeMap<String, Message>, mut kept: Kept) -> Vec<Effect> {
        let devices = std::mem::take(&mut kept.devices);
        self.restore_devices(&devices);
        self.clients.restore(kept);
        self.retained_size = retained.values().map(Message::size).sum();
        let now_s = self.clients.now_s();
        let arrived = |(topic, message): (String, Message)| (topic, message.arrived(now_s));
        self.retained = retained.into_iter().map(arrived).collect();
        self.unwritten = Some(Topics::default());
        let actions = self.clients.restore_wills(devices.wills);
        self.act(actions)
    }

    /// Retained messages that are to be stored.
    pub(super) fn unwritten(&self) -> Unwritten {
        let Some(topics) = &self.unwritten else {
            return Unwritten::Changes(Vec::new());
        };
        let Some(names) = topics.names() else { return Unwritten::All };
        let now_s = self.clients.now_s();
        let message = |topic: &String| Some(self.retained.get(topic)?.leaving(now_s));
        let change = |topic: &String| Change { topic: topic.clone(), message: message(topic) };
        Unwritten::Changes(names.iter().map(change).collect())
    }

    /// Keeps a message for later subscribers, if there is room.
    pub(super) fn retain(&mut self, message: &Message) -> Vec<Effect> {
        let topic = &message.topic;
        let before = self.retained.get(topic).map_or(0, Message::size);
        let is_known = before > 0;
        // An empty retained message deletes the kept one (3.3.1.3).
        let kept = match message.payload.is_empty() {
            true => None,
            false => Some(Message { publisher: None, ..message.clone() }),
        };
        let size = self.retained_size - before + kept.as_ref().map_or(0, Message::size);
        if kept.is_some() && (self.retained.len() >= MAX_RETAINED && !is_known || size > MAX_SIZE) {
            let text = format!("a message of {topic} is not retained: there is no room");
            return vec![Effect::Log(text)];
        }
        if kept.is_none() && !is_known {
            return Vec::new();
        }
        self.retained_size = size;
        if let Some(unwritten) = &mut self.unwritten {
            unwritten.insert(topic);
            self.revision += 1;
        }
        match kept {
            Some(kept) => drop(self.retained.insert(topic.clone(), kept)),
            None => drop(self.retained.remove(topic)),
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Room;
    use crate::packet::{Ack, Connect, Options, Packet, Publish};

    /// What failed before: with the maximum number of retained messages, topics kept their old ones.
    #[test]
    fn a_retained_message_replaces_that_of_its_topic_also_if_no_other_has_room() {
        let (mut hub, _) = Hub::new(1, 1);
        let retain = |topic: usize, payload: &[u8]| Message {
            topic: format!("t/{topic}"),
            payload: payload.into(),
            retain: true,
            ..Message::default()
        };
        let kept = |hub: &Hub, topic: usize| {
            let (all, _) = hub.retained(&format!("t/{topic}"), None);
            all.first().map(|message| message.payload.to_vec())
        };
        (0..MAX_RETAINED).for_each(|topic| drop(hub.publish(retain(topic, b"old"))));
        hub.publish(retain(7, b"new"));
        hub.publish(retain(MAX_RETAINED, b"one too many"));
        assert_eq!(kept(&hub, 7), Some(b"new".to_vec()));
        assert_eq!(kept(&hub, MAX_RETAINED), None);
        hub.publish(retain(8, b""));
        hub.publish(retain(MAX_RETAINED, b"with room"));
        assert_eq!((kept(&hub, 8), kept(&hub, MAX_RETAINED)), (None, Some(b"with room".to_vec())));
    }

    fn with_retained(count: usize) -> Hub {
        let (mut hub, _) = Hub::new(1, 1);
        for number in 0..count {
            let (topic, payload) = (format!("t/{number:05}"), b"x"[..].into());
            hub.publish(Message { topic, payload, retain: true, ..Message::default() });
        }
        hub
    }

    /// What failed before: each page looked at the topics of all pages before it, so one subscription to
    /// `#` stopped the gateway for up to 28 s.
    #[test]
    fn pages_of_retained_messages_look_at_each_topic_once() {
        let hub = with_retained(5_000);
        let (mut after, mut more) = (None::<String>, true);
        let (mut topics, mut pages) = (Vec::new(), 0);
        while more {
            let (page, rest) = hub.retained("#", after.as_deref());
            after = page.last().map(|message| message.topic.clone());
            topics.extend(page.into_iter().map(|message| message.topic));
            (more, pages) = (rest, pages + 1);
        }
        assert!(topics.iter().eq(hub.retained.keys()), "all in order, each once");
        // And the first of the next page, which did not fit.
        assert_eq!(hub.looked_at.get(), 5_000 + pages - 1);
    }

    /// What failed before: all retained messages became packets at once, though a client's connection
    /// drops those above a limit.
    #[test]
    fn a_client_of_the_hub_gets_the_retained_messages_that_can_wait_for_it() {
        for (count, is_cut) in [(2_000, false), (20_000, true)] {
            let mut hub = with_retained(count);
            client(&mut hub);
            let filters = vec![("#".to_owned(), Options::of(0))];
            let subscribe = Packet::Subscribe { id: 1, filters };
            let actions = hub.clients().receive(1, subscribe, Room::default());
            let effects = hub.act(actions);
            let is_message = |own: &&Effect| matches!(own, Effect::Send(_, Packet::Publish(_)));
            let messages = effects.iter().filter(is_message).count();
            let most = MAX_PACKETS + BATCH / 21;
            assert_eq!(messages == count, !is_cut, "{messages} of {count}");
            assert!(messages <= most && hub.looked_at.get() <= 2 * most, "{messages} messages");
            let logged = effects.iter().filter(|own| matches!(own, Effect::Log(_))).count();
            assert_eq!(logged, usize::from(is_cut));
        }
    }

    fn client(hub: &mut Hub) {
        let connect = Connect { level: 4, client: "c".to_owned(), ..Connect::default() };
        hub.clients().connect(1, connect);
    }

    /// The packets for a client that publishes with QoS 1.
    fn answers(hub: &mut Hub, id: u16, retain: bool) -> Vec<Effect> {
        let topic = format!("t/{id}");
        let message =
            Message { topic, payload: b"x"[..].into(), qos: 1, retain, ..Message::default() };
        let publish = Packet::Publish(Publish { id, message, ..Publish::default() });
        let actions = hub.clients().receive(1, publish, Room::default());
        hub.act(actions)
    }

    fn acknowledged(id: u16) -> Effect {
        Effect::Send(1, Packet::PubAck(Ack::new(id)))
    }

    #[test]
    fn a_retained_message_is_acknowledged_when_it_is_stored() {
        let (mut hub, _) = Hub::new(1, 0);
        client(&mut hub);
        assert_eq!(answers(&mut hub, 1, true), [acknowledged(1)], "without a storage");
        hub.restore(BTreeMap::new(), Kept::default());
        assert_eq!(answers(&mut hub, 2, true), []);
        assert_eq!(answers(&mut hub, 3, false), [acknowledged(3)]);
        assert_eq!(answers(&mut hub, 4, true), []);
        let Unwritten::Changes(changes) = hub.unwritten() else { panic!() };
        let topics: Vec<&str> = changes.iter().map(|change| &change.topic[..]).collect();
        assert_eq!(topics, ["t/2", "t/4"]);
        // It is there, though the disk is full.
        assert_eq!(hub.retained("t/2", None).0.len(), 1);
        assert_eq!(hub.written(), [acknowledged(2), acknowledged(4)]);
        assert_eq!(hub.unwritten(), Unwritten::Changes(Vec::new()));
        assert_eq!(hub.written(), []);
    }

    #[test]
    fn topics_that_are_not_stored_take_a_limited_memory() {
        let (mut hub, _) = Hub::new(1, 0);
        hub.restore(BTreeMap::new(), Kept::default());
        let topic = "x".repeat(60_000);
        for number in 0..300 {
            for payload in [&b"x"[..], b""] {
                let topic = format!("{number}/{topic}");
                let payload = payload.into();
                hub.publish(Message { topic, payload, retain: true, ..Message::default() });
            }
        }
        assert_eq!(hub.unwritten(), Unwritten::All);
        hub.written();
        assert_eq!(hub.unwritten(), Unwritten::Changes(Vec::new()));
    }
}
