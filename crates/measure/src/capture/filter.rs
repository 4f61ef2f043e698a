//! Capture filters, in libpcap's syntax.

use pcap::{BpfProgram, Capture, Linktype};
use std::fmt;

/// A filter such as `tcp port 1883`, compiled by libpcap (pcap-filter(7)).
pub struct Filter {
    text: String,
    program: BpfProgram,
}

/// Why a filter is invalid.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{text}` is not a capture filter: {why}. Use the syntax of tcpdump, e.g. `tcp port 1883 or \
     arp`, and addresses for nodes, e.g. `host 10.0.0.1`"
)]
pub struct FilterError {
    text: String,
    why: String,
}

impl Filter {
    /// Compiles `text`.
    ///
    /// # Errors
    /// When the syntax is invalid, with libpcap's message.
    pub fn compile(text: &str) -> Result<Self, FilterError> {
        let failed = |why: String| FilterError { text: text.to_owned(), why };
        if text.contains('\0') {
            return Err(failed("it contains a zero byte".to_owned()));
        }
        let dead = Capture::dead(Linktype::ETHERNET).map_err(|error| failed(error.to_string()))?;
        let program = dead.compile(text, true).map_err(|error| failed(said(&error)))?;
        Ok(Self { text: text.to_owned(), program })
    }

    /// Whether the filter matches this frame.
    pub fn keeps(&self, frame: &[u8]) -> bool {
        self.program.filter(frame)
    }
}

/// libpcap's message, without the prefix of the binding.
fn said(error: &pcap::Error) -> String {
    match error {
        pcap::Error::PcapError(text) => text.clone(),
        other => other.to_string(),
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filter").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    #[test]
    fn frames_are_kept_by_what_is_in_them() {
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut frame = Vec::new();
        builder.udp(5683, 40_000).write(&mut frame, b"hello").unwrap();
        assert!(Filter::compile("udp port 5683 and host 10.0.0.2").unwrap().keeps(&frame));
        assert!(!Filter::compile("tcp").unwrap().keeps(&frame));
        assert!(Filter::compile("").unwrap().keeps(&frame), "no filter keeps all");
        // A frame that is too short for the filter's fields does not match.
        assert!(!Filter::compile("udp port 5683").unwrap().keeps(&frame[..20]));
    }

    #[test]
    fn what_is_no_filter_is_named_with_the_reason() {
        let error = Filter::compile("tcp prot 1883").unwrap_err().to_string();
        assert!(error.contains("`tcp prot 1883`") && error.contains("syntax error"), "{error}");
        assert!(Filter::compile("tcp\0").is_err());
    }
}
