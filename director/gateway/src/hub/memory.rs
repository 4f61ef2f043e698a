//! Memory of the hub for its devices: messages that wait for them, their wills and filters.

use crate::budget::{Held, OVERHEAD, Outflow};
use crate::gateway::Effect;
use crate::message::{Message, Numbered};
use std::sync::Arc;

/// A message for devices, with the memory that all its copies are counted for.
#[derive(Clone)]
pub(super) struct Waiting {
    pub numbered: Numbered,
    _held: Arc<Held>,
}

/// A will of a device.
pub(super) struct Will {
    pub message: Message,
    _held: Arc<Held>,
}

/// A filter of a device.
pub(super) struct Filter {
    pub qos: u8,
    /// Whether it is of a former start of the device.
    pub is_former: bool,
    _held: Arc<Held>,
}

/// Memory for all devices, in bytes: 64 MiB each for messages, and for wills and filters. Beyond it,
/// messages are dropped, and wills and filters refused.
#[derive(Default)]
pub(super) struct Memory {
    messages: Outflow,
    states: Outflow,
}

impl Memory {
    pub fn message(&self, numbered: Numbered) -> Option<Waiting> {
        let held = self.messages.hold(numbered.1.size() + OVERHEAD);
        if held.is_none() {
            self.messages.drop_one();
        }
        held.map(|held| Waiting { numbered, _held: held })
    }

    pub fn will(&self, message: Message, client: &str) -> Option<Will> {
        let held = self.state(message.size() + client.len())?;
        Some(Will { message, _held: held })
    }

    pub fn filter(&self, filter: &str, qos: u8) -> Option<Filter> {
        Some(Filter { qos, is_former: false, _held: self.state(filter.len())? })
    }

    fn state(&self, bytes: usize) -> Option<Arc<Held>> {
        let held = self.states.hold(bytes + OVERHEAD);
        if held.is_none() {
            self.states.drop_one();
        }
        held
    }

    /// What was dropped or refused since the last call.
    pub fn report(&self) -> Vec<Effect> {
        let (dropped, refused) = (self.messages.take_dropped(), self.states.take_dropped());
        let mib = crate::budget::MOST >> 20;
        let dropped = (dropped > 0).then(|| {
            format!("{dropped} messages to devices were dropped: {mib} MiB wait for slow devices")
        });
        let refused = (refused > 0).then(|| {
            format!("{refused} wills and filters of devices were refused: all have {mib} MiB")
        });
        dropped.into_iter().chain(refused).map(Effect::Log).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Hub;
    use crate::message::Up;

    /// What failed before: ten thousand messages of any length could wait for each device, any number
    /// for each topic, and a device could have any number of wills and filters.
    #[test]
    fn what_waits_for_devices_is_limited_in_bytes() {
        let (mut hub, _) = Hub::new(1, 2);
        let subscribe =
            Up::Subscribe { filter: "#".to_owned(), qos: 1, retained: false, after: None };
        (0..2).for_each(|device| drop(hub.receive(device, &subscribe.encode(7))));
        let payload: Arc<[u8]> = vec![0; 1 << 18].into();
        let mut sent = 0;
        for number in 0..600 {
            let topic = format!("t/{number}");
            let message = Message { topic, payload: payload.clone(), qos: 1, ..Message::default() };
            sent += hub.publish(message).len();
        }
        // Each is counted once, though two devices want it.
        let waiting = hub.topics.len() + hub.devices[0].lane.len();
        let fit = crate::budget::MOST / ((1 << 18) + OVERHEAD);
        assert!((fit - 1..=fit).contains(&waiting), "{waiting} of {fit}, {sent} effects");
        let texts = format!("{:?}", hub.memory.report());
        assert!(texts.contains("messages to devices were dropped"), "{texts}");
        assert!(hub.memory.report().is_empty(), "reported once");
    }

    #[test]
    fn wills_and_filters_of_devices_are_limited_in_bytes() {
        let (mut hub, _) = Hub::new(1, 1);
        let mut codes = Vec::new();
        for number in 0..1_100 {
            let filter = format!("{number}/{}", "x".repeat(65_000));
            let frame = Up::Subscribe { filter, qos: 1, retained: false, after: None };
            codes.extend(hub.receive(0, &frame.encode(7)).0.map(|answer| answer[0]));
        }
        let granted = codes.iter().filter(|code| **code == 1).count();
        assert_eq!((granted, codes.len()), (hub.devices[0].filters.len(), 1_100));
        assert!((1_000..1_100).contains(&granted), "{granted}");
        let will = Message {
            topic: "w".to_owned(),
            payload: vec![0; 100_000].into(),
            ..Message::default()
        };
        let frame = Up::Will { client: "c".to_owned(), will: Some(will), period_s: 9 };
        hub.receive(0, &frame.encode(7));
        assert!(hub.devices[0].wills.is_empty());
        assert!(format!("{:?}", hub.memory.report()).contains("were refused"));
        // A filter that the device gives up makes room.
        let (filter, _) = hub.devices[0].filters.first_key_value().unwrap();
        let end = Up::Unsubscribe(filter.clone());
        hub.receive(0, &end.encode(7));
        let frame = Up::Subscribe { filter: "a".to_owned(), qos: 1, retained: false, after: None };
        assert_eq!(hub.receive(0, &frame.encode(7)).0.unwrap()[0], 1);
    }
}
