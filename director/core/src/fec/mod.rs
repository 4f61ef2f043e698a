//! `multicast-fec`: sends a message to a group by multicast with forward error correction, and
//! collects the members' answers, also coded. Paced by the sender, for frames as small as 127
//! bytes.
//!
//! The hub first sends as many symbols as give all members the message with a probability of
//! 50 %. A member that lacks symbols reports it after a random backoff, unless the hub sends more
//! before. The message carries the answer schedule: each member has a slot, in an order that
//! changes with each message, so that three hundred answers do not collide. A member sends
//! slightly fewer symbols than needed on average; the hub requests the missing ones, from some
//! members at a time, while others use their slots. Where multicast does not work, each member gets the
//! message by unicast and answers at once.

mod answer;
mod arrivals;
mod awaited;
mod code;
mod delays;
mod frame;
mod hub;
mod member;
mod passage;
mod plan;
mod sending;
mod short;
mod spacing;

pub use code::{Decoder, Encoder, LONGEST, Refused, symbols};
pub use frame::{Frame, HEADER, MAX_MESSAGES, Request};
pub(crate) use frame::{REQUEST_UNICAST, is_frame};
pub use hub::{Addressed, FecHub, HubEvent, Seen};
pub use member::FecMember;
pub use plan::{FecSettings, ResponseKind, Schedule};
pub use short::sign as sign_by_member;
