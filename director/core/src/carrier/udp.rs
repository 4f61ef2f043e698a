//! The transport of `udp-request-response`: one datagram per envelope, without retransmission.

use super::exchange::{Exchange, Incoming};
use super::interface::{ALL, Flow, Model, Params, SEALED, Transport};
use super::peers::{Hub, Member};
use crate::Instant;
use crate::analytic::{Case, Prediction};
use crate::model::Features;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use crate::switch::MessageId;
use crate::turn::{Turns, Waiting};

pub static MODEL: Model = Model {
    features: FEATURES,
    similar: None,
    repairs_ahead: false,
    fits: |here| here.payload + SEALED <= LONGEST as f64,
    // Bare envelopes bypass the transport on reception.
    owns: |_| false,
    predict: |case| predict(case, 1.0),
    transport: Transport::Datagrams(
        |params| Box::new(Hub::new(params, |params, _| Some(Udp::new(params)))),
        |params, _| Box::new(Member::new(params, Some(Udp::new(params)), false)),
    ),
};

/// Features of messages in datagrams that are sent once.
pub const FEATURES: Features = Features {
    reliable: false,
    ordered: false,
    boundaries: true,
    zero_rtt: true,
    multicast: false,
    by_unicast: true,
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

/// Longest content of a datagram over IPv4, in bytes: longer ones could only be lost.
const LONGEST: usize = 65_535 - 20 - 8;

/// Queue to the other end.
#[derive(Debug)]
struct Udp {
    waiting: Turns,
}

impl Udp {
    fn new(params: &Params) -> Self {
        Self { waiting: Turns::new(params.wait) }
    }
}

impl Exchange for Udp {
    fn send(
        &mut self,
        number: MessageId,
        sealed: Vec<u8>,
        until: Option<Instant>,
    ) -> Result<(), String> {
        if sealed.len() > LONGEST {
            return Err(format!(
                "it has {} bytes with its envelope, and {LONGEST} are the maximum of a datagram: send it in parts, or \
                 let the session use udp-arq too",
                sealed.len()
            ));
        }
        self.waiting.push(Waiting { number, bytes: sealed, until });
        Ok(())
    }

    fn withdraw(&mut self, number: MessageId) {
        self.waiting.withdraw(number);
    }

    fn receive(&mut self, _: &[u8], _: Instant) -> Incoming {
        Incoming::default()
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        (self.waiting.next(now).map(|waiting| waiting.bytes), None)
    }

    fn pace(&mut self, flow: &Flow) {
        flow.wait.into_iter().for_each(|wait| self.waiting.set_wait(wait));
    }

    fn take_delivered(&mut self, _: &mut Vec<MessageId>) {}

    fn retire(&mut self, _: Instant) {
        self.waiting.clear();
    }
}
