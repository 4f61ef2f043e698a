//! HTTP/1.0 and HTTP/1.1 as load and devices need it, RFC 9110 and 9112: heads are read by
//! `httparse`, and what follows them is done here.

mod answers;
mod body;
mod headers;

pub(crate) use answers::{Answers, Found};
pub(crate) use body::{Body, Part};
pub(crate) use headers::{content_length, has_token};
