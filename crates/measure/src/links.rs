//! What was asked of links against what they did.

use medium::{Impairment, Totals};
use std::sync::Arc;

/// One direction of one link over some time.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkRow {
    /// The node's name.
    pub node: String,
    /// The interface's name in the node.
    pub interface: String,
    /// The network's name.
    pub network: String,
    /// `up` from the node, `down` to it.
    pub direction: &'static str,
    /// Seconds since offset 0.
    pub start_s: f64,
    /// See `start_s`.
    pub end_s: f64,
    /// What was asked.
    pub asked: Arc<Impairment>,
    /// Whether that changed meanwhile, as on a ramp: then nothing can be held
    /// against it.
    pub changing: bool,
    /// What was done, from the medium's own record of each frame.
    pub got: Totals,
    /// Whether the kernel's netem did it: then `got` is from its counts, and nobody
    /// measured the delay.
    pub by_netem: bool,
}

/// Deviations of a mean or a share from what is expected that chance alone makes
/// once in about two million links.
const DEVIATIONS: f64 = 5.0;
/// The share of the delay asked for by which the medium's lateness may change it:
/// the verdict's first limit.
const LATENESS: f64 = 0.05;
/// How late the verdict lets a single frame be on a link without a delay, in ms, before
/// it calls the run suspect; with one it is that delay.
const ONE_MS: f64 = crate::evidence::LOCAL_NS / 1e6;
/// Rates are kept by arithmetic; what is off is rounding to nanoseconds.
const RATE: f64 = 0.001;

impl LinkRow {
    /// Mean delay asked for, in ms.
    pub fn delay_asked_ms(&self) -> f64 {
        self.asked.mean_delay_ns() / 1e6
    }

    /// Mean delay given after serialisation, the medium's lateness included, in
    /// ms; as asked where nothing passed or nobody measured it.
    pub fn delay_got_ms(&self) -> f64 {
        match self.got.passed() {
            _ if self.by_netem => self.delay_asked_ms(),
            0 => self.delay_asked_ms(),
            passed => (self.got.delay_sum as f64 / passed as f64 + self.lateness_ns()) / 1e6,
        }
    }

    fn lateness_ns(&self) -> f64 {
        self.got.late_sum as f64 / self.got.released.max(1) as f64
    }

    /// How far the mean delay may be from what was asked, in ms: the variation
    /// that was asked for, over the root of the frames, and a share for the
    /// medium's lateness.
    pub fn delay_tolerance_ms(&self) -> f64 {
        let asked = &self.asked;
        let passed = self.got.passed().max(1) as f64;
        let jitter = asked.distribution.deviation() * asked.jitter.as_ms();
        let moved = (asked.reorder.fraction() * (1.0 - asked.reorder.fraction())).sqrt();
        let spread = jitter.hypot(moved * asked.delay.as_ms());
        let spread = spread * self.spread(asked.correlation.fraction());
        // Half a millisecond is noticed on no link, whatever its delay. Of few frames
        // one that is late moves the mean, and how late one may be is judged by itself.
        let one = if asked.delay.as_ms() > 0.0 { asked.delay.as_ms() } else { ONE_MS };
        // A nanosecond is what rounding takes of sums of nanoseconds.
        let one = (one / passed).min(self.lateness_ns() / 1e6 + 1e-6);
        let late = (LATENESS * asked.delay.as_ms()).max(0.5).max(one);
        DEVIATIONS * spread / passed.sqrt() + late
    }

    /// Whether delays are longer than their mean on purpose: where frames wait for
    /// those before them or for a slot, or variations below 0 are cut.
    fn is_longer(&self) -> bool {
        let asked = &self.asked;
        let lowest = asked.distribution.quantile(0.0) * asked.jitter.as_ms();
        let waits = asked.keep_order && asked.jitter.as_ns() > 0;
        waits || asked.slot.is_some() || asked.delay.as_ms() + lowest < 0.0
    }

    /// By how much more a mean of correlated draws varies than one of
    /// independent ones.
    fn spread(&self, correlation: f64) -> f64 {
        ((1.0 + correlation) / (1.0 - correlation).max(1e-3)).sqrt()
    }

    /// Loss asked for, in percent.
    pub fn loss_asked_pct(&self) -> f64 {
        100.0 * self.asked.mean_loss()
    }

