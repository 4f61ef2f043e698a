//! One request of a trace.

use crate::uri::Scheme;
use std::fmt;
use std::str::FromStr;

/// What is asked of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Read it.
    Get,
    /// Let it process what is sent.
    Post,
    /// Put what is sent in its place.
    Put,
    /// Remove it.
    Delete,
    /// Read it by what is sent (RFC 8132).
    Fetch,
    /// Change it.
    Patch,
    /// Change it, twice being as once (RFC 8132).
    IPatch,
    /// Read its head.
    Head,
    /// Give a message to subscribers (MQTT).
    Publish,
    /// Send bytes (UDP, TCP).
    Send,
}

/// Each method with its name.
const METHODS: [(Method, &str); 10] = [
    (Method::Get, "GET"),
    (Method::Post, "POST"),
    (Method::Put, "PUT"),
    (Method::Delete, "DELETE"),
    (Method::Fetch, "FETCH"),
    (Method::Patch, "PATCH"),
    (Method::IPatch, "iPATCH"),
    (Method::Head, "HEAD"),
    (Method::Publish, "PUBLISH"),
    (Method::Send, "SEND"),
];

impl Method {
    /// As it is written.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(method, _)| *method == self).map_or("GET", |(_, name)| name)
    }

    /// Whether requests of `scheme` can have it.
    pub fn fits(self, scheme: Scheme) -> bool {
        match scheme {
            Scheme::Coap => !matches!(self, Self::Head | Self::Publish | Self::Send),
            Scheme::Http => {
                !matches!(self, Self::Fetch | Self::IPatch | Self::Publish | Self::Send)
            }
            Scheme::Mqtt => self == Self::Publish,
            Scheme::Udp | Scheme::Tcp => self == Self::Send,
        }
    }

    /// What requests of `scheme` have unless another is named.
    pub fn usual(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Coap | Scheme::Http => Self::Get,
            Scheme::Mqtt => Self::Publish,
            Scheme::Udp | Scheme::Tcp => Self::Send,
        }
    }
}

impl FromStr for Method {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let known = METHODS.iter().find(|(_, name)| name.eq_ignore_ascii_case(text));
        known.map(|(method, _)| *method).ok_or_else(|| {
            let names: Vec<_> = METHODS.iter().map(|(_, name)| *name).collect();
            format!("`{text}` is not a method; use one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A request: which device it is for, when it is meant to be sent, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The device's number.
    pub device: u32,
    /// When it is meant to be sent, in ns since the start.
    pub at: u64,
    /// What is asked.
    pub method: Method,
    /// Of what; a URI that `Target::parse` takes.
    pub uri: &'a str,
    /// Bytes that it carries, in a fifth column; none is the protocol's usual.
    pub size: Option<u32>,
}

/// As a line of a trace, without its end: `0, 1000, GET, coap://172.18.0.60/resource123`.
/// The time is in us; a part of one follows after a point where there is one.
impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (us, ns) = (self.at / 1_000, self.at % 1_000);
        write!(f, "{}, {us}", self.device)?;
        if ns > 0 {
            write!(f, ".{ns:03}")?;
        }
        write!(f, ", {}, {}", self.method, self.uri)?;
        match self.size {
            Some(size) => write!(f, ", {size}"),
            None => Ok(()),
        }
    }
}
