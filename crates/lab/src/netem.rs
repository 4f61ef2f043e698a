//! The kernel's own impairments: a queueing discipline `netem` (sch_netem) at an
//! interface, set and asked for its counts by rtnetlink(7).
//!
//! Numbers and layouts are those of `linux/pkt_sched.h` and `linux/rtnetlink.h`.

use crate::netlink::{Message, NESTED, ask, find};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use units::{Bytes, Rate, Ratio, Span};

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TC_H_ROOT: u32 = u32::MAX;
/// Bytes of `struct tcmsg`.
const TCMSG: usize = 20;

const CORR: u16 = 1;
const DELAY_DIST: u16 = 2;
const REORDER: u16 = 3;
const CORRUPT: u16 = 4;
const LOSS: u16 = 5;
const RATE: u16 = 6;
const RATE64: u16 = 8;
const LATENCY64: u16 = 10;
const JITTER64: u16 = 11;
const SLOT: u16 = 12;
const PRNG_SEED: u16 = 14;
const LOSS_GI: u16 = 1;
const LOSS_GE: u16 = 2;

/// The most entries of a distribution that the kernel takes.
pub const DISTRIBUTION_MOST: usize = 16_384;
/// Of an entry, one jitter.
pub const DISTRIBUTION_SCALE: f64 = 8192.0;
/// The longest jitter: the kernel cuts what is more in silence.
pub const JITTER_MOST: Span = Span::from_ns(i32::MAX as u64);

/// What netem is asked for, in its own terms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Netem {
    /// Mean delay.
    pub delay: Span,
    /// Its variation; [`JITTER_MOST`] at most.
    pub jitter: Span,
    /// Correlation of the variation.
    pub correlation: Ratio,
    /// Equally likely variations, of which [`DISTRIBUTION_SCALE`] is one jitter;
    /// 1 to [`DISTRIBUTION_MOST`] of them. None for an even distribution.
    pub distribution: Vec<i16>,
    /// Which frames are lost.
    pub loss: Loss,
    /// Frames of which a bit is turned over.
    pub corrupt: Chance,
    /// Frames that come twice.
    pub duplicate: Chance,
    /// Frames that are not delayed.
    pub reorder: Chance,
    /// Frames from one of these to the next; 1 or more.
    pub gap: u32,
    /// The link's rate; 8 bit/s or more, and rounded down to whole bytes a second.
    pub rate: Option<Rate>,
    /// Bytes that each frame takes more, or less.
    pub overhead: i32,
    /// The cells that frames are cut into: size, and overhead of each. Sizes above
    /// 2 GiB are taken for that.
    pub cell: Option<(Bytes, Bytes)>,
    /// Frames that it holds at most, those on their way included; 1 or more.
    pub limit: u32,
    /// Frames are gathered and leave together.
    pub slot: Option<Slot>,
    /// The seed of its draws; kernels before 6.6 have none and pass over it.
    pub seed: u64,
}

/// A share of frames, and the correlation of the draws that pick them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Chance {
    /// The share.
    pub share: Ratio,
    /// The correlation of a draw with the one before.
    pub correlation: Ratio,
}

/// Which frames netem loses.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Loss {
    /// A share, at random.
    Random(Chance),
    /// From the good state to the bad, back, and loss in the bad and in the good.
    GilbertElliott {
        /// From good to bad.
        p: Ratio,
        /// From bad to good.
        r: Ratio,
        /// Loss in the bad state (tc's `1-h`).
        bad: Ratio,
        /// Loss in the good state (tc's `1-k`).
        good: Ratio,
    },
    /// Four states; from one to another.
    #[allow(missing_docs)]
    Markov { p13: Ratio, p31: Ratio, p32: Ratio, p23: Ratio, p14: Ratio },
}

impl Default for Loss {
    fn default() -> Self {
        Self::Random(Chance::default())
    }
}

/// When what was gathered leaves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// The shortest time to a slot.
    pub min: Span,
    /// The longest.
    pub max: Span,
    /// Frames that leave in one.
    pub packets: Option<u32>,
    /// Bytes that leave in one.
    pub bytes: Option<Bytes>,
}

/// What netem did at an interface since it was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Frames that it let through, copies included.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that it dropped: lost as asked, or beyond its limit.
    pub dropped: u64,
}

/// Puts netem at the interface with this number (ifindex), in place of what was
/// there.
pub(crate) fn set(interface: u32, netem: &Netem) -> Result<(), Errno> {
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let mut message = Message::new(libc::RTM_NEWQDISC, flags, &at_root(interface));
    message.text(TCA_KIND, "netem");
    netem.write(&mut message);
    ask(&message.finish()).map(drop)
}

/// What the discipline at the interface with this number has done.
pub(crate) fn passed(interface: u32) -> Result<Passed, Errno> {
    // Without the echo older kernels tell all who listen, but not who asks.
    let message = Message::new(libc::RTM_GETQDISC, libc::NLM_F_ECHO, &at_root(interface));
    let answer = ask(&message.finish())?;
    answer.get(TCMSG..).and_then(Passed::read).ok_or(Errno::EBADMSG)
}

