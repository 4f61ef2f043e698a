//! A TCP flow with always something to send: slow start, congestion avoidance as Reno (RFC 5681) or
//! CUBIC (RFC 9438), selective acknowledgements, a retransmission timeout.

use std::collections::BTreeMap;

/// Bytes of a full packet on the wire, and of an acknowledgement.
pub const PACKET: usize = 1_514;
pub const ACK: usize = 66;
const DATA: u64 = 1_448;
/// Later packets whose arrival shows that one is lost (RFC 6675).
const REORDER: u64 = 3;

pub struct Tcp {
    pub up: bool,
    cubic: bool,
    window: f64,
    threshold: f64,
    flying: BTreeMap<u64, u64>,
    next: u64,
    /// Losses before this packet belong to the last decrease.
    recover: u64,
    max: f64,
    cut_at: u64,
    trip: Option<f64>,
    acked_at: u64,
    /// When its last packet was sent.
    pub sent_at: u64,
    pub delivered: u64,
    /// When it has nothing more to send.
    pub until: u64,
}

impl Tcp {
    pub fn new(up: bool, cubic: bool) -> Self {
        Self {
            up,
            cubic,
            window: 10.0,
            threshold: f64::MAX,
            flying: BTreeMap::new(),
            next: 0,
            recover: 0,
            max: 0.0,
            cut_at: 0,
            trip: None,
            acked_at: 0,
            sent_at: 0,
            delivered: 0,
            until: u64::MAX,
        }
    }

    /// The next packet to send, if the window has room.
    pub fn send(&mut self, now: u64) -> Option<u64> {
        if self.flying.len() as f64 >= self.window || now >= self.until {
            return None;
        }
        self.next += 1;
        self.flying.insert(self.next, now);
        Some(self.next)
    }

    /// The acknowledgement of a packet arrives.
    pub fn acknowledged(&mut self, packet: u64, now: u64) {
        let Some(sent_at) = self.flying.remove(&packet) else { return };
        self.delivered += DATA;
        self.acked_at = now;
        let trip = (now - sent_at) as f64;
        self.trip = Some(self.trip.map_or(trip, |known| 0.875 * known + 0.125 * trip));
        let lost: Vec<u64> =
            self.flying.range(..packet.saturating_sub(REORDER)).map(|(n, _)| *n).collect();
        for lost in lost {
            self.flying.remove(&lost);
            if lost > self.recover {
                self.recover = self.next;
                // Fast convergence (RFC 9438, 4.7).
                let shrinks = self.window < self.max && self.cubic;
                self.max = self.window * if shrinks { 0.85 } else { 1.0 };
                self.cut_at = now;
                self.window = (self.window * if self.cubic { 0.7 } else { 0.5 }).max(2.0);
                self.threshold = self.window;
            }
        }
        self.grow(now);
    }

    fn grow(&mut self, now: u64) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let reno = 1.0 / self.window;
        if !self.cubic {
            self.window += reno;
            return;
        }
        let passed = (now - self.cut_at) as f64 / 1e9;
        let k = (self.max * 0.3 / 0.4).cbrt();
        let target = 0.4 * (passed - k).powi(3) + self.max;
        // The friendly region: as fast as Reno with a decrease to 0.7.
        let friendly = 0.53 * reno;
        self.window += ((target - self.window) / self.window).clamp(friendly, 0.5);
    }

    /// Time of the timeout.
    pub fn due(&self) -> u64 {
        self.acked_at + self.trip.map_or(1e9, |trip| (4.0 * trip).max(1e9)) as u64
    }

    /// Nothing has arrived for long: begins again.
    pub fn expire(&mut self, now: u64) {
        self.flying.clear();
        (self.threshold, self.window) = ((self.window / 2.0).max(2.0), 1.0);
        (self.recover, self.acked_at) = (self.next, now);
    }
}
