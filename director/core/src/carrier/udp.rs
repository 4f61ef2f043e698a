//! The transport of `udp-request-response`: one datagram per envelope, without retransmission.

use super::peers::{Exchange, Hub, Incoming, Member};
use super::{HubCarrier, MemberCarrier, Params};
use crate::Nanos;
use crate::switch::MessageId;
use std::collections::VecDeque;

/// Maximum queue length per end; drops the oldest.
const MAX_WAITING: usize = 1_024;

/// Queue to the other end. Bare envelopes bypass the exchange on reception.
#[derive(Debug, Default)]
struct Udp {
    waiting: VecDeque<Vec<u8>>,
}

impl Exchange for Udp {
    fn send(&mut self, _: MessageId, sealed: &[u8], _: Option<Nanos>) -> Result<(), String> {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(sealed.to_vec());
        Ok(())
    }

    fn receive(&mut self, _: &[u8], _: Nanos) -> Incoming {
        Incoming::default()
    }

    fn poll(&mut self, _: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        (self.waiting.pop_front(), None)
    }

    fn take_delivered(&mut self) -> Vec<MessageId> {
        Vec::new()
    }

    fn retire(&mut self, _: Nanos) {
        self.waiting.clear();
    }
}

/// The hub's transport.
pub fn hub(params: &Params) -> Box<dyn HubCarrier> {
    Box::new(Hub::new(params, |_, _| Some(Udp::default())))
}

/// A member's transport.
pub fn member(params: &Params) -> Box<dyn MemberCarrier> {
    Box::new(Member::new(params, Some(Udp::default()), false))
}
