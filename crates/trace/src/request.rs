//! A request of a trace.

use crate::uri::Scheme;
use std::fmt;
use std::str::FromStr;

/// A request method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Read the resource.
    Get,
    /// Let the resource process the payload.
    Post,
    /// Replace the resource by the payload.
    Put,
    /// Delete the resource.
    Delete,
    /// Read with parameters in the payload (RFC 8132).
    Fetch,
    /// Modify the resource.
    Patch,
    /// Modify the resource, idempotently (RFC 8132).
    IPatch,
    /// Read the header only.
    Head,
    /// Publish a message to subscribers (MQTT).
    Publish,
    /// Send bytes (UDP, TCP).
    Send,
}

/// Methods and their names.
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
    /// The method's name in a trace.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(method, _)| *method == self).map_or("GET", |(_, name)| name)
    }

    /// Whether requests of `scheme` support this method.
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

    /// Default method of `scheme`.
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

/// A request: target device, scheduled time, method and URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Device number.
    pub device: u32,
    /// Scheduled time in ns since the start.
    pub at: u64,
    /// Request method.
    pub method: Method,
    /// Target URI, valid for `Target::parse`.
    pub uri: &'a str,
    /// Payload size in bytes (fifth column); none is the protocol's default.
    pub size: Option<u32>,
}

/// Formats a trace line without the newline: `0, 1000, GET, coap://172.18.0.60/resource123`. The
/// time is in us, with decimals only if needed.
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
