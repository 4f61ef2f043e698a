//! Transmission of one direction's frames, one after another.

use crate::cellular_trace::{CELLULAR_TRACE, CellularReplay};
use crate::grant::GRANT;
use crate::keys::{Contradictions, Key, Keys, Kind, Quantity, REMOVE};
use crate::lora::LORA;
use crate::serialiser::{CELLS, SignedBytes};
use crate::stage::{ChannelWait, Stage};
use crate::trace::Follower;
use crate::{Cell, CellularTrace, Framing, Grant, GrantSpec, Lora, LoraSpec, Serialiser, Trace};
use std::path::Path;
use units::{Bytes, Instant, Rate, Span};

/// What determines when frames leave.
#[derive(Debug, Clone, PartialEq)]
pub enum Scheduler {
    /// A data rate, including the link header.
    Rate {
        /// The rate.
        rate: Rate,
        /// Token bucket depth: bytes that an idle link sends at once. 0 makes the rate a pure
        /// serialisation time.
        burst: Bytes,
    },
    /// Delivery opportunities of a recorded link.
    Trace(Trace),
    /// Delivery opportunities of a recorded cellular link under light and heavy load.
    Cellular(CellularTrace),
    /// Grants of a cellular network.
    Grant(GrantSpec),
    /// A LoRa radio.
    Lora(LoraSpec),
}

/// How frames are transmitted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transmission {
    /// `None`: at once.
    pub scheduler: Option<Scheduler>,
    /// Overhead and cells of frames on the link's wire.
    pub framing: Framing,
}

impl From<Rate> for Transmission {
    /// A rate without burst.
    fn from(rate: Rate) -> Self {
        Scheduler::Rate { rate, burst: Bytes::ZERO }.into()
    }
}

impl From<Scheduler> for Transmission {
    fn from(scheduler: Scheduler) -> Self {
        Self { scheduler: Some(scheduler), ..Self::default() }
    }
}

impl Transmission {
    /// The data rate; `None` without a rate, or with another scheduler.
    pub fn rate(&self) -> Option<Rate> {
        match self.scheduler {
            Some(Scheduler::Rate { rate, .. }) => Some(rate),
            _ => None,
        }
    }

    /// The LoRa radio, if one schedules the link.
    pub fn lora(&self) -> Option<&LoraSpec> {
        match &self.scheduler {
            Some(Scheduler::Lora(lora)) => Some(lora),
            _ => None,
        }
    }

    /// Time on air of a packet with a frame of `len` bytes; `None` if no LoRa radio sends it.
    pub(crate) fn time_on_air(&self, len: usize) -> Option<Span> {
        self.lora().map(|lora| lora.time_on_air(self.framing.on_wire(len)))
    }

    /// Grants of a cellular network, if they schedule the link.
    pub fn grant(&self) -> Option<&GrantSpec> {
        match &self.scheduler {
            Some(Scheduler::Grant(grant)) => Some(grant),
            _ => None,
        }
    }
}

/// Keys of the schedulers, of which a link has one: each decides when frames are sent.
pub const SCHEDULERS: [&str; 5] = ["rate", "trace", "cellular_trace", "grant", "lora"];
/// Minimum rate of netem, bit/s: it counts whole bytes per second.
const NETEM_RATE: u64 = 8;

