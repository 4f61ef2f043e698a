//! Random networks and sessions: the number of a draw gives all of it.

use units::{Purpose, RandomStream};

/// Length of a session, in s.
pub const SECONDS: f64 = 240.0;
/// Maximum share of the slower direction that messages and answers need by the physical bound.
const MOST_LOAD: f64 = 0.4;
/// Headers of a packet (Ethernet and IPv4) and of a datagram (UDP), in bytes: of the packets of a
/// datagram, only the first has the latter.
// Ethernet has 14, IPv4 20.
const PACKET_HEADERS: f64 = 34.0;
const UDP_HEADER: f64 = 8.0;
/// Small packets: RFC 1191, section 7.
const SHORT: u32 = 296;
/// Name of the interaction of cross traffic.
pub const CROSS: &str = "cross";
/// Draws from this number on may also have a shrinking path MTU and cross traffic: earlier ones stay
/// as they were in published results.
const HARDER_FROM: u64 = 1_001;

/// The network from a point in time to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// Start, in s from the start of the timetable.
    pub at: f64,
    /// Rate of the hub's link in each direction, in kbit/s.
    pub up: f64,
    /// Rate to the hub, in kbit/s.
    pub down: f64,
    /// Delay of a member's link in each direction, and its jitter, in ms.
    pub delay: f64,
    /// See `delay`.
    pub jitter: f64,
    /// Frame loss of a member's link in each direction, 0 to 1.
    pub loss: f64,
    /// Mean number of frames that are lost in a row; 1 for independent losses.
    pub burst: f64,
    /// Whether the network carries multicast.
    pub multicast: bool,
}

/// Members with a worse link.
#[derive(Debug, Clone, PartialEq)]
pub struct Distant {
    /// Their number, included in the number of members.
    pub count: u32,
    /// Frame loss of their links, 0 to 1.
    pub loss: f64,
    /// Their delay, as a multiple of the other members'.
    pub delay: f64,
}

/// Links that carry nothing for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Outage {
    /// Whose: a node or a group.
    pub of: &'static str,
    /// Start, in s.
    pub at: f64,
    /// Length, in s.
    pub lasts: f64,
}

/// A path MTU that is smaller for a while, without ICMP messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrink {
    /// The path MTU, in bytes.
    pub mtu: u32,
    /// Start, in s.
    pub at: f64,
    /// Length, in s.
    pub lasts: f64,
}

/// Traffic of others over the hub's link, in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Cross {
    /// Bytes of each datagram.
    pub payload: u32,
    /// Time between datagrams, in ms.
    pub every: f64,
}

/// A session over a random network.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// Number of the draw.
    pub number: u64,
    /// Number of members.
    pub members: u32,
    /// Those with a worse link.
    pub distant: Option<Distant>,
    /// Bytes of a message and of each answer.
    pub payload: u32,
    /// Time between messages, in ms.
    pub every: f64,
    /// Maximum packet size, in bytes.
    pub mtu: u32,
    /// The network over time.
    pub phases: Vec<Phase>,
    /// Interruptions.
    pub outages: Vec<Outage>,
    /// Whether the path MTU shrinks.
    pub shrink: Option<Shrink>,
    /// Cross traffic.
    pub cross: Option<Cross>,
}

struct Dice(RandomStream, u64);

impl Dice {
    /// Uniform in [0, 1).
    fn uniform(&mut self) -> f64 {
        self.1 += 1;
        self.0.uniform(self.1)
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform in the logarithm.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    fn chance(&mut self, share: f64) -> bool {
        self.uniform() < share
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[((self.uniform() * of.len() as f64) as usize).min(of.len() - 1)]
    }
}

impl Draw {
    /// The draw with this number.
    pub fn new(number: u64) -> Self {
        let mut dice = Dice(units::Draw::new(number, 0, 0).of(Purpose::Choice), 0);
        let members = dice.one(&[1, 2, 5, 10, 20, 50]);
        let distant = (members > 1 && dice.chance(0.3)).then(|| Distant {
            count: (members / 10).max(1),
            loss: dice.between(0.2, 0.6),
            delay: dice.scale(1.0, 4.0),
        });
        let payload = dice.scale(20.0, 4_000.0) as u32;
        // 113: a frame of 127 B with Ethernet's header. 576: RFC 1191, section 7. 1,280: the least of
        // IPv6 (RFC 8200, section 5).
        let mtu = dice.one(&[113, SHORT, 576, 1_280, 1_500]);
        let phases = phases(&mut dice);
        let outages = outages(&mut dice, members);
        // A schedule that some phase cannot carry would only measure how its queue grows.
        let slowest = phases.iter().map(|phase| phase.up.min(phase.down));
        let slowest = slowest.fold(f64::INFINITY, f64::min);
        let least = bits(payload, mtu) * f64::from(members) / slowest / MOST_LOAD;
        let every = dice.scale(500.0, 5_000.0).max(least).round();
        let (shrink, cross) = (shrink(&mut dice, mtu), cross(&mut dice, mtu, slowest));
        let is_harder = number >= HARDER_FROM;
        let (shrink, cross) = (shrink.filter(|_| is_harder), cross.filter(|_| is_harder));
        Self { number, members, distant, payload, every, mtu, phases, outages, shrink, cross }
    }

