//! One direction of one link: from a frame and a time to the frame's fate.

use crate::{Distribution, Impairment, Instant, LossUnit, Serialiser, Trains};
use std::collections::VecDeque;
use units::{Draw, Purpose};

/// What becomes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is delivered at this moment.
    Release(Instant),
    /// The link lost it.
    Lost,
    /// It found the queue full.
    Overflow,
}

/// What one direction of a link did to the frames that came to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that came.
    pub frames: u64,
    /// Their bytes, link header included.
    pub bytes: u64,
    /// Frames that were lost.
    pub lost: u64,
    /// Frames that found the queue full.
    pub overflow: u64,
    /// Sum over the frames that passed of the time from the end of their
    /// serialisation to their release, in nanoseconds.
    pub delay_sum: u64,
    /// The longest such time, in nanoseconds.
    pub delay_max: u64,
}

/// The state of one direction of a link.
#[derive(Debug, Clone)]
pub struct Direction {
    asked: Impairment,
    draw: Draw,
    serialiser: Option<Serialiser>,
    /// When each frame that may still wait for the rate leaves the queue.
    waiting: VecDeque<Instant>,
    totals: Totals,
    trains: Trains,
    last_release: Instant,
}

impl Direction {
    /// A direction that does what `asked` says, by the draws of `draw`.
    pub fn new(asked: Impairment, draw: Draw) -> Self {
        let serialiser = asked.rate.map(|rate| Serialiser::new(rate, asked.burst));
        Self {
            asked,
            draw,
            serialiser,
            waiting: VecDeque::new(),
            totals: Totals::default(),
            trains: Trains::default(),
            last_release: 0,
        }
    }

    /// What was asked of this direction.
    pub fn asked(&self) -> &Impairment {
        &self.asked
    }

    /// What was done so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The fate of `frame` (link header included) that comes at `now`.
    ///
    /// `channel` is the serialiser that all links share, where there is one; a
    /// frame then passes it after the link's own. Times given must not
    /// decrease.
    pub fn admit(&mut self, frame: &[u8], now: Instant, channel: Option<&mut Serialiser>) -> Fate {
        let index = self.totals.frames;
        self.totals.frames += 1;
        self.totals.bytes += frame.len() as u64;
        let unit = match self.asked.loss_unit {
            LossUnit::Frame => index,
            LossUnit::Train => self.trains.number(frame, now),
        };
        let Some(left) = self.serialise(frame.len(), now, channel) else {
            self.totals.overflow += 1;
            return Fate::Overflow;
        };
        if self.draw.uniform(Purpose::Loss, unit) < self.asked.loss.fraction() {
            self.totals.lost += 1;
            return Fate::Lost;
        }
        let mut release = left + self.propagation(index);
        if self.asked.keep_order {
            release = release.max(self.last_release);
            self.last_release = release;
        }
        self.totals.delay_sum += release - left;
        self.totals.delay_max = self.totals.delay_max.max(release - left);
        Fate::Release(release)
    }

    /// When the frame's last bit has left, or nothing when the queue is full.
    fn serialise(
        &mut self,
        len: usize,
        now: Instant,
        channel: Option<&mut Serialiser>,
    ) -> Option<Instant> {
        if self.serialiser.is_none() && channel.is_none() {
            return Some(now);
        }
        while self.waiting.front().is_some_and(|left| *left <= now) {
            self.waiting.pop_front();
        }
        if self.waiting.len() >= self.asked.queue as usize {
            return None;
        }
        let own = self.serialiser.as_mut().map_or(now, |own| own.send(len, now));
        let left = channel.map_or(own, |shared| shared.send(len, own));
        self.waiting.push_back(left);
        Some(left)
    }

