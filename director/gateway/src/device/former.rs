//! Sessions of a former start of a device's gateway.

use super::{Device, Job, Subscribe};
use crate::gateway::{Effect, Lane};
use crate::kept::Kept;
use crate::message::Up;

impl Device {
    /// Sessions of a former start: the hub learns what they subscribe to. The device's `start` must have the
    /// bit [`KEEPS`](crate::KEEPS), so that what waits at the hub stays.
    pub fn restore(&mut self, mut kept: Kept) -> Vec<Effect> {
        let (store, numbers) = std::mem::take(&mut kept.devices.heard);
        self.heard.restore(store, numbers);
        self.clients.restore(kept);
        let filters = self.clients.filters();
        self.former = Some(filters.len());
        let mut effects = Vec::new();
        for (filter, qos) in filters {
            effects.extend(self.resubscribe(filter, qos));
        }
        effects.extend(self.end_of_former());
        effects
    }

    /// Subscribes once more; the clients have had the retained messages.
    pub(super) fn resubscribe(&mut self, filter: String, qos: u8) -> Vec<Effect> {
        let (retained, after) = (false, None);
        let job = Subscribe { filter: filter.clone(), qos, retained, after };
        self.push(Lane::Filter(filter), Job::Subscribe(job, None))
    }

    /// Tells the hub that it has all filters.
    pub(super) fn end_of_former(&mut self) -> Vec<Effect> {
        match self.former {
            Some(0) => {
                self.former = None;
                self.push(Lane::Alive, Job::Frame(Up::Subscribed))
            }
            _ => Vec::new(),
        }
    }
}
