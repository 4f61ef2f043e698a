//! Analytic lower bounds that no protocol can beat, for a shared channel.
//!
//! A message is split into as many chunks as it needs frames. With ideal erasure coding, any
//! `chunks` frames restore the message. So the number of frames that a receiver with frame loss
//! probability p needs has a negative binomial distribution; a group needs the maximum of
//! independent such numbers, one per receiver.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// A shared half-duplex channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Channel {
    /// Data rate in bit/s.
    pub rate_bit_s: f64,
    /// Size of a full frame on the air, in bytes.
    pub frame: f64,
    /// Frame loss probability, independent per receiver; 0 to below 1.
    pub loss: f64,
}

impl Channel {
    /// Time on air of a full frame, in s.
    pub fn frame_s(&self) -> f64 {
        self.frame * 8.0 / self.rate_bit_s
    }
}

/// The sum over frames ends at this probability that all receivers have the message.
const CERTAIN: f64 = 1.0 - 1e-12;
/// Upper limit of frames per message.
const MAX_FRAMES: u64 = 10_000_000;

/// The probability that a receiver has at least `chunks` of `frames` frames: the negative
/// binomial distribution by recurrence, one frame per step.
struct Completion {
    chunks: u64,
    loss: f64,
    log_loss: f64,
    frames: u64,
    /// Logarithm of the probability to complete with exactly this frame: of long messages the
    /// probability itself is too small for an `f64`.
    log_step: f64,
    sum: f64,
}

impl Completion {
    fn new(chunks: u64, loss: f64) -> Self {
        Self { chunks, loss, log_loss: loss.ln(), frames: 0, log_step: 0.0, sum: 0.0 }
    }

    /// Adds a frame; returns the probability that the receiver then has the message.
    fn next(&mut self) -> f64 {
        self.frames += 1;
        let (n, k) = (self.frames, self.chunks);
        if n == k {
            self.log_step = k as f64 * (1.0 - self.loss).ln();
        } else if n > k {
            // P(n) = C(n-1, k-1) (1-p)^k p^(n-k).
            self.log_step += ((n - 1) as f64 / (n - k) as f64).ln() + self.log_loss;
        }
        if n >= k {
            self.sum = (self.sum + self.log_step.exp()).min(1.0);
        }
        self.sum
    }
}

/// The probability that all of `receivers` have it, if each has it with probability `chance`.
fn all_of(receivers: u64, chance: f64) -> f64 {
    chance.powi(i32::try_from(receivers).unwrap_or(i32::MAX))
}

/// Mean number of multicast frames until all of `receivers` have a message of `chunks` chunks:
/// the mean of the maximum of `receivers` negative binomial numbers. 0 if `chunks` or
/// `receivers` is 0; infinite if all frames are lost.
pub fn multicast_frames(chunks: u64, receivers: u64, loss: f64) -> f64 {
    if chunks == 0 || receivers == 0 {
        return 0.0;
    }
    if loss >= 1.0 {
        return f64::INFINITY;
    }
    if loss <= 0.0 {
        return chunks as f64;
    }
    let mut completion = Completion::new(chunks, loss);
    // The mean of a non-negative integer N is the sum over n >= 0 of P(N > n).
    let (mut mean, mut all) = (0.0, 0.0);
    while all < CERTAIN && completion.frames < MAX_FRAMES {
        mean += 1.0 - all;
        all = all_of(receivers, completion.next());
    }
    mean
}

/// The smallest number of frames with which all of `receivers` have the message with a
/// probability of at least `chance`: `chunks` without loss, and 10 million if that cannot be
/// reached.
pub fn frames_for_all(chunks: u64, receivers: u64, loss: f64, chance: f64) -> u64 {
    if chunks == 0 || receivers == 0 || loss <= 0.0 {
        return chunks;
    }
    if loss >= 1.0 || chance >= 1.0 {
        return MAX_FRAMES;
    }
    let mut completion = Completion::new(chunks, loss);
    while completion.frames < MAX_FRAMES {
        if all_of(receivers, completion.next()) >= chance {
            break;
        }
    }
    completion.frames
}