    /// Delay with its jitter, in nanoseconds, for the frame at `index`.
    fn propagation(&self, index: u64) -> u64 {
        let delay = self.asked.delay.as_ns();
        let jitter = self.asked.jitter.as_ns();
        if jitter == 0 {
            return delay;
        }
        let draw = |n| self.draw.uniform(Purpose::Jitter, 2 * index + n);
        let offset = match self.asked.distribution {
            Distribution::Uniform => 2.0 * draw(0) - 1.0,
            // Box and Muller, 1958; 1 - u keeps the logarithm's argument above 0.
            Distribution::Normal => {
                (-2.0 * (1.0 - draw(0)).ln()).sqrt() * (std::f64::consts::TAU * draw(1)).cos()
            }
        };
        (delay as f64 + jitter as f64 * offset).max(0.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ratio;

    const FRAME: [u8; 127] = [0; 127];

    fn direction(change: impl FnOnce(&mut Impairment)) -> Direction {
        let mut asked = Impairment::default();
        change(&mut asked);
        Direction::new(asked, Draw::new(7, 1, 0))
    }

    fn releases(direction: &mut Direction, frames: u64, gap: u64) -> Vec<(u64, Fate)> {
        (0..frames).map(|i| (i * gap, direction.admit(&FRAME, i * gap, None))).collect()
    }

    fn delays(direction: &mut Direction) -> Vec<f64> {
        releases(direction, 100_000, 1_000_000_000)
            .into_iter()
            .map(|(sent, fate)| match fate {
                Fate::Release(at) => (at - sent) as f64 / 1e6,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    /// The largest distance between the sample's distribution and `cdf`
    /// (Kolmogorov and Smirnov), times the root of the sample's size; above
    /// 1.95 with probability 0.001.
    fn kolmogorov(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f64::total_cmp);
        let n = sample.len() as f64;
        let distance = |(i, x): (usize, &f64)| {
            (cdf(*x) - i as f64 / n).abs().max((cdf(*x) - (i + 1) as f64 / n).abs())
        };
        sample.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
    }

    #[test]
    fn nothing_asked_nothing_done() {
        let mut link = direction(|_| ());
        assert_eq!(link.admit(&FRAME, 5, None), Fate::Release(5));
    }

    #[test]
    fn loss_is_the_share_asked_and_independent() {
        let mut link = direction(|asked| asked.loss = Ratio::from_fraction(0.3).unwrap());
        let lost: Vec<_> =
            releases(&mut link, 1_000_000, 1).iter().map(|(_, f)| *f == Fate::Lost).collect();
        let share = |n: usize| n as f64 / 1e6;
        let single = share(lost.iter().filter(|l| **l).count());
        let pair = share(lost.windows(2).filter(|w| w[0] && w[1]).count());
        // Four standard deviations of a binomial of a million: 0.0018.
        assert!((single - 0.3).abs() < 0.0018, "{single}");
        assert!((pair - 0.09).abs() < 0.0018, "{pair}");
    }

    #[test]
    fn uniform_jitter_is_uniform() {
        let mut link = direction(|asked| {
            asked.delay = "30 ms".parse().unwrap();
            asked.jitter = "5 ms".parse().unwrap();
        });
        let distance = kolmogorov(delays(&mut link), |x| ((x - 25.0) / 10.0).clamp(0.0, 1.0));
        assert!(distance < 1.95, "{distance}");
    }

    #[test]
    fn normal_jitter_has_the_mean_and_deviation_asked() {
        let mut link = direction(|asked| {
            asked.delay = "30 ms".parse().unwrap();
            asked.jitter = "5 ms".parse().unwrap();
            asked.distribution = Distribution::Normal;
        });
        let sample = delays(&mut link);
        let n = sample.len() as f64;
        let mean = sample.iter().sum::<f64>() / n;
        let deviation = (sample.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let tail = sample.iter().filter(|x| **x > 40.0).count() as f64 / n;
        assert!((mean - 30.0).abs() < 0.07, "{mean}");
        assert!((deviation - 5.0).abs() < 0.05, "{deviation}");
        assert!((tail - 0.02275).abs() < 0.002, "two deviations above: {tail}");
    }

    #[test]
    fn jitter_reorders_unless_order_is_kept() {
        let in_order = |keep: bool| {
            let mut link = direction(|asked| {
                asked.delay = "30 ms".parse().unwrap();
                asked.jitter = "5 ms".parse().unwrap();
                asked.keep_order = keep;
            });
            let at = |(_, fate)| if let Fate::Release(at) = fate { at } else { 0 };
            releases(&mut link, 1000, 100_000).into_iter().map(at).is_sorted()
        };
        assert!(in_order(true) && !in_order(false));
    }

    #[test]
    fn a_full_queue_drops_and_drains_at_the_rate() {
        let mut link = direction(|asked| {
            asked.rate = units::Rate::from_bit_s(250_000);
            asked.queue = 3;
        });
        let at_once: Vec<_> = (0..5).map(|_| link.admit(&FRAME, 0, None)).collect();
        assert_eq!(at_once[2], Fate::Release(3 * 4_064_000));
        assert_eq!(at_once[3..], [Fate::Overflow, Fate::Overflow]);
        assert_eq!(link.admit(&FRAME, 4_064_000, None), Fate::Release(4 * 4_064_000));
    }

    #[test]
    fn a_shared_channel_makes_two_links_wait_for_each_other() {
        let mut channel =
            Serialiser::new(units::Rate::from_bit_s(250_000).unwrap(), Default::default());
        let (mut a, mut b) = (direction(|_| ()), direction(|_| ()));
        assert_eq!(a.admit(&FRAME, 0, Some(&mut channel)), Fate::Release(4_064_000));
        assert_eq!(b.admit(&FRAME, 0, Some(&mut channel)), Fate::Release(8_128_000));
    }
}
