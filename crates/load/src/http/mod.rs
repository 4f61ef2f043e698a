//! HTTP/1.0 and HTTP/1.1 for load and devices, RFC 9110 and 9112. `httparse` parses heads;
//! this module parses bodies.

mod answers;
mod body;
mod headers;

pub(crate) use answers::{Answers, Found};
pub(crate) use body::{Body, Part};
pub(crate) use headers::{content_length, has_token};
