//! The transport of `udp-request-response`: one datagram per envelope, without retransmission.

use super::interface::{ALL, Model, Transport};
use super::peers::{Exchange, Hub, Incoming, Member};
use crate::Instant;
use crate::analytic::{Case, Prediction};
use crate::model::Features;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MessageId;
use alloc::collections::VecDeque;

pub static MODEL: Model = Model {
    features: FEATURES,
    similar: None,
    repairs_ahead: false,
    fits: |_| true,
    // Bare envelopes bypass the transport on reception.
    owns: |_| false,
    predict: |case| predict(case, 1.0),
    transport: Transport::Datagrams(
        |params| Box::new(Hub::new(params, |_, _| Some(Udp::default()))),
        |params, _| Box::new(Member::new(params, Some(Udp::default()), false)),
    ),
};

/// Features of messages in datagrams that are sent once.
pub const FEATURES: Features = Features {
    reliable: false,
    ordered: false,
    boundaries: true,
    zero_rtt: true,
    multicast: false,
    measures: false,
    patterns: ALL,
};

/// Frames that are sent once, `more` times those of the message.
pub fn predict(case: &Case<'_>, more: f64) -> Prediction {
    let frames = (case.chunks + case.back) * more;
    let is_bare = !case.is_answered();
    let each = frames * case.frame + if is_bare { case.short } else { 0.0 };
    Prediction {
        delay_ms: case.queued([case.trip; 3], each),
        delivery: (1.0 - case.loss).powf(frames.max(case.chunks + 1.0 - case.loss)),
        bytes: case.wire(frames, f64::from(is_bare)),
    }
}

/// Maximum queue length per end; drops the oldest.
const MAX_WAITING: usize = 1_024;

/// Queue to the other end.
#[derive(Debug, Default)]
struct Udp {
    waiting: VecDeque<(MessageId, Vec<u8>, Option<Instant>)>,
}

impl Exchange for Udp {
    fn send(
        &mut self,
        number: MessageId,
        sealed: &[u8],
        until: Option<Instant>,
    ) -> Result<(), String> {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((number, sealed.to_vec(), until));
        Ok(())
    }

    fn withdraw(&mut self, number: MessageId) {
        self.waiting.retain(|(own, ..)| *own != number);
    }

    fn receive(&mut self, _: &[u8], _: Instant) -> Incoming {
        Incoming::default()
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        // What has expired must not be sent.
        let is_over = |until: Option<Instant>| until.is_some_and(|until| until <= now);
        while self.waiting.pop_front_if(|(.., until)| is_over(*until)).is_some() {}
        (self.waiting.pop_front().map(|(_, sealed, _)| sealed), None)
    }

    fn take_delivered(&mut self) -> Vec<MessageId> {
        Vec::new()
    }

    fn retire(&mut self, _: Instant) {
        self.waiting.clear();
    }
}