/// The number of frames to send so that each frame after the first `least` raises the
/// probability of a complete message at a receiver by at least `gain` (0 to 1): `least` if `gain`
/// is 0, and 10 million at most.
pub fn frames_while(chunks: u64, least: u64, loss: f64, gain: f64) -> u64 {
    if chunks == 0 || loss <= 0.0 || loss >= 1.0 || gain <= 0.0 {
        return least;
    }
    let mut completion = Completion::new(chunks, loss);
    while completion.frames < least {
        completion.next();
    }
    let mut frames = least;
    let mut chance = completion.sum;
    while frames < MAX_FRAMES {
        let more = completion.next();
        if more - core::mem::replace(&mut chance, more) < gain {
            break;
        }
        frames += 1;
    }
    frames
}

/// Mean number of frames until one receiver has a message of `chunks` chunks; infinite if all
/// frames are lost.
pub fn unicast_frames(chunks: u64, loss: f64) -> f64 {
    if loss >= 1.0 { f64::INFINITY } else { chunks as f64 / (1.0 - loss) }
}

/// Lower bounds for delivering a message to a group and collecting all answers on a shared
/// channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collected {
    /// Time until all members have the message, in s.
    pub down_s: f64,
    /// Mean time from then until an answer arrives, over the members, in s.
    pub reply_mean_s: f64,
    /// Time from then until the last answer arrives, in s.
    pub reply_last_s: f64,
    /// Frames on the air, both directions.
    pub frames: f64,
}

/// The bound for a message of `chunks` frames to `members`. Each member answers with as many
/// frames; the answers follow one another without a gap.
pub fn collect(channel: &Channel, chunks: u64, members: u64) -> Collected {
    let down = multicast_frames(chunks, members, channel.loss);
    let each = unicast_frames(chunks, channel.loss);
    let (frame, members) = (channel.frame_s(), members as f64);
    Collected {
        down_s: down * frame,
        // The k-th answer is complete after k answers.
        reply_mean_s: each * (members + 1.0) / 2.0 * frame,
        reply_last_s: each * members * frame,
        frames: down + each * members,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 127-byte frames at 250 kbit/s, 30 % loss.
    const PHYSICAL: Channel = Channel { rate_bit_s: 250_000.0, frame: 127.0, loss: 0.3 };

    #[test]
    fn a_price_update_to_three_hundred_meters() {
        let frames = multicast_frames(21, 300, 0.3);
        assert!((frames - 43.0).abs() < 1.0, "{frames}");
        let bound = collect(&PHYSICAL, 21, 300);
        assert!((bound.down_s - 0.173).abs() < 0.005, "{bound:?}");
        assert!((bound.reply_mean_s - 18.6).abs() < 0.3, "{bound:?}");
        assert!((bound.reply_last_s - 36.8).abs() < 0.5, "{bound:?}");
    }

    #[test]
    fn frames_go_on_while_they_pay() {
        // Two chunks at 10 % loss: P = 0.81 with 2 frames, 0.972 with 3, 0.9963 with 4.
        let of = |gain| frames_while(2, 2, 0.1, gain);
        assert_eq!([of(0.2), of(0.16), of(0.03), of(0.02)], [2, 3, 3, 4]);
        assert_eq!([frames_while(2, 5, 0.1, 0.1), frames_while(2, 2, 0.0, 0.0)], [5, 2]);
        assert_eq!(frames_while(2, 2, 1.0, 0.1), 2);
    }

    #[test]
    fn nothing_lost_and_everything_lost() {
        assert_eq!(multicast_frames(21, 300, 0.0), 21.0);
        assert_eq!(multicast_frames(21, 300, 1.0), f64::INFINITY);
        assert_eq!(multicast_frames(0, 300, 0.5), 0.0);
        assert_eq!(unicast_frames(7, 1.0), f64::INFINITY);
    }

    #[test]
    fn one_receiver_needs_the_mean_of_one() {
        for (chunks, loss) in [(1, 0.5), (21, 0.3), (400, 0.9)] {
            let (one, mean) = (multicast_frames(chunks, 1, loss), unicast_frames(chunks, loss));
            assert!((one / mean - 1.0).abs() < 1e-6, "{chunks} {loss}: {one} {mean}");
        }
    }

    #[test]
    fn more_receivers_need_more_and_far_fewer_than_each_by_itself() {
        let of = |receivers| multicast_frames(21, receivers, 0.3);
        assert!(of(1) < of(10) && of(10) < of(1_000));
        assert!(of(1_000) < 2.0 * of(1));
    }
}
