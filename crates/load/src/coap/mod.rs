//! CoAP messages, RFC 7252: requests are built once and then only numbered, received
//! messages are parsed in place, and messages are written into existing buffers.
//!
//! This code runs for every message and allocates no memory. `coap-lite` allocates for each
//! option of each message; tests use it as the second codec.

mod block;
mod exchange;
mod message;
mod options;
mod request;
mod writer;

pub(crate) use block::Block;
pub(crate) use exchange::{Exchange, Next, Step};
pub(crate) use message::{Kind, Message};
pub(crate) use options::{AnswerOptions, BadOption, RequestOptions, number, transfer_key};
#[cfg(test)]
pub(crate) use request::template;
pub(crate) use request::{Request, decoded, tag};
pub(crate) use writer::{Writer, answer, empty};

/// 2.02 Deleted.
pub(crate) const DELETED: u8 = 0x42;
/// 2.04 Changed.
pub(crate) const CHANGED: u8 = 0x44;
/// 2.05 Content.
pub(crate) const CONTENT: u8 = 0x45;
/// 2.31 Continue (RFC 7959, section 2.9.1).
pub(crate) const CONTINUE: u8 = 0x5f;
/// 4.00 Bad Request.
pub(crate) const BAD_REQUEST: u8 = 0x80;
/// 4.02 Bad Option.
pub(crate) const BAD_OPTION: u8 = 0x82;
/// 4.04 Not Found.
pub(crate) const NOT_FOUND: u8 = 0x84;
/// 4.05 Method Not Allowed.
pub(crate) const NOT_ALLOWED: u8 = 0x85;
/// 4.06 Not Acceptable.
pub(crate) const NOT_ACCEPTABLE: u8 = 0x86;
/// 4.08 Request Entity Incomplete (RFC 7959, section 2.9.2).
pub(crate) const INCOMPLETE: u8 = 0x88;
/// 4.12 Precondition Failed.
pub(crate) const PRECONDITION_FAILED: u8 = 0x8c;
/// 4.13 Request Entity Too Large.
pub(crate) const TOO_LARGE: u8 = 0x8d;
/// 5.03 Service Unavailable.
pub(crate) const UNAVAILABLE: u8 = 0xa3;
/// 5.05 Proxying Not Supported.
pub(crate) const NO_PROXY: u8 = 0xa5;

/// The offset of the message ID.
const ID: usize = 2;
/// The offset of the token.
const TOKEN: usize = 4;
/// The token length of requests, in bytes: the maximum.
const TOKEN_LENGTH: usize = message::TOKEN_LENGTH;

/// Sets the message ID and token of a request that was copied from a template.
pub(crate) fn number_request(request: &mut [u8], id: u16, token: u64) {
    if let Some(room) = request.get_mut(ID..ID + 2) {
        room.copy_from_slice(&id.to_be_bytes());
    }
    if let Some(room) = request.get_mut(TOKEN..TOKEN + TOKEN_LENGTH) {
        room.copy_from_slice(&token.to_be_bytes());
    }
}

/// The number in a request's token.
pub(crate) fn token_number(token: &[u8]) -> Option<u64> {
    token.try_into().ok().map(u64::from_be_bytes)
}
