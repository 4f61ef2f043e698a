//! Transmissions on a CSMA channel, and what stations hear of them.

use crate::radios::Radios;
use crate::reception::Reception;
use std::sync::Arc;
use units::{Instant, Span};

/// The channel as each station hears it.
#[derive(Debug)]
pub(super) struct Air {
    /// Which stations hear each other; `None`: all do.
    pub reception: Option<Arc<Reception>>,
    /// Which stations' radios are off.
    pub radios: Radios,
    sent: Vec<OnAir>,
    stations: Vec<Station>,
    /// Time from the start of a transmission until receivers are bound to it.
    binding: Span,
}

/// What a station sends and hears.
#[derive(Debug, Clone, Copy, Default)]
struct Station {
    /// Number of its transmissions on the air.
    own: u32,
    /// Number of those of others that it hears.
    heard: u32,
    /// End of the last transmission that it sent or heard.
    idle_since: Instant,
    /// Start of its reception, if it receives.
    since: Instant,
    /// Its radio is off, for its time of reception.
    is_off: bool,
    sending: Span,
    receiving: Span,
}

impl Station {
    fn receives(self) -> bool {
        self.own == 0 && self.heard > 0 && !self.is_off
    }

    /// Changes the numbers of transmissions at `at`.
    fn change(&mut self, at: Instant, change: impl FnOnce(&mut Self)) {
        let before = self.receives();
        change(self);
        match (before, self.receives()) {
            (false, true) => self.since = at,
            (true, false) => self.receiving += at - self.since,
            _ => {}
        }
    }
}

/// Kind of a transmission. A link has at most one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A frame of the link, or the acknowledgement of it.
    Own,
    /// An acknowledgement that the station of the link makes itself.
    Answer,
}

/// A transmission.
#[derive(Debug)]
pub(super) struct OnAir {
    /// Start of the transmission.
    pub since: Instant,
    link: usize,
    kind: Kind,
    /// The sending station: that of the link, or the receiver that acknowledges its frame.
    sender: usize,
    receivers: Vec<Receiver>,
}

/// A receiver of a transmission.
#[derive(Debug, Clone, Copy)]
struct Receiver {
    /// `None`: all stations, which hear each other.
    station: Option<usize>,
    collided: bool,
}

impl OnAir {
    /// Whether it collided at any receiver.
    pub fn collided(&self) -> bool {
        self.receivers.iter().any(|receiver| receiver.collided)
    }

    /// Whether it collided at all its receivers: a frame for all may reach some of them.
    pub fn collided_for_all(&self) -> bool {
        self.collided() && self.receivers.iter().all(|receiver| receiver.collided)
    }

    /// Whether it broke off, because its sender's radio went off: it is received by none.
    pub fn broke_off(&self, radios: &Radios) -> bool {
        radios.was_off_since(self.sender, self.since)
    }

    /// The stations whose radios were on throughout and at which it did not collide.
    pub fn clean(&self, radios: &Radios) -> Vec<usize> {
        let clean = self.receivers.iter().filter(|own| !own.collided);
        let stations = clean.filter_map(|receiver| receiver.station);
        stations.filter(|station| !radios.was_off_since(*station, self.since)).collect()
    }
}

impl Air {
    /// An idle channel. `binding` is the time from the start of a transmission until receivers are
    /// bound to it: another one that begins later cannot take its place.
    pub fn new(stations: usize, binding: Span) -> Self {
        let stations = vec![Station::default(); stations];
        let radios = Radios::default();
        Self { reception: None, radios, sent: Vec::new(), stations, binding }
    }

    /// Adds a station, which hears from `now` on.
    pub fn attach(&mut self, now: Instant) {
        let (station, reception) = (self.stations.len(), self.reception.as_deref());
        let heard = self.sent.iter().filter(|sent| hears(reception, sent.sender, station)).count();
        self.stations.push(Station { heard: heard as u32, since: now, ..Station::default() });
    }

    /// Switches the radio of `station` off or on at `at`.
    pub fn set_power(&mut self, station: usize, is_on: bool, at: Instant) {
        self.stations[station].change(at, |station| station.is_off = !is_on);
        self.radios.set(station, is_on, at);
    }

    /// Whether `station` has heard no transmission since then, and hears none now.
    pub fn was_idle(&self, station: usize, since: Instant) -> bool {
        let Station { own, heard, idle_since, .. } = self.stations[station];
        own == 0 && heard == 0 && idle_since <= since
    }

