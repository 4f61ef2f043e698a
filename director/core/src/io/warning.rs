//! Lines for the operator of a hub or a member.

use super::silence::AFTER;
use crate::{Instant, Span};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

type Report = dyn Fn(&str) + Send + Sync;

/// Minimum time between two lines about an address.
const EVERY: Span = Span::from_s(60);
/// Maximum number of unknown addresses with a line in that time: anyone can forge them.
const MOST: usize = 16;

/// Where the lines go, if anywhere, and times of the last ones.
#[derive(Clone, Default)]
pub(super) struct Warnings(Option<Arc<Report>>, Arc<Mutex<Limits>>);

/// Unknown addresses with a line, and its time. Addresses of members do not count: the session limits each.
#[derive(Default)]
struct Limits {
    lines: BTreeMap<IpAddr, Instant>,
    /// When the line was written that says that there are more.
    more_at: Option<Instant>,
}

/// What to write about an address.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    One,
    /// There are more than have lines.
    More,
    None,
}

impl Limits {
    fn line(&mut self, from: IpAddr, now: Instant) -> Line {
        self.lines.retain(|_, at| now < *at + EVERY);
        if self.lines.contains_key(&from) {
            return Line::None;
        }
        if self.lines.len() < MOST {
            self.lines.insert(from, now);
            return Line::One;
        }
        let is_due = self.more_at.is_none_or(|at| now >= at + EVERY);
        if is_due {
            self.more_at = Some(now);
            return Line::More;
        }
        Line::None
    }
}

impl Warnings {
    /// Lines go to this function.
    pub fn to(report: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)), Arc::default())
    }

    /// No key opens a hello from this address, which is that of a member (`is_known`) or another one.
    pub fn refused(&self, from: SocketAddr, is_known: bool, now: Instant) {
        let Some(report) = &self.0 else { return };
        let line = match is_known {
            true => Line::One,
            false => self.1.lock().unwrap_or_else(PoisonError::into_inner).line(from.ip(), now),
        };
        match line {
            Line::None => {}
            Line::More => report(&format!(
                "hellos from more than {MOST} unknown addresses were refused within a minute: they may be \
                 forged. Addresses of known members have lines in any case"
            )),
            Line::One => report(&format!(
                "a hello from {from} was refused: none of the session's keys opens it. Its sender has \
                 another key, was revoked, or is no member. If it is one, give it the key that the hub has \
                 for it, and start it again (one line a minute for an address at most)"
            )),
        }
    }
}

impl Warnings {
    /// The hub at this address does not answer a member.
    pub fn silent(&self, hub: SocketAddr) {
        let Some(report) = &self.0 else { return };
        report(&format!(
            "no answer from the hub at {hub} for {} s: it does not run, has another key for this member or no place \
             left, or datagrams do not pass between the two addresses. Messages wait until their lifetimes end",
            AFTER.as_ms() / 1e3
        ));
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Warnings({})", if self.0.is_some() { "on" } else { "off" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed before: one forged hello a minute used up the line of all addresses.
    #[test]
    fn each_address_has_a_line_a_minute_and_forged_ones_have_a_limit() {
        let mut limits = Limits::default();
        let mut line = |of: u8, second| {
            limits.line(IpAddr::from([10, 0, 0, of]), Instant::START + Span::from_s(second))
        };
        assert_eq!([line(1, 0), line(2, 0), line(1, 59)], [Line::One, Line::One, Line::None]);
        assert_eq!(line(1, 60), Line::One);
        let written = (3..200).filter(|of| line(*of, 61) == Line::One).count();
        assert_eq!(written, MOST - 1);
        assert_eq!([line(200, 61), line(201, 62)], [Line::None, Line::None]);
        assert_eq!(line(200, 200), Line::One);
        assert!(limits.lines.len() <= MOST);
    }
}
