//! CoAP transmission settings: blocks, retransmission, NSTART, observe. The command line and the
//! experiment file share these settings and checks.

use crate::uri::Scheme;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use units::Span;

/// Largest block in bytes (RFC 7959, section 2.2), and the largest payload that avoids IP
/// fragmentation on any link (RFC 7252, section 4.6).
pub const LARGEST_BLOCK: u16 = 1_024;
/// Upper limit of MAX_RETRANSMIT: the last retransmission then waits 36 hours.
pub const MAX_RETRANSMISSIONS: u32 = 16;
/// Range of ACK_RANDOM_FACTOR: RFC 7252, section 4.8.1, requires at least 1.
pub const ACK_RANDOM_FACTOR: RangeInclusive<f64> = 1.0..=10.0;

/// CoAP transmission settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CoapSettings {
    /// Block size in bytes, a power of two from 16 to 1024 (RFC 7959, section 2.2). Larger
    /// requests are sent in blocks of this size, and responses are requested in it. None: requests
    /// over 1024 B use blocks of 1024 B, and the server chooses for responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u16>,
    /// MAX_RETRANSMIT: how often an unacknowledged confirmable message is retransmitted (RFC 7252,
    /// section 4.8); 0 disables retransmission.
    pub max_retransmit: u32,
    /// ACK_TIMEOUT: the minimum time to the first retransmission (RFC 7252, section 4.8).
    #[schemars(with = "String")]
    pub ack_timeout: Span,
    /// ACK_RANDOM_FACTOR: the maximum of that time as a multiple of the minimum; 1 or more (RFC
    /// 7252, section 4.8.1).
    pub ack_random_factor: f64,
    /// NSTART: maximum outstanding interactions per target (RFC 7252, section 4.7); none is
    /// unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nstart: Option<u32>,
    /// How long a GET or FETCH observes its resource (RFC 7641); none sends a plain request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub observe: Option<Span>,
}

/// An invalid setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}`: {why}")]
pub struct CoapError {
    /// The setting's key in an experiment file; the command-line option has `-` for `_`.
    pub key: &'static str,
    /// What is wrong, and what is valid.
    pub why: String,
}

impl Default for CoapSettings {
    fn default() -> Self {
        Self {
            block: None,
            max_retransmit: 0,
            ack_timeout: Span::from_ns(2_000_000_000),
            ack_random_factor: 1.5,
            nstart: None,
            observe: None,
        }
    }
}

impl CoapSettings {
    /// Whether all settings are the defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Block size of requests, in bytes.
    pub fn block_size(&self) -> u16 {
        self.block.unwrap_or(LARGEST_BLOCK)
    }

    /// Checks the settings; `scheme` is that of the requests, if known.
    ///
    /// # Errors
    /// The first setting that is invalid, alone or in combination with others.
    pub fn check(
        &self,
        scheme: Option<Scheme>,
        confirmable: bool,
        timeout: Span,
    ) -> Result<(), CoapError> {
        let error = |key, why: String| Err(CoapError { key, why });
        let default = Self::default();
        let set = [
            ("block", self.block.is_some()),
            ("max_retransmit", self.max_retransmit > 0),
            ("ack_timeout", self.ack_timeout != default.ack_timeout),
            ("ack_random_factor", self.ack_random_factor != default.ack_random_factor),
            ("nstart", self.nstart.is_some()),
            ("observe", self.observe.is_some()),
        ];
        if let Some(scheme) = scheme.filter(|scheme| *scheme != Scheme::Coap)
            && let Some((key, _)) = set.iter().find(|(_, is_set)| *is_set)
        {
            return error(key, format!("needs coap, but the requests use {scheme}"));
        }
        if self.block.is_some_and(|b| !(16..=LARGEST_BLOCK).contains(&b) || !b.is_power_of_two()) {
            return error("block", "use 16, 32, 64, 128, 256, 512 or 1024 B".to_owned());
        }
        if self.nstart == Some(0) {
            return error("nstart", "use 1 or more".to_owned());
        }
        if self.observe == Some(Span::ZERO) {
            return error("observe", "use more than 0 s".to_owned());
        }
        if self.max_retransmit > MAX_RETRANSMISSIONS {
            return error("max_retransmit", format!("use at most {MAX_RETRANSMISSIONS}"));
        }
        if !ACK_RANDOM_FACTOR.contains(&self.ack_random_factor) {
            let why = "use 1 to 10; RFC 7252, section 4.8.1, requires at least 1";
            return error("ack_random_factor", why.to_owned());
        }
        // The further settings only matter for retransmissions.
        if self.max_retransmit == 0 {
            return Ok(());
        }
        if !confirmable {
            let why = "only confirmable requests are retransmitted: add `confirmable`";
            return error("max_retransmit", why.to_owned());
        }
        if self.ack_timeout == Span::ZERO {
            return error("ack_timeout", "use more than 0 s".to_owned());
        }
        if timeout <= self.ack_timeout {
            let (timeout, ack) = (timeout.as_ms() / 1e3, self.ack_timeout.as_ms() / 1e3);
            let why = format!(
                "the first retransmission is after {ack} s, but a request times out after \
                 {timeout} s: use a longer `timeout` (the default of RFC 7252 is 93 s) or a \
                 shorter `ack_timeout`"
            );
            return error("max_retransmit", why);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: CoapSettings, confirmable: bool) -> Result<(), &'static str> {
        let timeout = Span::from_ns(100_000_000_000);
        settings.check(Some(Scheme::Coap), confirmable, timeout).map_err(|error| error.key)
    }

    #[test]
    fn settings_are_checked_by_themselves_and_together() {
        let none = CoapSettings::default();
        assert_eq!(check(none, false), Ok(()));
        for block in [16, 64, 1_024] {
            assert_eq!(check(CoapSettings { block: Some(block), ..none }, false), Ok(()));
        }
        for block in [0, 8, 48, 2_048] {
            let settings = CoapSettings { block: Some(block), ..none };
            assert_eq!(check(settings, false), Err("block"));
        }
        assert_eq!(check(CoapSettings { nstart: Some(0), ..none }, false), Err("nstart"));
        let observe = Some(Span::ZERO);
        assert_eq!(check(CoapSettings { observe, ..none }, false), Err("observe"));
        let again = CoapSettings { max_retransmit: 4, ..none };
        assert_eq!(check(again, true), Ok(()));
        assert_eq!(check(again, false), Err("max_retransmit"));
        assert_eq!(check(CoapSettings { max_retransmit: 40, ..none }, true), Err("max_retransmit"));
        for ack_random_factor in [0.5, f64::NAN, 11.0] {
            let settings = CoapSettings { ack_random_factor, ..again };
            assert_eq!(check(settings, true), Err("ack_random_factor"));
        }
        let short = again.check(None, true, Span::from_ns(2_000_000_000)).unwrap_err();
        assert!(short.why.contains("93 s"), "{short}");
        let http = again.check(Some(Scheme::Http), true, Span::ZERO).unwrap_err().to_string();
        assert_eq!(http, "`max_retransmit`: needs coap, but the requests use http");
        assert_eq!(none.check(Some(Scheme::Http), false, Span::ZERO), Ok(()));
    }
}