/// `struct tcmsg` of the discipline at an interface's root.
fn at_root(interface: u32) -> [u8; TCMSG] {
    let mut header = [0; TCMSG];
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    header[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    header
}

impl Passed {
    fn read(attributes: &[u8]) -> Option<Self> {
        let counts = find(attributes, TCA_STATS2)?;
        let basic = find(counts, TCA_STATS_BASIC)?;
        let queue = find(counts, TCA_STATS_QUEUE)?;
        let whole = |bytes: &[u8]| Some(u64::from(u32::from_ne_bytes(*bytes.first_chunk()?)));
        Some(Self {
            bytes: u64::from_ne_bytes(*basic.first_chunk()?),
            frames: whole(basic.get(8..)?)?,
            dropped: whole(queue.get(8..)?)?,
        })
    }
}

/// A share of 2^32 - 1.
fn share(ratio: Ratio) -> u32 {
    (ratio.fraction() * f64::from(u32::MAX)).round() as u32
}

/// Numbers one after the other, as in a `struct` of them.
fn words<const N: usize>(numbers: [u32; N]) -> Vec<u8> {
    numbers.into_iter().flat_map(u32::to_ne_bytes).collect()
}

fn signed(span: Span) -> [u8; 8] {
    i64::try_from(span.as_ns()).unwrap_or(i64::MAX).to_ne_bytes()
}

fn at_most_i32(number: u64) -> u32 {
    number.min(i32::MAX as u64) as u32
}

impl Netem {
    /// Writes TCA_OPTIONS: `struct tc_netem_qopt`, then attributes.
    fn write(&self, message: &mut Message) {
        let options = message.begin(TCA_OPTIONS);
        let random = match self.loss {
            Loss::Random(chance) => chance,
            _ => Chance::default(),
        };
        let reorders = self.reorder.share.fraction() > 0.0;
        // Delay and jitter stand in ticks here, and in nanoseconds below.
        let gap = if reorders { self.gap.max(1) } else { 0 };
        let (lost, doubled) = (share(random.share), share(self.duplicate.share));
        message.plain(&words([0, self.limit, lost, gap, doubled, 0]));
        message.bytes(LATENCY64, &signed(self.delay));
        message.bytes(JITTER64, &signed(self.jitter.min(JITTER_MOST)));
        let correlations = [self.correlation, random.correlation, self.duplicate.correlation];
        message.bytes(CORR, &words(correlations.map(share)));
        for (kind, chance) in [(REORDER, self.reorder), (CORRUPT, self.corrupt)] {
            message.bytes(kind, &words([share(chance.share), share(chance.correlation)]));
        }
        self.write_loss(message);
        self.write_rate(message);
        if !self.distribution.is_empty() {
            let entries = self.distribution.iter().take(DISTRIBUTION_MOST);
            let bytes: Vec<u8> = entries.flat_map(|entry| entry.to_ne_bytes()).collect();
            message.bytes(DELAY_DIST, &bytes);
        }
        if let Some(slot) = &self.slot {
            let packets = slot.packets.map_or(0, |most| at_most_i32(u64::from(most)));
            let bytes = slot.bytes.map_or(0, |most| at_most_i32(most.get()));
            let most = words([packets, bytes]);
            // Without a distribution of times between slots.
            let value = [&signed(slot.min)[..], &signed(slot.max), &most, &[0; 16]].concat();
            message.bytes(SLOT, &value);
        }
        message.bytes(PRNG_SEED, &self.seed.to_ne_bytes());
        message.end(options);
    }

    fn write_loss(&self, message: &mut Message) {
        let (kind, value) = match self.loss {
            Loss::Random(_) => return,
            Loss::GilbertElliott { p, r, bad, good } => {
                // The kernel's third number is what the bad state lets through.
                (LOSS_GE, words([share(p), share(r), u32::MAX - share(bad), share(good)]))
            }
            Loss::Markov { p13, p31, p32, p23, p14 } => {
                (LOSS_GI, words([p13, p31, p32, p14, p23].map(share)))
            }
        };
        let loss = message.begin(LOSS | NESTED);
        message.bytes(kind, &value);
        message.end(loss);
    }

    fn write_rate(&self, message: &mut Message) {
        let Some(rate) = self.rate else { return };
        let bytes_s = (rate.bit_s() / 8).max(1);
        let (size, overhead) = self.cell.map_or((0, 0), |(size, overhead)| {
            (at_most_i32(size.get()), at_most_i32(overhead.get()))
        });
        let short = u32::try_from(bytes_s).unwrap_or(u32::MAX);
        let overhead_of_frame = u32::from_ne_bytes(self.overhead.to_ne_bytes());
        message.bytes(RATE, &words([short, overhead_of_frame, size, overhead]));
        if bytes_s > u64::from(u32::MAX) {
            message.bytes(RATE64, &bytes_s.to_ne_bytes());
        }
    }
}

#[cfg(test)]
#[path = "netem_tests.rs"]
mod tests;