    /// The least size of a message on the wire, in bits.
    pub fn bits(&self) -> f64 {
        bits(self.payload, self.mtu)
    }
}

/// The least size of a message on the wire, in bits: one datagram, in as few packets as it needs.
fn bits(payload: u32, mtu: u32) -> f64 {
    let datagram = f64::from(payload) + UDP_HEADER;
    // 20: the IPv4 header, which the MTU includes.
    let packets = (datagram / f64::from(mtu - 20)).ceil();
    (datagram + packets * PACKET_HEADERS) * 8.0
}

/// A network that changes up to five times. In each change every property has an even chance to
/// stay as it is.
fn phases(dice: &mut Dice) -> Vec<Phase> {
    let mut times: Vec<f64> = (0..dice.one(&[0, 1, 2, 3, 4, 5]))
        .map(|_| dice.between(20.0, SECONDS - 20.0).round())
        .collect();
    times.sort_by(f64::total_cmp);
    times.dedup_by(|later, earlier| *later - *earlier < 10.0);
    let mut phases: Vec<Phase> = Vec::new();
    for at in std::iter::once(0.0).chain(times) {
        let fresh = phase(dice, at);
        let next = match phases.last() {
            None => fresh,
            Some(last) => {
                // All values are drawn even if they are not used, so that a choice here does not
                // change the later draws.
                let mut next = Phase { at, ..last.clone() };
                if dice.chance(0.5) {
                    (next.up, next.down) = (fresh.up, fresh.down);
                }
                if dice.chance(0.5) {
                    (next.delay, next.jitter) = (fresh.delay, fresh.jitter);
                }
                if dice.chance(0.5) {
                    (next.loss, next.burst) = (fresh.loss, fresh.burst);
                }
                if dice.chance(0.5) {
                    next.multicast = fresh.multicast;
                }
                next
            }
        };
        phases.push(next);
    }
    phases
}

fn phase(dice: &mut Dice, at: f64) -> Phase {
    let up = dice.scale(50.0, 10_000.0).round();
    let down = if dice.chance(0.3) { (up * dice.scale(0.1, 1.0)).max(30.0).round() } else { up };
    let delay = dice.scale(2.0, 200.0);
    let jitter = delay * dice.between(0.0, 0.2);
    let loss = if dice.chance(0.4) { 0.0 } else { dice.between(0.0, 0.3) };
    let burst = if dice.chance(0.25) { dice.scale(2.0, 15.0) } else { 1.0 };
    Phase { at, up, down, delay, jitter, loss, burst, multicast: !dice.chance(0.2) }
}

fn outages(dice: &mut Dice, members: u32) -> Vec<Outage> {
    let mut outages = Vec::new();
    if dice.chance(0.15) {
        let (at, lasts) = (dice.between(20.0, 200.0).round(), dice.between(2.0, 10.0).round());
        outages.push(Outage { of: "hub", at, lasts });
    }
    if members > 2 && dice.chance(0.2) {
        // A member leaves and comes back.
        let (at, lasts) = (dice.between(20.0, 180.0).round(), dice.between(5.0, 40.0).round());
        outages.push(Outage { of: "member-1", at, lasts });
    }
    outages
}

/// In a third of the draws, where packets can be shorter than the path's.
fn shrink(dice: &mut Dice, mtu: u32) -> Option<Shrink> {
    let (happens, share) = (dice.chance(0.33), dice.between(0.4, 0.8));
    let (at, lasts) = (dice.between(20.0, 160.0).round(), dice.between(30.0, 120.0).round());
    let long = mtu >= 576;
    let mtu = ((f64::from(mtu) * share) as u32).max(SHORT);
    (happens && long).then_some(Shrink { mtu, at, lasts })
}

/// In half of the draws: datagrams and answers at 10 to 40 % of the slowest rate, in kbit/s.
fn cross(dice: &mut Dice, mtu: u32, slowest: f64) -> Option<Cross> {
    let (happens, share) = (dice.chance(0.5), dice.between(0.1, 0.4));
    // 20: the IPv4 header. One packet each.
    let payload = (mtu - 20 - UDP_HEADER as u32).min(dice.scale(40.0, 1_200.0) as u32);
    let every = bits(payload, mtu) / (slowest * share);
    happens.then_some(Cross { payload, every })
}
