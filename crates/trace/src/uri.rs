//! Target URIs: the subset of URIs that loads use.

use std::fmt;

/// Protocol of a request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// CoAP over UDP, RFC 7252; default port 5683.
    Coap,
    /// HTTP/1.1, RFC 9112; default port 80.
    Http,
    /// An MQTT 3.1.1 message to the topic in the path; default port 1883.
    Mqtt,
    /// A UDP datagram; no default port.
    Udp,
    /// Bytes over a TCP connection; no default port.
    Tcp,
}

/// Why a text is not a valid target URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UriError {
    /// No known `scheme://`.
    #[error("`{0}` does not start with coap://, http://, mqtt://, udp:// or tcp://")]
    Scheme(String),
    /// No host between scheme and path.
    #[error("`{0}` has no host")]
    Host(String),
    /// The port is not 1 to 65535, or it is missing and the scheme has no default.
    #[error("`{0}` needs a port from 1 to 65535")]
    Port(String),
    /// A space, control character, fragment or another invalid character.
    #[error("`{uri}` contains {what}, which a target URI must not")]
    Character {
        /// The URI.
        uri: String,
        /// The invalid character.
        what: String,
    },
    /// Longer than 1,024 bytes.
    #[error("a URI of {0} bytes is too long; the maximum is 1024")]
    Long(usize),
}

/// A parsed target URI, borrowing from the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target<'a> {
    /// The protocol.
    pub scheme: Scheme,
    /// Host name or address; an IPv6 address without brackets.
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// Path without the leading slash, and query, not decoded.
    pub path: &'a str,
}

impl Scheme {
    /// The scheme's name before `://`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Coap => "coap",
            Self::Http => "http",
            Self::Mqtt => "mqtt",
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    /// The default port, if the scheme has one.
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Coap => Some(5683),
            Self::Http => Some(80),
            Self::Mqtt => Some(1883),
            Self::Udp | Self::Tcp => None,
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'a> Target<'a> {
    /// Parses a URI.
    pub fn parse(uri: &'a str) -> Result<Self, UriError> {
        if uri.len() > 1_024 {
            return Err(UriError::Long(uri.len()));
        }
        let owned = || uri.to_owned();
        let (scheme, rest) = uri.split_once("://").ok_or_else(|| UriError::Scheme(owned()))?;
        let scheme = [Scheme::Coap, Scheme::Http, Scheme::Mqtt, Scheme::Udp, Scheme::Tcp]
            .into_iter()
            .find(|known| known.name().eq_ignore_ascii_case(scheme))
            .ok_or_else(|| UriError::Scheme(owned()))?;
        if let Some(what) = bad_character(rest) {
            return Err(UriError::Character { uri: owned(), what });
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = split_port(authority).ok_or_else(|| UriError::Host(owned()))?;
        // User names in front of the host are not supported by any of the protocols here.
        if host.is_empty() || host.contains('@') {
            return Err(UriError::Host(owned()));
        }
        let port = match port {
            None => scheme.port(),
            // A sign, which the parser of numbers accepts, is no digit (RFC 3986, 3.2.3).
            Some(port) if port.starts_with('+') => None,
            Some(port) => port.parse().ok().filter(|port| *port > 0),
        };
        let port = port.ok_or_else(|| UriError::Port(owned()))?;
        Ok(Self { scheme, host, port, path: path.strip_prefix('/').unwrap_or(path) })
    }
}

/// The first invalid character, described.
fn bad_character(text: &str) -> Option<String> {
    let bad = text.chars().find(|c| {
        !c.is_ascii() || c.is_ascii_control() || matches!(c, ' ' | '"' | '<' | '>' | '\\' | '#')
    })?;
    Some(match bad {
        ' ' => "a space".to_owned(),
        '#' => "a fragment (`#`)".to_owned(),
        other => format!("`{}`", other.escape_default()),
    })
}

/// Splits `host`, `host:port`, `[address]`, `[address]:port`.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        // An IPv6 address needs brackets.
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_apart_what_people_write() {
        let target = Target::parse("coap://172.18.0.60/resource123").unwrap();
        assert_eq!((target.host, target.port, target.path), ("172.18.0.60", 5683, "resource123"));
        let target = Target::parse("http://[::1]:8080/a/b?c=d").unwrap();
        assert_eq!((target.host, target.port, target.path), ("::1", 8080, "a/b?c=d"));
        let target = Target::parse("udp://meter-1:9").unwrap();
        assert_eq!((target.host, target.port, target.path), ("meter-1", 9, ""));
        let target = Target::parse("COAP://h?x").unwrap();
        assert_eq!((target.scheme, target.path), (Scheme::Coap, "?x"));
    }

    #[test]
    fn refuses_what_cannot_be_sent_to() {
        for uri in ["", "coap:/x", "ftp://x", "coap://", "coap:///x", "coap://h:0/", "coap://h:x/"]
        {
            assert!(Target::parse(uri).is_err(), "{uri}");
        }
        for uri in [
            "udp://h",
            "coap://h:70000",
            "coap://h:+80/",
            "coap://h:-1",
            "coap://h:",
            "coap://[::1",
            "coap://::1/",
            "coap://u@h/",
        ] {
            assert!(Target::parse(uri).is_err(), "{uri}");
        }
        let why = Target::parse("coap://h/a b").unwrap_err().to_string();
        assert!(why.contains("a space"), "{why}");
        assert!(Target::parse("coap://h/#x").unwrap_err().to_string().contains("fragment"));
        assert!(Target::parse(&format!("coap://h/{}", "x".repeat(2_000))).is_err());
    }
}
