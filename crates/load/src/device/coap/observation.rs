//! Observers of a device's resources, RFC 7641. Without I/O.

use super::pending::PendingRequest;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use units::{Instant, Span};

/// The maximum number of observers; further ones get only a plain answer.
const MAX_OBSERVERS: usize = 1_024;
/// The interval of confirmable notifications to an observer that otherwise gets
/// non-confirmable ones. RFC 7641, section 4.5, requires one every 24 hours; a shorter
/// interval detects a lost observer sooner.
const CONFIRM_INTERVAL: Span = Span::from_s(60);

/// One observer of a resource.
#[derive(Clone, Copy)]
pub(crate) struct Observer {
    /// Its request, the base of notifications.
    pub pending: PendingRequest,
    peer: SocketAddr,
    /// Whether it registered with a confirmable request; notifications are then confirmable
    /// too.
    confirmable: bool,
    confirmed: Instant,
    /// Whether a notification waits for its acknowledgement, and whether the value has
    /// changed since.
    is_waiting: bool,
    behind: bool,
    /// The message ID of its last non-confirmable notification.
    unconfirmed: Option<u16>,
}

/// The observers of all resources.
#[derive(Default)]
pub(crate) struct Observation {
    all: BTreeMap<u64, Observer>,
    next: u64,
    /// Resources whose next change is scheduled.
    changing: BTreeSet<usize>,
}

impl Observation {
    /// Registers an observer. Replaces its previous registration with the same token
    /// (section 4.1). Returns whether there was room.
    pub fn register(
        &mut self,
        peer: SocketAddr,
        pending: PendingRequest,
        con: bool,
        now: Instant,
    ) -> bool {
        // Before the limit is checked: a renewal always has room.
        self.deregister(peer, pending.token());
        if self.all.len() >= MAX_OBSERVERS {
            return false;
        }
        let observer = Observer {
            pending,
            peer,
            confirmable: con,
            confirmed: now,
            is_waiting: false,
            behind: false,
            unconfirmed: None,
        };
        self.all.insert(self.next, observer);
        self.next += 1;
        true
    }

    /// Ends a peer's registration with this token.
    pub fn deregister(&mut self, peer: SocketAddr, token: &[u8]) {
        self.all.retain(|_, one| one.peer != peer || one.pending.token() != token);
    }

    /// Ends an observation: the observer is unreachable or rejected a notification.
    pub fn remove(&mut self, number: u64) {
        self.all.remove(&number);
    }

    /// Handles that a notification was sent as a non-confirmable message with this ID: the next
    /// one does not wait for its acknowledgement.
    pub fn sent_unconfirmed(&mut self, number: u64, id: u16) {
        if let Some(one) = self.all.get_mut(&number) {
            (one.is_waiting, one.unconfirmed) = (false, Some(id));
        }
    }

    /// Ends the observation whose last non-confirmable notification a peer has rejected (section
    /// 3.6).
    pub fn rejected(&mut self, peer: SocketAddr, id: u16) {
        self.all.retain(|_, one| one.peer != peer || one.unconfirmed != Some(id));
    }

    /// Whether the next change of a resource needs scheduling: it has observers, and no
    /// change is scheduled. Marks it as scheduled.
    pub fn is_to_change(&mut self, resource: usize) -> bool {
        let observed = self.all.values().any(|one| one.pending.resource == resource);
        observed && self.changing.insert(resource)
    }

    /// Handles the change of a resource. Returns the observers to notify, and whether the
    /// notification is confirmable. An observer whose last notification is not acknowledged
    /// yet is notified afterwards (section 4.5.2).
    pub fn changed(&mut self, resource: usize, now: Instant) -> Vec<(u64, Observer, bool)> {
        self.changing.remove(&resource);
        let own = self.all.iter_mut().filter(|(_, one)| one.pending.resource == resource);
        own.filter_map(|(number, one)| one.notify(now).map(|confirm| (*number, *one, confirm)))
            .collect()
    }

    /// Handles the acknowledgement of a notification. Returns the observer if the value has
    /// changed since.
    pub fn acknowledged(&mut self, number: u64, now: Instant) -> Option<(Observer, bool)> {
        let one = self.all.get_mut(&number)?;
        (one.is_waiting, one.confirmed) = (false, now);
        let behind = std::mem::take(&mut one.behind);
        let confirm = behind.then(|| one.notify(now)).flatten()?;
        Some((*one, confirm))
    }
}

impl Observer {
    /// Whether its next notification is confirmable; None if it has to wait.
    fn notify(&mut self, now: Instant) -> Option<bool> {
        if self.is_waiting {
            self.behind = true;
            return None;
        }
        self.is_waiting = self.confirmable || now - self.confirmed >= CONFIRM_INTERVAL;
        Some(self.is_waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::START;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], port))
    }

    fn notifications(some: &mut Observation, resource: usize, now: Instant) -> Vec<(u64, bool)> {
        let notifications = some.changed(resource, now).into_iter();
        notifications.map(|(number, _, confirm)| (number, confirm)).collect()
    }

    #[test]
    fn observers_are_told_of_their_resource() {
        let mut some = Observation::default();
        let of = |resource, token: &[u8]| PendingRequest::of(peer(1), resource, token);
        assert!(some.register(peer(1), of(0, b"a"), false, START));
        assert!(some.register(peer(1), of(1, b"b"), false, START));
        assert!(some.register(peer(2), of(0, b"a"), true, START));
        assert_eq!(notifications(&mut some, 0, at(1)), [(0, false), (2, true)]);
        assert_eq!(notifications(&mut some, 1, at(1)), [(1, false)]);
        assert!(some.is_to_change(0) && !some.is_to_change(0) && !some.is_to_change(2));
        // The same token again, for another resource.
        assert!(some.register(peer(1), of(2, b"b"), false, START));
        assert!(some.is_to_change(2) && !some.is_to_change(1));
        some.deregister(peer(1), b"b");
        some.remove(0);
        assert_eq!(notifications(&mut some, 2, at(1)), []);
    }

    #[test]
    fn the_next_notification_waits_for_the_last_ones_acknowledgement() {
        let mut some = Observation::default();
        some.register(peer(1), PendingRequest::of(peer(1), 0, b"a"), true, START);
        assert_eq!(notifications(&mut some, 0, at(1)), [(0, true)]);
        assert_eq!(notifications(&mut some, 0, at(2)), []);
        assert!(some.acknowledged(0, at(3)).is_some_and(|(_, confirm)| confirm), "it is behind");
        assert!(some.acknowledged(0, at(4)).is_none());
        assert_eq!(notifications(&mut some, 0, at(5)), [(0, true)]);
        assert!(some.acknowledged(9, at(4)).is_none());
        // Non-confirmable, except one per interval.
        some.register(peer(2), PendingRequest::of(peer(2), 1, b"a"), false, START);
        assert_eq!(
            notifications(&mut some, 1, START + CONFIRM_INTERVAL - Span::from_ns(1)),
            [(1, false)]
        );
        assert_eq!(notifications(&mut some, 1, START + CONFIRM_INTERVAL), [(1, true)]);
        some.acknowledged(1, START + CONFIRM_INTERVAL);
        assert_eq!(
            notifications(&mut some, 1, START + CONFIRM_INTERVAL + Span::from_ns(1)),
            [(1, false)]
        );
    }

    #[test]
    fn there_are_no_more_than_so_many() {
        let mut some = Observation::default();
        for port in 0..2_000 {
            let registered =
                some.register(peer(port), PendingRequest::of(peer(port), 0, b""), false, START);
            assert_eq!(registered, usize::from(port) < MAX_OBSERVERS);
        }
    }
}
