//! `multicast-fec`: a message to a whole group by multicast, erasure coded, and the group's
//! answers, coded too, one member after another. Paced by the sender, for frames as small
//! as 127 bytes.
//!
//! The hub sends as many symbols as it takes for all to have the message with an even
//! chance; who still lacks some says so after a moment drawn at random, and is silent if
//! the hub is heard to send more. With the message comes when answers are due: each member
//! has a slot, in an order that changes with each message, so that three hundred answers
//! do not meet. A member sends a little less than it takes on average; the hub asks for
//! what is lacking, some members at a time, while others have their slots.

mod answer;
mod code;
mod frame;
mod hub;
mod member;
mod plan;
mod sending;

pub use code::{Decoder, Encoder, Refused, symbols};
pub use frame::{Frame, HEADER, Want, widen};
pub(crate) use frame::{WANT_ALONE, is_frame};
pub use hub::{Addressed, FecHub, HubEvent};
pub use member::FecMember;
pub use plan::{FecSettings, Schedule, Wanted};
