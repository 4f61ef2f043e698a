//! CoAP messages (RFC 7252), options, and blocks (RFC 7959): received messages are parsed in place,
//! and messages are written into existing buffers.
//!
//! The codec does no I/O and allocates no memory, since it runs for each message of a load. Tests
//! compare it with `coap-lite`, which allocates for each option of each message.

mod block;
pub mod code;
mod message;
mod options;
mod uint;
mod writer;

pub use block::{Block, exponent};
pub use message::{Kind, Malformed, Message, Options, TOKEN_LENGTH};
pub use options::{AnswerOptions, BadOption, RequestOptions, number, transfer_key};
pub use uint::Uint;
pub use writer::{Writer, answer, empty};