    /// Frames lost, in percent of those that left the queue.
    pub fn loss_got_pct(&self) -> f64 {
        100.0 * self.got.lost as f64 / self.got.at_risk().max(1) as f64
    }

    /// How far the share lost may be from what was asked, in percent, by chance.
    pub fn loss_tolerance_pct(&self) -> f64 {
        let asked = &self.asked;
        let share = asked.mean_loss();
        let mut variance = share * (1.0 - share) / self.got.at_risk().max(1) as f64;
        variance *= match (asked.gilbert_elliott, asked.markov) {
            (Some(model), _) => model.dispersion(),
            // Bursts of a chain of which this is no closed form here: as of one
            // that stays in its burst for 1/p31 frames.
            (None, Some(model)) => 2.0 / model.p31.fraction().max(1e-3),
            (None, None) => self.spread(asked.loss_correlation.fraction()).powi(2),
        };
        variance *= match asked.loss_unit {
            medium::LossUnit::Frame => 1.0,
            // A datagram of 64 KiB and a train are so many full frames at most;
            // small frames make more of them.
            _ => 65_536.0 / (self.got.bytes as f64 / self.got.frames.max(1) as f64).max(1.0),
        };
        100.0 * DEVIATIONS * variance.sqrt()
    }

    /// Rate asked for in bit/s, 0 for none.
    pub fn rate_asked_bit_s(&self) -> f64 {
        match (&self.asked.trace, self.asked.rate) {
            (Some(trace), _) => trace.mean_bit_s(),
            (None, rate) => rate.map_or(0.0, |rate| rate.bit_s() as f64),
        }
    }

    /// Bits sent in the time in which the link was sending; 0 when it never was.
    pub fn rate_got_bit_s(&self) -> f64 {
        match self.got.busy {
            0 => 0.0,
            busy => self.got.wire_bytes as f64 * 8e9 / busy as f64,
        }
    }

    /// Whether what was asked was given, within the tolerances.
    pub fn is_kept(&self) -> bool {
        self.broken().is_none()
    }

    /// What was not given: its name, asked, got and tolerance, with their unit.
    /// An interval in which what is asked changes is held against nothing.
    pub fn broken(&self) -> Option<(&'static str, f64, f64, f64, &'static str)> {
        if self.changing || self.got.frames == 0 {
            return None;
        }
        let far = |asked: f64, got: f64, tolerance: f64| (got - asked).abs() > tolerance;
        let (asked, got, most) =
            (self.delay_asked_ms(), self.delay_got_ms(), self.delay_tolerance_ms());
        if far(asked, got, most) && !(self.is_longer() && got > asked) {
            return Some(("delay", asked, got, most, "ms"));
        }
        let (asked, got, most) =
            (self.loss_asked_pct(), self.loss_got_pct(), self.loss_tolerance_pct());
        // A channel that sends again loses less than each time on air does; and a
        // frame that netem doubles and loses still comes, and what it loses it does
        // not tell from what finds it full, as at a rate.
        let doubtful = self.asked.duplicate.fraction() > 0.0 || self.asked.rate.is_some();
        let clear = !self.by_netem || !doubtful;
        if clear && self.got.retried == 0 && far(asked, got, most) {
            return Some(("loss", asked, got, most, "%"));
        }
        let plain = self.asked.rate.is_some() && self.asked.burst.get() == 0;
        let (asked, got) = (self.rate_asked_bit_s(), self.rate_got_bit_s());
        if plain && self.got.busy > 0 && far(asked, got, RATE * asked + self.rounding()) {
            return Some(("rate", asked, got, RATE * asked, "bit/s"));
        }
        None
    }

