//! A session that changes its model all the time, over a lossy network: no message is lost or
//! delivered twice.

use director::{Action, Instant, MemberId, MessageId, ModelId, Phase, Span, Switch, Window};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Frames in flight.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Frame {
    Message(MemberId, MessageId),
    Acknowledge(MemberId, MessageId),
    Ask(MemberId, u32),
    Ready(MemberId, u32),
}

/// A lossy network in virtual time.
struct Network {
    frames: BinaryHeap<Reverse<(u64, u64, Frame)>>,
    state: u64,
    loss: f64,
    sent: u64,
}

impl Network {
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn carry(&mut self, now: u64, frame: Frame) {
        self.sent += 1;
        if self.draw() >= self.loss {
            // 5 to 15 ms, so frames can be reordered.
            let delay = 5_000_000 + (self.draw() * 1e7) as u64;
            self.frames.push(Reverse((now + delay, self.sent, frame)));
        }
    }

    fn perform(&mut self, now: u64, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { message, members, .. } => {
                    for member in members {
                        self.carry(now, Frame::Message(member, message));
                    }
                }
                Action::Ask { member, epoch } => self.carry(now, Frame::Ask(member, epoch)),
                Action::Prepare { .. } | Action::Retire { .. } => {}
            }
        }
    }
}

/// Changes the model `changes` times while messages go to `members`. Returns the messages sent,
/// the messages received per member, and the duration.
fn session(changes: u32, members: u32, loss: f64, seed: u64) -> (u64, Vec<u64>, u64) {
    const TICK: u64 = 10_000_000;
    let mut network = Network { frames: BinaryHeap::new(), state: seed, loss, sent: 0 };
    let mut switch = Switch::new(ModelId::UdpArq, 0..members, Span::from_ms(40));
    let mut windows: Vec<Window> = (0..members).map(|_| Window::new(1 << 14)).collect();
    let mut had = vec![0_u64; members as usize];
    let (mut now, mut sent, mut changed) = (0, 0_u64, 0);
    let mut open: Vec<MessageId> = Vec::new();
    loop {
        now += TICK;
        while network.frames.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((at, _, frame))) = network.frames.pop() else { break };
            match frame {
                Frame::Message(member, message) => {
                    had[member as usize] += u64::from(windows[member as usize].insert(message));
                    network.carry(at, Frame::Acknowledge(member, message));
                }
                Frame::Acknowledge(member, message) => switch.acknowledged(member, message),
                Frame::Ask(member, epoch) => network.carry(at, Frame::Ready(member, epoch)),
                Frame::Ready(member, epoch) => {
                    let actions = switch.ready(member, epoch);
                    network.perform(at, actions);
                }
            }
        }
        let actions = switch.tick(Instant::from_ns(now));
        network.perform(now, actions);
        if switch.phase() == Phase::Stable && changed < changes {
            let all = [ModelId::UdpArq, ModelId::MulticastFec, ModelId::QuicStreams];
            changed += 1;
            let actions = switch.change(all[changed as usize % 3], Instant::from_ns(now));
            network.perform(now, actions);
        }
        // Retransmit unacknowledged messages.
        if (now / TICK).is_multiple_of(4) {
            for message in std::mem::take(&mut open) {
                let again = switch.send_again(message);
                if !again.is_empty() {
                    open.push(message);
                    network.perform(now, again);
                }
            }
        }
        let over = changed == changes && switch.phase() == Phase::Stable;
        if !over && open.len() < 1_000 {
            let actions = switch.send(sent);
            network.perform(now, actions);
            open.push(sent);
            sent += 1;
        }
        if over && switch.open() == 0 {
            return (sent, had, now);
        }
    }
}

#[test]
fn a_hundred_thousand_changes_under_a_third_of_loss() {
    let (sent, had, _) = session(100_000, 1, 0.3, 7);
    assert!(sent > 100_000);
    assert_eq!(had, [sent]);
}

#[test]
fn a_group_of_which_each_loses_for_itself() {
    for seed in 0..5 {
        let (sent, had, _) = session(500, 30, 0.3, seed);
        assert!(had.iter().all(|had| *had == sent), "{sent} {had:?}");
    }
}

#[test]
fn a_change_holds_nothing_up() {
    let (_, _, without) = session(1, 1, 0.0, 1);
    let (_, _, hundred) = session(101, 1, 0.0, 1);
    // Per change a round trip of 5 to 15 ms per direction, and ticks of 10 ms.
    assert!((hundred - without) / 100 <= 60_000_000, "{without} {hundred}");
}