impl Stage for Transmission {
    const KEYS: &'static [Key] = &[
        Key::new(
            "rate",
            Kind::Rate,
            "Data rate of the link, including the Ethernet header. Not allowed for `up` on a \
             `shared` or `csma` channel, which sets the rate. Default: unlimited.",
        ),
        Key::new(
            "burst",
            Kind::Size,
            "Bytes that an idle link forwards at once (token bucket); with 0 B, the rate is a \
             pure serialisation time. Only with `rate`. Default: 0 B.",
        ),
        Key::new(
            "overhead",
            Kind::SignedSize,
            "Bytes added to each frame's length on the link: `24 B`, or `-14 B` for a link \
             without the Ethernet header. Range: may be negative. Default: 0 B.",
        ),
        Key::new(
            "cell",
            Kind::Map(&CELLS),
            "Cells that the link splits frames into, like ATM: `{size: 48 B, overhead: 5 B}`.",
        ),
        Key::new(
            "trace",
            Kind::File,
            "File in Mahimahi's format, in place of `rate`: each line is a time in ms at which \
             1,504 B may leave: an IP packet of up to 1,500 B plus 4 B, as in Mahimahi. The trace \
             repeats after its last time. Values: path.",
        ),
        Key::new(
            "cellular_trace",
            Kind::Map(&CELLULAR_TRACE),
            "Traces under light and heavy load in CellReplay's format, in place of `rate`. The base \
             delay of the light trace adds to `delay`.",
        ),
        Key::new(
            "grant",
            Kind::Map(&GRANT),
            "Transport blocks granted by a cellular network, in place of `rate`.",
        ),
        Key::new(
            "lora",
            Kind::Map(&LORA),
            "Time on air and duty cycle of a LoRa radio, in place of `rate`.",
        ),
    ];
    const ORDER: u8 = 2;
    type Flow = ();

    fn read(keys: &Keys) -> Result<Self, String> {
        let grant = keys.read("grant")?.map(Scheduler::Grant);
        let lora = keys.read("lora")?.map(Scheduler::Lora);
        let trace = keys.read("trace")?.map(Scheduler::Trace);
        let cellular = keys.read("cellular_trace")?.map(Scheduler::Cellular);
        let burst = keys.read_or_default("burst")?;
        let rate = keys.read("rate")?.map(|rate| Scheduler::Rate { rate, burst });
        let overhead: SignedBytes = keys.read_or_default("overhead")?;
        let framing = Framing { overhead: overhead.0, cell: keys.read::<Cell>("cell")? };
        // A checked file has at most one of them.
        Ok(Self { scheduler: grant.or(lora).or(cellular).or(trace).or(rate), framing })
    }

    fn write(&self, keys: &mut Keys) {
        match &self.scheduler {
            None => {}
            Some(Scheduler::Rate { rate, burst }) => {
                keys.insert("rate", rate);
                keys.put("burst", burst);
            }
            Some(Scheduler::Trace(trace)) => keys.insert("trace", trace),
            Some(Scheduler::Cellular(trace)) => keys.insert("cellular_trace", trace),
            Some(Scheduler::Grant(grant)) => keys.insert("grant", grant),
            Some(Scheduler::Lora(lora)) => keys.insert("lora", lora),
        }
        keys.put("overhead", &SignedBytes(self.framing.overhead));
        keys.put("cell", &self.framing.cell);
    }

    fn check(keys: &Keys, wait: ChannelWait, found: &mut Contradictions) {
        found.add_second(keys, &SCHEDULERS, "only one can schedule the link");
        for key in SCHEDULERS.iter().filter(|key| wait == ChannelWait::Shared && keys.has(key)) {
            found.add(*key, "the rate of a shared channel applies to frames going up", REMOVE);
        }
        if keys.has("burst") && !keys.has("rate") {
            needs_rate("burst", found);
        }
        for key in ["overhead", "cell"] {
            check_rate(keys, key, wait, found);
        }
        let cells: Keys = keys.get("cell").unwrap_or_default();
        if cells.get::<Bytes>("size") == Some(Bytes::ZERO) {
            found.add("cell.size", "cells of 0 B have no room for data", "ATM uses `48 B`");
        }
        let grant = keys.get::<GrantSpec>("grant").map(|grant| grant.check());
        let lora = keys.get::<LoraSpec>("lora").map(|lora| lora.check());
        for (key, checked) in [("grant", grant), ("lora", lora)] {
            if let Some(Err(wrong)) = checked {
                // These checks put the fix behind a semicolon.
                let (text, fix) = wrong.split_once("; ").unwrap_or((&wrong, ""));
                found.add(key, text, fix);
            }
        }
    }

    fn check_netem(keys: &Keys, found: &mut Contradictions) {
        if keys.get::<Rate>("rate").is_some_and(|rate| rate.bit_s() < NETEM_RATE) {
            found.add("rate", "a rate below 8 bit/s", "use a higher one");
        }
        if keys.get::<Bytes>("burst").is_some_and(|burst| burst > Bytes::ZERO) {
            found.add("burst", "a burst above the rate", REMOVE);
        }
        for (key, what) in [
            ("trace", "a recorded trace"),
            ("cellular_trace", "a recorded trace"),
            ("grant", "grants"),
            ("lora", "a LoRa radio"),
        ] {
            if keys.has(key) {
                found.add(key, what, REMOVE);
            }
        }
    }

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        let mut text = match self.scheduler.as_ref()? {
            Scheduler::Rate { rate, burst: Bytes::ZERO } => rate.to_string(),
            Scheduler::Rate { rate, burst } => format!("{rate} (burst {} B)", burst.get()),
            Scheduler::Trace(trace) => format!("trace {}", trace.text()),
            Scheduler::Cellular(trace) => trace.text(),
            Scheduler::Grant(grant) => grant.text(),
            Scheduler::Lora(lora) => lora.text(),
        };
        if self.framing.overhead != 0 {
            text += &format!(" ({:+} B per frame)", self.framing.overhead);
        }
        if let Some(cell) = self.framing.cell {
            text += &format!(" (cells of {} + {} B)", cell.size.get(), cell.overhead.get());
        }
        Some(text)
    }

    fn is_none(&self) -> bool {
        self.scheduler.is_none()
    }

    fn load(&mut self, base: &Path, found: &mut Contradictions) {
        match &self.scheduler {
            Some(Scheduler::Trace(trace)) => match Trace::read(&base.join(&trace.file)) {
                Ok(trace) => self.scheduler = Some(Scheduler::Trace(trace)),
                Err(error) => {
                    let fix =
                        "a file in the trace format of Mahimahi; paths are relative to this file";
                    found.add("trace", error.to_string(), fix);
                    self.scheduler = None;
                }
            },
            Some(Scheduler::Cellular(trace)) => {
                self.scheduler = trace.load(base, found).map(Scheduler::Cellular);
            }
            _ => {}
        }
    }

    fn keep_loaded(&mut self, before: &Self) {
        // Another key has changed: files are not read again.
        match (&mut self.scheduler, &before.scheduler) {
            (Some(Scheduler::Trace(trace)), Some(Scheduler::Trace(loaded)))
                if trace.file == loaded.file =>
            {
                *trace = loaded.clone();
            }
            (Some(Scheduler::Cellular(trace)), Some(Scheduler::Cellular(loaded)))
                if trace.has_files_of(loaded) =>
            {
                *trace = CellularTrace { idle: trace.idle, ..loaded.clone() };
            }
            _ => {}
        }
    }

    fn quantity(&mut self, key: &str) -> Option<Quantity<'_>> {
        match &mut self.scheduler {
            Some(Scheduler::Rate { rate, .. }) if key == "rate" => Some(Quantity::Rate(rate)),
            _ => None,
        }
    }
}