    /// The rate that rounding each frame's time up to whole nanoseconds takes.
    fn rounding(&self) -> f64 {
        self.rate_asked_bit_s() * self.got.frames as f64 / self.got.busy.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(change: impl FnOnce(&mut Impairment, &mut Totals)) -> LinkRow {
        let (mut asked, mut got) = (Impairment::default(), Totals::default());
        (got.frames, got.bytes) = (10_000, 1_000_000);
        change(&mut asked, &mut got);
        LinkRow {
            node: "a".into(),
            interface: "eth0".into(),
            network: "field".into(),
            direction: "up",
            start_s: 0.0,
            end_s: 1.0,
            asked: Arc::new(asked),
            changing: false,
            got,
            by_netem: false,
        }
    }

    #[test]
    fn a_delay_is_held_to_its_mean_and_lateness() {
        let with = |ns: u64, late: u64| {
            row(|asked, got| {
                asked.delay = "30 ms".parse().unwrap();
                got.delay_sum = 10_000 * ns;
                (got.released, got.late_sum) = (10_000, 10_000 * late);
            })
        };
        assert!(with(30_000_000, 1_000_000).is_kept());
        let late = with(30_000_000, 2_000_000);
        assert_eq!(
            late.broken().map(|(what, asked, got, ..)| (what, asked, got)),
            Some(("delay", 30.0, 32.0))
        );
    }

    #[test]
    fn of_few_frames_one_may_be_as_late_as_one_may_be() {
        let with = |frames: u64, delay_ms: f64, late_ms: f64| {
            row(|asked, got| {
                asked.delay = "10 ms".parse().unwrap();
                (got.frames, got.released) = (frames, frames);
                got.delay_sum = (frames as f64 * delay_ms * 1e6) as u64;
                got.late_sum = (late_ms * 1e6) as u64;
            })
        };
        assert!(with(4, 10.0, 9.0).is_kept(), "one frame by 9 ms");
        for late_us in 3_000..9_900 {
            assert!(with(6, 10.0, f64::from(late_us) / 1e3).is_kept(), "{late_us} us");
        }
        assert!(!with(4, 10.0, 12.0).is_kept(), "by more than the delay, or two of them");
        assert!(!with(40, 10.0, 24.0).is_kept(), "many are not one");
        assert!(!with(4, 12.0, 0.0).is_kept(), "what was decided is no lateness");
    }

    #[test]
    fn a_loss_is_held_to_what_chance_allows() {
        let lost = |lost: u64| {
            row(|asked, got| {
                asked.loss = "30 %".parse().unwrap();
                got.lost = lost;
            })
        };
        // A standard deviation is 45.8 frames of 10,000.
        assert!(lost(3_000).is_kept() && lost(3_228).is_kept());
        assert!(!lost(3_231).is_kept() && !lost(2_769).is_kept());
    }

    #[test]
    fn bursts_and_trains_may_vary_more() {
        let tolerance = |change: &dyn Fn(&mut Impairment)| {
            row(|asked, _| {
                asked.loss = "10 %".parse().unwrap();
                change(asked);
            })
            .loss_tolerance_pct()
        };
        let alone = tolerance(&|_| ());
        assert!(tolerance(&|a| a.loss_correlation = "50 %".parse().unwrap()) > alone);
        assert!(tolerance(&|a| a.loss_unit = medium::LossUnit::Train) > 10.0 * alone);
    }

    #[test]
    fn a_rate_is_held_to_the_time_it_took() {
        let took = |ns: u64| {
            row(|asked, got| {
                asked.rate = units::Rate::from_bit_s(1_000_000);
                (got.wire_bytes, got.busy) = (1_000_000, ns);
            })
        };
        assert!(took(8_000_000_000).is_kept() && took(8_000_010_000).is_kept());
        assert_eq!(took(8_080_000_000).broken().map(|(what, ..)| what), Some("rate"));
    }

    #[test]
    fn netem_is_held_to_the_loss_that_it_counts_and_to_no_delay() {
        let with = |lost: u64, duplicate: &str| {
            let mut row = row(|asked, got| {
                asked.delay = "30 ms".parse().unwrap();
                asked.loss = "30 %".parse().unwrap();
                asked.duplicate = duplicate.parse().unwrap();
                got.lost = lost;
            });
            row.by_netem = true;
            row
        };
        let row = with(3_000, "0 %");
        assert_eq!((row.delay_got_ms(), row.is_kept()), (30.0, true));
        assert_eq!(with(3_500, "0 %").broken().map(|(what, ..)| what), Some("loss"));
        assert!(with(3_500, "5 %").is_kept());
        let mut rated = with(3_500, "0 %");
        Arc::make_mut(&mut rated.asked).rate = units::Rate::from_bit_s(1_000_000);
        assert!(rated.is_kept(), "a full queue may be among them");
    }

    #[test]
    fn what_changes_is_held_against_nothing() {
        let mut row = row(|asked, got| {
            asked.loss = "30 %".parse().unwrap();
            got.lost = 0;
        });
        assert!(!row.is_kept());
        row.changing = true;
        assert!(row.is_kept());
    }
}
