//! CoAP of loads and devices: requests are built once and then only numbered, and block-wise
//! transfers of requests and answers. The codec is the crate `coap`.

mod exchange;
mod request;

pub(crate) use ::coap::code::*;
pub(crate) use ::coap::{
    AnswerOptions, BadOption, Block, Kind, Message, RequestOptions, TOKEN_LENGTH, Writer, answer,
    empty, exponent, number, transfer_key,
};
pub(crate) use exchange::{Exchange, Next, Step};
pub(crate) use request::{Request, decoded, tag};

/// The offset of the message ID.
const ID: usize = 2;
/// The offset of the token.
const TOKEN: usize = 4;
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
