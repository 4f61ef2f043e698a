//! Sessions of a former start of a device's gateway.

use super::{Device, Job};
use crate::gateway::{Effect, Lane};
use crate::kept::Kept;
use crate::message::Up;
use std::collections::BTreeSet;

impl Device {
    /// Sessions of a former start: the hub learns what they subscribe to. The device's `start` must have the
    /// bit [`KEEPS`](crate::KEEPS), so that what waits at the hub stays.
    pub fn restore(&mut self, mut kept: Kept) -> Vec<Effect> {
        let (store, numbers) = std::mem::take(&mut kept.devices.heard);
        self.heard.restore(store, numbers);
        self.clients.restore(kept);
        let filters: BTreeSet<String> = self.clients.filters().into_keys().collect();
        self.former = Some(filters.clone());
        let mut effects = Vec::new();
        for filter in filters {
            effects.extend(self.resubscribe(filter));
        }
        effects.extend(self.end_of_former());
        effects
    }

    /// Subscribes once more; the clients have had the retained messages.
    pub(super) fn resubscribe(&mut self, filter: String) -> Vec<Effect> {
        self.subscribe_anew(filter, false, None)
    }

    /// The hub has answered what was sent of a filter, or never will. When it has answered all filters of a former
    /// start, it learns that there are no others. By their names: one can be sent several times, as the first frame
    /// of a hub makes the device subscribe once more.
    pub(super) fn answered(&mut self, filter: &str) -> Vec<Effect> {
        if let Some(former) = &mut self.former {
            former.remove(filter);
        }
        self.end_of_former()
    }

    fn end_of_former(&mut self) -> Vec<Effect> {
        if self.former.take_if(|former| former.is_empty()).is_none() {
            return Vec::new();
        }
        self.push(Lane::Alive, Job::Frame(Up::Subscribed, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{Ended, Side};
    use crate::kept::{Life, Saved};
    use crate::message::{Down, KEEPS};
    use crate::packet::Options;

    /// What failed before: answers were counted, and two for one filter made the hub drop the other one with
    /// the messages that waited for it.
    #[test]
    fn the_hub_keeps_former_filters_until_it_has_answered_each() {
        let (mut device, _) = Device::new(1 | KEEPS, 60);
        let filters = ["a", "b"].map(|filter| (filter.to_owned(), Options::of(1)));
        let life = Life { level: 4, expires_s: u32::MAX, left_s: None };
        let saved = Saved { life, filters: filters.into(), ..Saved::default() };
        let mut kept = Kept::default();
        kept.clients.insert("c".to_owned(), saved);
        assert_eq!(device.restore(kept).len(), 2);
        device.ended(Lane::Alive, Ended::Delivered(Vec::new()));
        // The hub's first frame: both are sent once more.
        device.receive(&Down::Hello.encode(7));
        let lane = |filter: &str| Lane::Filter(filter.to_owned());
        let answer = |device: &mut Device, filter| {
            let effects = device.ended(lane(filter), Ended::Delivered(vec![1, 0]));
            let is_end = |own: &&Effect| {
                let end = Up::Subscribed.encode(1 | KEEPS);
                matches!(own, Effect::Transport { frame, .. } if *frame == end)
            };
            effects.iter().filter(is_end).count()
        };
        assert_eq!(device.ended(lane("b"), Ended::Lost), [Effect::Later(lane("b"))]);
        assert_eq!([answer(&mut device, "a"), answer(&mut device, "a")], [0, 0]);
        device.ended(lane("b"), Ended::Waited);
        assert_eq!([answer(&mut device, "b"), answer(&mut device, "b")], [1, 0]);
    }
}
