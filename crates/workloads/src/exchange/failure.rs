//! Failures of exchanges.

pub use record::event::FailureReason as Reason;

use std::fmt;
use std::io;

/// Why an exchange failed: the class and a description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The class.
    pub reason: Reason,
    /// A description; may be empty.
    pub detail: String,
}

impl Failure {
    /// A failure of class `reason`.
    pub fn of(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }

    /// The deadline passed.
    pub fn timeout() -> Self {
        Self::of(Reason::Timeout, "no further data arrived within the timeout of an exchange")
    }

    /// The received payload differs from the sent one.
    pub fn corrupt(detail: impl Into<String>) -> Self {
        Self::of(Reason::Corrupt, detail)
    }

    /// For `map_err`: an I/O error of `operation`.
    pub fn io(operation: &str) -> impl FnOnce(io::Error) -> Self + use<> {
        let operation = operation.to_owned();
        move |error| {
            let reason = match error.raw_os_error() {
                Some(libc::ECONNREFUSED) => Reason::Refused,
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => {
                    Reason::Unreachable
                }
                Some(libc::ETIMEDOUT) => Reason::Timeout,
                Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED) => Reason::Lost,
                Some(libc::EMSGSIZE) => Reason::Unsupported,
                // An error of this program, not the system: the stream ended early.
                None if error.kind() == io::ErrorKind::ConnectionReset => Reason::Lost,
                _ => Reason::Other,
            };
            Self::of(reason, format!("{operation}: {error}"))
        }
    }

    /// Whether a retry may succeed soon.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.reason,
            Reason::Refused | Reason::Unreachable | Reason::Timeout | Reason::Lost
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_have_kinds() {
        let of = |code| Failure::io("connect")(io::Error::from_raw_os_error(code));
        assert_eq!(of(libc::ECONNREFUSED).reason, Reason::Refused);
        assert_eq!(of(libc::ETIMEDOUT).reason, Reason::Timeout);
        assert_eq!(of(libc::EPIPE).reason, Reason::Lost);
        let ended = Failure::io("receive")(io::ErrorKind::ConnectionReset.into());
        assert_eq!(ended.reason, Reason::Lost);
        assert!(of(libc::EHOSTUNREACH).to_string().starts_with("unreachable: connect: "));
    }
}