    /// Time for which each station has sent, and received while it did not send, in the
    /// transmissions that have ended.
    pub fn times(&self) -> impl Iterator<Item = (Span, Span)> + '_ {
        self.stations.iter().map(|station| (station.sending, station.receiving))
    }

    /// Begins the frame of `link` to station `to`; `None`: to all, or not identified.
    pub fn start(&mut self, link: usize, to: Option<usize>, at: Instant) {
        let receivers = match (&self.reception, to) {
            (Some(_), Some(to)) => vec![Some(to)],
            _ => self.all(link),
        };
        self.enter(
            OnAir { since: at, link, kind: Kind::Own, sender: link, receivers: vec![] },
            receivers,
        );
    }

    /// Begins an acknowledgement that the station of `link` makes itself. All that hear it get it.
    pub fn start_answer(&mut self, link: usize, at: Instant) {
        let receivers = self.all(link);
        self.enter(
            OnAir { since: at, link, kind: Kind::Answer, sender: link, receivers: vec![] },
            receivers,
        );
    }

    /// The receivers of a transmission of `link` for all.
    fn all(&self, link: usize) -> Vec<Option<usize>> {
        match &self.reception {
            None => vec![None],
            Some(reception) => reception.receivers(link).map(Some).collect(),
        }
    }

    /// Begins the acknowledgement of station `from` for the frame of `link`.
    pub fn start_ack(&mut self, link: usize, from: Option<usize>, at: Instant) {
        let receiver = self.reception.as_ref().map(|_| link);
        // Without a reception, the sender is not identified, and it does not matter.
        let sender = from.unwrap_or(link);
        self.enter(
            OnAir { since: at, link, kind: Kind::Own, sender, receivers: vec![] },
            vec![receiver],
        );
    }

    /// Puts `sent` on the air, for these receivers.
    fn enter(&mut self, mut sent: OnAir, to: Vec<Option<usize>>) {
        let at = sent.since;
        let collided: Vec<_> = self.sent.iter().map(|other| self.disturbed(other, &sent)).collect();
        for (other, collided) in self.sent.iter_mut().zip(collided) {
            let receivers = other.receivers.iter_mut().zip(collided);
            receivers.for_each(|(receiver, collided)| receiver.collided |= collided);
        }
        let receivers = to
            .into_iter()
            .map(|station| Receiver { station, collided: self.is_late(&sent, station) });
        sent.receivers = receivers.collect();
        for (station, heard) in self.stations.iter_mut().enumerate() {
            if station == sent.sender {
                heard.change(at, |station| station.own += 1);
            } else if hears(self.reception.as_deref(), sent.sender, station) {
                heard.change(at, |station| station.heard += 1);
            }
        }
        self.sent.push(sent);
    }

    /// Whether `sent`, which begins now, destroys `other` at each of its receivers.
    fn disturbed(&self, other: &OnAir, sent: &OnAir) -> Vec<bool> {
        let reception = self.reception.as_deref();
        let is_destroyed = |receiver: &Receiver| {
            let (Some(station), Some(reception)) = (receiver.station, reception) else {
                return true;
            };
            // A station that sends does not receive: it hears itself.
            let disturbs = reception.hears(sent.sender, station);
            let is_bound = [station, other.sender].contains(&sent.sender);
            let all = self.sent.iter().map(|sent| sent.sender).chain([sent.sender]);
            let interferers =
                all.filter(|from| *from != other.sender && reception.hears(*from, station));
            disturbs && (is_bound || !reception.captures(other.sender, station, interferers))
        };
        other.receivers.iter().map(is_destroyed).collect()
    }

    /// Whether `sent`, which begins now, is destroyed by earlier transmissions at `receiver`.
    fn is_late(&self, sent: &OnAir, receiver: Option<usize>) -> bool {
        let (Some(station), Some(reception)) = (receiver, self.reception.as_deref()) else {
            return !self.sent.is_empty();
        };
        let earlier = || self.sent.iter().filter(|other| reception.hears(other.sender, station));
        let is_bound = |other: &OnAir| {
            let is_sender = [station, sent.sender].contains(&other.sender);
            is_sender || sent.since >= other.since + self.binding
        };
        let interferers = earlier().map(|other| other.sender);
        earlier().next().is_some()
            && (earlier().any(is_bound) || !reception.captures(sent.sender, station, interferers))
    }

    /// Ends the transmission of this kind of `link`.
    pub fn leave(&mut self, link: usize, kind: Kind, at: Instant) -> Option<OnAir> {
        let place = self.sent.iter().position(|sent| (sent.link, sent.kind) == (link, kind))?;
        let sent = self.sent.swap_remove(place);
        for (station, heard) in self.stations.iter_mut().enumerate() {
            if station == sent.sender {
                heard.sending += at - sent.since;
                heard.change(at, |station| station.own -= 1);
            } else if hears(self.reception.as_deref(), sent.sender, station) {
                heard.change(at, |station| station.heard -= 1);
            } else {
                continue;
            }
            heard.idle_since = at;
        }
        Some(sent)
    }
}

/// Whether station `to` hears transmissions of `from`.
fn hears(reception: Option<&Reception>, from: usize, to: usize) -> bool {
    reception.is_none_or(|reception| reception.hears(from, to))
}
