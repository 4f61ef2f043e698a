//! The transport of `udp-request-response`: one datagram per envelope, without retransmission.

use super::peers::{Came, Exchange, Hub, Member};
use super::{HubCarrier, MemberCarrier, Place};
use crate::Nanos;
use crate::switch::MessageId;
use std::collections::VecDeque;

/// Maximum queue length per end; drops the oldest.
const MOST_WAITING: usize = 1_024;

/// Queue to the other end. Bare envelopes bypass the exchange on reception.
#[derive(Debug, Default)]
struct Udp {
    waiting: VecDeque<Vec<u8>>,
}

impl Exchange for Udp {
    fn send(&mut self, _: MessageId, sealed: &[u8], _: Option<Nanos>) -> Result<(), String> {
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(sealed.to_vec());
        Ok(())
    }

    fn receive(&mut self, _: &[u8], _: Nanos) -> Came {
        Came::default()
    }

    fn poll(&mut self, _: Nanos) -> (Option<Vec<u8>>, Option<Nanos>) {
        (self.waiting.pop_front(), None)
    }

    fn take_had(&mut self) -> Vec<MessageId> {
        Vec::new()
    }

    fn retire(&mut self, _: Nanos) {
        self.waiting.clear();
    }
}

/// The hub's transport.
pub fn hub(place: &Place) -> Box<dyn HubCarrier> {
    Box::new(Hub::new(place, |_, _| Some(Udp::default())))
}

/// A member's transport.
pub fn member(place: &Place) -> Box<dyn MemberCarrier> {
    Box::new(Member::new(place, Some(Udp::default()), false))
}
