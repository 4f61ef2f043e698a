//! Capture filters, in libpcap's syntax.

use super::libpcap::{CompileError, Program};
use std::ffi::CString;
use std::fmt;

/// A filter such as `tcp port 1883`, compiled by libpcap (pcap-filter(7)).
pub struct Filter {
    text: String,
    program: Program,
}

/// Why a filter cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// It is invalid.
    #[error(
        "`{text}` is not a capture filter: {why}. Use the syntax of tcpdump, e.g. `tcp port 1883 \
         or arp`, and addresses for nodes, e.g. `host 10.0.0.1`"
    )]
    Invalid {
        /// The filter.
        text: String,
        /// libpcap's message.
        why: String,
    },
    /// libpcap is not installed.
    #[error(
        "cannot compile the capture filter `{text}`: libpcap could not be loaded ({why}). Install \
         it (Debian: `apt install libpcap0.8`, Fedora: `dnf install libpcap`), or capture without \
         a filter"
    )]
    NoLibpcap {
        /// The filter.
        text: String,
        /// The loader's messages.
        why: String,
    },
}

impl Filter {
    /// Compiles `text`.
    ///
    /// # Errors
    /// When the syntax is invalid, with libpcap's message, and when libpcap is missing.
    pub fn compile(text: &str) -> Result<Self, FilterError> {
        let text = text.to_owned();
        let Ok(terminated) = CString::new(text.as_str()) else {
            return Err(FilterError::Invalid { text, why: "it contains a zero byte".to_owned() });
        };
        match Program::compile(&terminated) {
            Ok(program) => Ok(Self { text, program }),
            Err(CompileError::Syntax(why)) => Err(FilterError::Invalid { text, why }),
            Err(CompileError::Missing(why)) => Err(FilterError::NoLibpcap { text, why }),
        }
    }

    /// Whether the filter matches this frame.
    pub fn keeps(&self, frame: &[u8]) -> bool {
        self.program.matches(frame)
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