/// Transmission model of a link.
#[derive(Debug, Clone)]
pub(crate) enum Server {
    /// At a rate.
    Rate(Serialiser),
    /// At the opportunities of a recorded link.
    Trace(Follower),
    /// At those of a recorded cellular link.
    Cellular(Box<CellularReplay>),
    /// In time blocks that a network grants.
    Grant(Grant),
    /// By a LoRa radio.
    Lora(Lora),
}

impl Server {
    /// The sender of this scheduler; `None` if frames never wait.
    pub fn new(scheduler: Option<&Scheduler>) -> Option<Self> {
        Some(match scheduler? {
            Scheduler::Rate { rate, burst } => Self::Rate(Serialiser::new(*rate, *burst)),
            Scheduler::Trace(trace) => Self::Trace(Follower::new(trace.clone())),
            Scheduler::Cellular(trace) => {
                Self::Cellular(Box::new(CellularReplay::new(trace.clone())))
            }
            Scheduler::Grant(grant) => Self::Grant(Grant::new(grant.clone())),
            Scheduler::Lora(lora) => Self::Lora(Lora::new(lora.clone())),
        })
    }

    /// Whether it needs frames on arrival: several frames share a block, or pass a delay before
    /// the queue, so a frame cannot wait until the previous one has left.
    pub fn looks_ahead(&self) -> bool {
        matches!(self, Self::Grant(_) | Self::Cellular(_))
    }

