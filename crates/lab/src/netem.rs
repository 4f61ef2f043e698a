//! The kernel's own impairments: the queueing discipline `netem` (sch_netem) at an interface,
//! configured and queried by rtnetlink(7).
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

/// Maximum number of entries of a distribution in the kernel.
pub const DISTRIBUTION_MOST: usize = 16_384;
/// The value of an entry that means one jitter: `NETEM_DIST_SCALE` of linux/pkt_sched.h.
pub const DISTRIBUTION_SCALE: f64 = 8192.0;
/// Maximum jitter: the kernel silently truncates greater values.
pub const JITTER_MOST: Span = Span::from_ns(i32::MAX as u64);

/// A configuration in netem's terms.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Netem {
    /// Mean delay.
    pub delay: Span,
    /// Its variation; at most [`JITTER_MOST`].
    pub jitter: Span,
    /// Correlation of the variation.
    pub correlation: Ratio,
    /// 1 to [`DISTRIBUTION_MOST`] equally likely variations in units of the jitter divided by
    /// [`DISTRIBUTION_SCALE`]; empty for a uniform distribution.
    pub distribution: Vec<i16>,
    /// Loss model.
    pub loss: Loss,
    /// Fraction of frames with a flipped bit.
    pub corrupt: Chance,
    /// Fraction of duplicated frames.
    pub duplicate: Chance,
    /// Fraction of frames that are not delayed.
    pub reorder: Chance,
    /// Distance between reordered frames; 1 or more.
    pub gap: u32,
    /// The link's rate; 8 bit/s or more, rounded down to whole bytes per second.
    pub rate: Option<Rate>,
    /// Overhead per frame, in bytes; may be negative.
    pub overhead: i32,
    /// The cells of a frame: size, and overhead of each. Greater sizes count as 2 GiB.
    pub cell: Option<(Bytes, Bytes)>,
    /// Queue limit in frames, delayed ones included; 1 or more.
    pub limit: u32,
    /// Slots in which collected frames leave together.
    pub slot: Option<Slot>,
    /// Random seed; kernels before 6.6 ignore it.
    pub seed: u64,
}

/// A fraction of frames, and the correlation of the draws that select them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Chance {
    /// The fraction.
    pub share: Ratio,
    /// Correlation of successive draws.
    pub correlation: Ratio,
}

/// Netem's loss models.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Loss {
    /// A random fraction.
    Random(Chance),
    /// Gilbert-Elliott: transition probabilities, and loss in each state.
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
    /// Markov model with four states: transition probabilities.
    #[allow(missing_docs)]
    Markov { p13: Ratio, p31: Ratio, p32: Ratio, p23: Ratio, p14: Ratio },
}

impl Default for Loss {
    fn default() -> Self {
        Self::Random(Chance::default())
    }
}

/// When collected frames leave.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    /// Minimum time to a slot.
    pub min: Span,
    /// Maximum time to a slot.
    pub max: Span,
    /// Maximum number of frames per slot.
    pub packets: Option<u32>,
    /// Maximum number of bytes per slot.
    pub bytes: Option<Bytes>,
}

/// Netem's counters at an interface since it was configured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Forwarded frames, duplicates included.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Dropped frames: configured losses, or beyond the queue limit.
    pub dropped: u64,
}

/// Sets netem at the interface with this ifindex, in place of the previous discipline.
pub(crate) fn set(interface: u32, netem: &Netem) -> Result<(), Errno> {
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let mut message = Message::new(libc::RTM_NEWQDISC, flags, &at_root(interface));
    message.text(TCA_KIND, "netem");
    netem.write(&mut message);
    ask(&message.finish()).map(drop)
}

/// Removes the discipline at the interface with this ifindex: it gets each frame at once.
pub(crate) fn remove_queue(interface: u32) -> Result<(), Errno> {
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    let mut message = Message::new(libc::RTM_NEWQDISC, flags, &at_root(interface));
    message.text(TCA_KIND, "noqueue");
    ask(&message.finish()).map(drop)
}

/// Name of the discipline at the interface with this ifindex.
#[cfg(test)]
pub(crate) fn discipline(interface: u32) -> Result<String, Errno> {
    let message = Message::new(libc::RTM_GETQDISC, libc::NLM_F_ECHO, &at_root(interface));
    let answer = ask(&message.finish())?;
    let name = answer.get(TCMSG..).and_then(|attributes| find(attributes, TCA_KIND));
    let name = name.ok_or(Errno::EBADMSG)?;
    Ok(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned())
}

/// The counters of the discipline at the interface with this ifindex.
pub(crate) fn passed(interface: u32) -> Result<Passed, Errno> {
    // Without NLM_F_ECHO, older kernels notify all listeners but not the sender of the request.
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

/// A fraction, scaled to 2^32 - 1.
fn share(ratio: Ratio) -> u32 {
    (ratio.fraction() * f64::from(u32::MAX)).round() as u32
}

/// Consecutive numbers, as in a `struct` of them.
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
        // Here delay and jitter are in ticks, below in nanoseconds.
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
                // The kernel's third number is the fraction that the bad state lets through.
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
