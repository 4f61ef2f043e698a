//! Why an exchange failed.

use std::fmt;
use std::io;

/// What kind of thing went wrong: the word in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Nobody listens there.
    Refused,
    /// There is no way there.
    Unreachable,
    /// It took too long: something was lost for good, or somebody is silent.
    Timeout,
    /// The connection was there and ended before the exchange had.
    Lost,
    /// The other side's certificate, or ours, is not trusted.
    Certificate,
    /// The other side said no: to a connection, a session, a subscription.
    Rejected,
    /// The other side answered that it could not do it.
    Status,
    /// What came is not what was sent.
    Corrupt,
    /// This stack, or the protocol, cannot do what was asked for.
    Unsupported,
    /// The run was ended meanwhile.
    Stopped,
    /// Anything else.
    Other,
}

impl Reason {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Lost => "lost",
            Self::Certificate => "certificate",
            Self::Rejected => "rejected",
            Self::Status => "status",
            Self::Corrupt => "corrupt",
            Self::Unsupported => "unsupported",
            Self::Stopped => "stopped",
            Self::Other => "other",
        }
    }
}

/// Why an exchange failed: its kind, and what exactly, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind.
    pub reason: Reason,
    /// What exactly; may be empty.
    pub detail: String,
}

impl Failure {
    /// A failure of this kind.
    pub fn of(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }

    /// The deadline has come.
    pub fn timeout() -> Self {
        Self::of(Reason::Timeout, "no further data arrived within the timeout of an exchange")
    }

    /// Something else came than was sent.
    pub fn corrupt(detail: impl Into<String>) -> Self {
        Self::of(Reason::Corrupt, detail)
    }

    /// For `map_err`: the kernel refused what was tried.
    pub fn io(tried: &str) -> impl FnOnce(io::Error) -> Self + use<> {
        let tried = tried.to_owned();
        move |error| {
            let reason = match error.raw_os_error() {
                Some(libc::ECONNREFUSED) => Reason::Refused,
                Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => {
                    Reason::Unreachable
                }
                Some(libc::ETIMEDOUT) => Reason::Timeout,
                Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED) => Reason::Lost,
                Some(libc::EMSGSIZE) => Reason::Unsupported,
                None if error.kind() == io::ErrorKind::ConnectionReset => Reason::Lost,
                _ => Reason::Other,
            };
            Self::of(reason, format!("{tried}: {error}"))
        }
    }

    /// Whether it may go away by itself if it is tried again soon.
    pub fn may_pass(&self) -> bool {
        matches!(
            self.reason,
            Reason::Refused | Reason::Unreachable | Reason::Timeout | Reason::Lost
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason.word())?;
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
