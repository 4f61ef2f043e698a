//! Transmissions on a CSMA channel, and what stations hear of them.

use crate::reception::Reception;
use std::sync::Arc;
use units::Instant;

/// The channel as each station hears it.
#[derive(Debug)]
pub(super) struct Air {
    /// Which stations hear each other; `None`: all do.
    pub reception: Option<Arc<Reception>>,
    sent: Vec<OnAir>,
    /// End of the last transmission that each station heard.
    idle_since: Vec<Instant>,
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

    /// The stations at which it did not collide.
    pub fn clean(&self) -> Vec<usize> {
        let clean = self.receivers.iter().filter(|receiver| !receiver.collided);
        clean.filter_map(|receiver| receiver.station).collect()
    }
}

impl Air {
    /// An idle channel.
    pub fn new(stations: usize) -> Self {
        Self { reception: None, sent: Vec::new(), idle_since: vec![Instant::START; stations] }
    }

    /// Adds a station.
    pub fn attach(&mut self) {
        self.idle_since.push(Instant::START);
    }

    /// Whether `station` has heard no transmission since then, and hears none now.
    pub fn was_idle(&self, station: usize, since: Instant) -> bool {
        let hears = |sent: &OnAir| hears(self.reception.as_deref(), sent.sender, station);
        !self.sent.iter().any(hears) && self.idle_since[station] <= since
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
        let (reception, sender) = (self.reception.as_deref(), sent.sender);
        // A station that sends does not receive: it hears itself.
        let disturbs = |from: usize, receiver: Option<usize>| {
            receiver.is_none_or(|station| hears(reception, from, station))
        };
        for receiver in self.sent.iter_mut().flat_map(|other| &mut other.receivers) {
            receiver.collided |= disturbs(sender, receiver.station);
        }
        let collided = |to| self.sent.iter().any(|other| disturbs(other.sender, to));
        let receivers =
            to.into_iter().map(|station| Receiver { station, collided: collided(station) });
        sent.receivers = receivers.collect();
        self.sent.push(sent);
    }

    /// Ends the transmission of this kind of `link`.
    pub fn leave(&mut self, link: usize, kind: Kind, at: Instant) -> Option<OnAir> {
        let place = self.sent.iter().position(|sent| (sent.link, sent.kind) == (link, kind))?;
        let sent = self.sent.swap_remove(place);
        for (station, idle_since) in self.idle_since.iter_mut().enumerate() {
            if hears(self.reception.as_deref(), sent.sender, station) {
                *idle_since = at;
            }
        }
        Some(sent)
    }
}

/// Whether station `to` hears transmissions of `from`.
fn hears(reception: Option<&Reception>, from: usize, to: usize) -> bool {
    reception.is_none_or(|reception| reception.hears(from, to))
}