    /// When a frame of `on_wire` bytes that arrives at `now` reaches the queue in front of it, as
    /// [`Self::send`] expects: at once, except behind the delay of a cellular trace.
    pub fn reach(&mut self, on_wire: u64, now: Instant, epoch: Instant) -> Instant {
        match self {
            Self::Cellular(replay) => {
                let since = Instant::START + (now - epoch);
                epoch + replay.reach(on_wire, since).since_start()
            }
            _ => now,
        }
    }

    /// End of what it has sent at a rate; the start for other schedulers.
    pub fn busy_until(&self) -> Instant {
        match self {
            Self::Rate(serialiser) => serialiser.busy_until(),
            _ => Instant::START,
        }
    }

    /// Applies the new settings. Frames already sent are not affected.
    pub fn change(server: &mut Option<Self>, before: &Transmission, now: &Transmission) {
        match (server, &now.scheduler) {
            (Some(Self::Rate(serialiser)), Some(Scheduler::Rate { rate, burst })) => {
                serialiser.change(*rate, *burst);
            }
            (Some(Self::Trace(follower)), Some(Scheduler::Trace(trace)))
                if follower.follows(trace) => {}
            (Some(Self::Cellular(replay)), Some(Scheduler::Cellular(trace)))
                if replay.follows(trace) => {}
            (Some(Self::Grant(_)), Some(Scheduler::Grant(_)))
            | (Some(Self::Lora(_)), Some(Scheduler::Lora(_)))
                if before.scheduler == now.scheduler => {}
            // Another kind, or other parameters of a radio: it begins idle.
            (server, scheduler) => *server = Self::new(scheduler.as_ref()),
        }
    }

    /// Departure time of the last bit of a frame of `len` bytes (`on_wire` bytes on the
    /// link) that starts at `now`, or reached the queue then; `epoch` is the start of impairments.
    pub fn send(&mut self, len: usize, on_wire: u64, now: Instant, epoch: Instant) -> Instant {
        // The clocks of a trace and of grants start with the impairments.
        let since = Instant::START + (now - epoch);
        match self {
            Self::Rate(serialiser) => serialiser.send(on_wire, now),
            Self::Trace(follower) => epoch + follower.send(on_wire, since).since_start(),
            Self::Cellular(replay) => epoch + replay.send(on_wire, since).since_start(),
            Self::Grant(grant) => epoch + grant.send(len, since).since_start(),
            Self::Lora(lora) => lora.send(on_wire, now),
        }
    }
}

/// Reports a `key` that has no effect if frames never queue: without a rate, and without a channel
/// for which frames queue as they do for a rate.
pub(crate) fn check_rate(keys: &Keys, key: &str, wait: ChannelWait, found: &mut Contradictions) {
    let rated = SCHEDULERS.iter().any(|key| keys.has(key));
    if keys.has(key) && !rated && wait == ChannelWait::No {
        needs_rate(key, found);
    }
}

/// Reports a `key` that has no effect without a rate.
fn needs_rate(key: &str, found: &mut Contradictions) {
    let text = format!("`{key}` without a `rate` has no effect");
    found.add(key, text, format!("add a `rate`, or remove `{key}`"));
}
