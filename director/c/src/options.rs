//! Session options, as JSON.

use director::io::Preconnection;
use director::session::Security;
use director::{Conditions, ModelId, Pattern, QosTargets, Span, TransportProperties};
use serde::Deserialize;
use std::io::Write;
use std::net::SocketAddr;

/// The options; missing ones have defaults.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    pattern: Pattern,
    properties: TransportProperties,
    deadline_ms: Option<f64>,
    group: Option<SocketAddr>,
    places: usize,
    announce: Option<String>,
    models: Vec<ModelId>,
    loss: Option<f64>,
    round_trip_ms: Option<f64>,
    rate_bit_s: Option<f64>,
    mtu: Option<f64>,
    keep_alive_s: Option<f64>,
    storage: Option<String>,
    storage_bytes: u64,
    signed: bool,
    warnings: bool,
    insecure_on_purpose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pattern: Pattern::PublishCollect,
            properties: TransportProperties::default(),
            deadline_ms: None,
            group: None,
            places: 0,
            announce: None,
            models: Vec::new(),
            loss: None,
            round_trip_ms: None,
            rate_bit_s: None,
            mtu: None,
            keep_alive_s: None,
            storage: None,
            storage_bytes: 16 << 20,
            signed: false,
            warnings: false,
            insecure_on_purpose: false,
        }
    }
}

/// Checks the range of a value.
fn within(name: &str, value: Option<f64>, least: f64, most: f64) -> Result<Option<f64>, String> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            // Hundreds of digits are of no use.
            let value = if value.abs() < 1e15 { value.to_string() } else { format!("{value:e}") };
            Err(format!("`{name}` is {value}; use a value from {least} to {most}"))
        }
        _ => Ok(value),
    }
}

impl Options {
    /// Parses the options.
    ///
    /// # Errors
    /// The location and reason if the text is not valid JSON with these options.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("invalid options: {error}"))
    }

    /// The session with these options, and this security unless they turn it off.
    ///
    /// # Errors
    /// The reason if a value is out of range.
    pub fn preconnection(self, security: Security) -> Result<Preconnection, String> {
        let usual = Conditions::default();
        let span = |ms: f64| Span::from_ns_f64(ms * 1e6);
        // 1e12 ms are 1e18 ns, which fit into 64 bits.
        let deadline = within("deadline_ms", self.deadline_ms, 0.001, 1e12)?;
        let conditions = Conditions {
            loss: within("loss", self.loss, 0.0, 1.0)?.unwrap_or(usual.loss),
            rtt: within("round_trip_ms", self.round_trip_ms, 0.0, 1e9)?.map_or(usual.rtt, span),
            rate_bit_s: within("rate_bit_s", self.rate_bit_s, 1.0, 1e12)?
                .unwrap_or(usual.rate_bit_s),
            // 68: what every IPv4 network carries (RFC 791). 65,535: the largest IPv4 packet.
            mtu: within("mtu", self.mtu, 68.0, 65_535.0)?.unwrap_or(usual.mtu),
            ..usual
        };
        let security = match self.insecure_on_purpose {
            true => Security::InsecureOnPurpose,
            false => security,
        };
        let session = Preconnection::new(self.pattern, security)
            .properties(self.properties)
            .targets(QosTargets { deadline: deadline.map(span), ..QosTargets::default() })
            .assume(conditions)
            .models(&self.models)
            .places(self.places)
            .signed(self.signed);
        let session = match &self.announce {
            Some(name) => session.announce(name),
            None => session,
        };
        let session = match self.warnings {
            // `eprintln!` would panic if standard error cannot be written.
            true => session.on_warning(|text| {
                let _ = writeln!(std::io::stderr(), "director: {text}");
            }),
            false => session,
        };
        // 1 GiB: the log is read into memory at the start.
        let bytes = within("storage_bytes", Some(self.storage_bytes as f64), 1e3, 1_073_741_824.0)?;
        let session = match self.storage {
            Some(folder) if folder.is_empty() => {
                return Err("`storage` is empty; use the path of a folder".to_owned());
            }
            Some(folder) => session.storage(folder, bytes.unwrap_or_default() as u64),
            None => session,
        };
        // 15 s: the minimum of RFC 8085, 3.5.
        let session = match within("keep_alive_s", self.keep_alive_s, 15.0, 1e9)? {
            Some(interval) => session.keep_alive(span(interval * 1e3)),
            None => session,
        };
        match self.group {
            Some(group) if !group.ip().is_multicast() => Err(format!(
                "`group` is {group}; use a multicast address and a port, for example 239.255.77.77:5777"
            )),
            Some(group) => Ok(session.group(group)),
            None => Ok(session),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_said() {
        let error_of = |text: &str| match Options::read(text) {
            Ok(options) => {
                let security = Security::Key(b"a key of some length".to_vec());
                options.preconnection(security).err().unwrap_or_default()
            }
            Err(error) => error,
        };
        assert_eq!(error_of("{}"), "");
        assert_eq!(error_of(r#"{"models": ["udp-arq"], "mtu": 113, "deadline_ms": 5}"#), "");
        assert!(error_of(r#"{"los": 0.3}"#).contains("unknown field `los`"));
        assert!(error_of(r#"{"loss": 30}"#).contains("`loss` is 30; use a value from 0 to 1"));
        assert!(error_of(r#"{"pattern": "shout"}"#).contains("publish-collect"));
        assert!(error_of("").contains("invalid options:"));
        assert!(error_of(r#"{"properties": {"reliabilty": "require"}}"#).contains("unknown field"));
        assert!(error_of(r#"{"group": "10.0.0.1:5777"}"#).contains("use a multicast address"));
        assert_eq!(error_of(r#"{"group": "239.255.77.78:5777"}"#), "");
        assert_eq!(error_of(r#"{"keep_alive_s": 15}"#), "");
        assert_eq!(error_of(r#"{"storage": "folder"}"#), "");
        assert_eq!(error_of(r#"{"warnings": true, "signed": true}"#), "");
        let error = error_of(r#"{"storage": "folder", "storage_bytes": 9}"#);
        assert!(error.contains("`storage_bytes` is 9; use a value from 1000"), "{error}");
        for wrong in ["14.9", "-1", "1e300"] {
            let error = error_of(&format!(r#"{{"keep_alive_s": {wrong}}}"#));
            assert!(error.contains("use a value from 15 to") && error.len() < 99, "{error}");
        }
    }
}
