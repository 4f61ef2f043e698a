//! When a device that saves energy receives: paging (DRX, eDRX, PSM), or windows after its own frames.
//!
//! 1. With `paging`, the device listens at multiples of it only: its paging occasions. In NB-IoT they
//!    are 1.28 s to 10.24 s apart (3GPP TS 36.331, defaultPagingCycle).
//! 2. With `cycle` and `window` (eDRX), those occasions count that lie within `window` from a multiple
//!    of `cycle`; in NB-IoT 20.48 s to 10485.76 s and 2.56 s to 40.96 s (TS 24.008, 10.5.5.32).
//! 3. With `active` (PSM: T3324, TS 24.008, 10.5.7.3), they count until `active` after the device became
//!    idle. Then it sleeps, and they count again for `active` from each multiple of `periodic` (T3412)
//!    since then: the periodic update. Without `periodic` it sleeps until it sends.
//! 4. With `awake`, it also listens all the time until so long after the last frame, as a connected
//!    device with DRX does.
//! 5. With `after_uplink`, it listens at these times after the end of a frame that it sent: the receive windows
//!    of LoRaWAN's class A. One frame is received; others wait for the next own frame, which the device
//!    sends after the last window of the one before (LoRaWAN 1.0.x, 3.3.7), or after it has received.
//!
//! Pure: takes times, returns times. A frame that waits leaves earlier if the device sends, so its
//! departure is not known when it arrives.

use crate::keys::time_text;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use units::{Instant, Span};

/// When a device receives, in a state of its radio.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reach {
    /// Listens all the time until so long after the last frame.
    pub awake: Span,
    /// Time from one paging occasion to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paging: Option<Span>,
    /// First occasion, below `paging`.
    pub offset: Span,
    /// eDRX: time from one paging window to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Span>,
    /// eDRX: duration of a paging window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// PSM: how long occasions count after the device became idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<Span>,
    /// PSM: time between two periodic updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periodic: Option<Span>,
    /// Times from the end of the device's own frame to its receive windows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after_uplink: Vec<Span>,
}

/// When a device receives next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reachable {
    /// Now.
    Now,
    /// At this time, or when the device sends.
    At(Instant),
    /// When the device sends.
    Never,
}

/// What a device did last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past<'a> {
    /// When it entered its state, or the end of the last frame in either direction.
    pub active: Instant,
    /// Ends of frames that it sent and that no frame to it has followed, the last of which may be to come.
    pub sent: &'a VecDeque<Instant>,
}

impl Reach {
    /// When the device receives, from `now` on.
    pub(super) fn next(&self, past: Past<'_>, now: Instant) -> Reachable {
        if self.awake > Span::ZERO && now <= past.active + self.awake {
            return Reachable::Now;
        }
        let next = match self.paging {
            Some(paging) => self.paged(paging, past.active, now),
            None => {
                let windows =
                    |sent: Instant| self.after_uplink.iter().map(move |after| sent + *after);
                past.sent.iter().copied().flat_map(windows).filter(|window| *window >= now).min()
            }
        };
        match next {
            Some(next) if next <= now => Reachable::Now,
            Some(next) => Reachable::At(next),
            None => Reachable::Never,
        }
    }

    /// Time from the end of an own frame to the last window after it.
    pub(super) fn last_window(&self) -> Option<Span> {
        self.after_uplink.iter().copied().max()
    }

    /// The first occasion at or after `now` of a device that is idle since `idle`; `None` if it sleeps
    /// until it sends.
    fn paged(&self, paging: Span, idle: Instant, now: Instant) -> Option<Instant> {
        let Some(active) = self.active else { return Some(self.occasion(paging, now)) };
        let round = self.periodic.unwrap_or_default().as_ns();
        // The start of the current time of listening, then those of the next ones.
        let past = (now - idle).as_ns().checked_div(round).unwrap_or(0);
        let start = |later: u64| idle + Span::from_ns(round.saturating_mul(past + later));
        let within = |start: Instant, found: Instant| found <= start + active;
        let found = self.occasion(paging, now.max(start(0)));
        if within(start(0), found) {
            return Some(found);
        }
        // In the next one there may be no occasion either. The longest gap is a cycle of eDRX.
        let gap = self.cycle.unwrap_or(paging).as_ns();
        // The bound ends the search where updates are frequent and eDRX cycles take hours.
        let rounds = gap.checked_div(round).map_or(0, |rounds| rounds.min(MAX_ROUNDS) + 2);
        (1..=rounds).find_map(|later| {
            let found = self.occasion(paging, start(later));
            within(start(later), found).then_some(found)
        })
    }

    /// The first occasion of DRX or eDRX at or after `at`.
    fn occasion(&self, paging: Span, at: Instant) -> Instant {
        let found = multiple(at, paging, self.offset);
        let (Some(cycle), Some(window)) = (self.cycle, self.window) else { return found };
        let within = Span::from_ns(found.as_ns() % cycle.as_ns().max(1));
        match within < window {
            true => found,
            false => multiple(multiple(found, cycle, Span::ZERO), paging, self.offset),
        }
    }

    /// Text for people.
    pub(super) fn text(&self) -> String {
        let paging = self.paging.map(|every| format!("paged every {}", time_text(every)));
        let windows = (self.cycle, self.window);
        let windows = match windows {
            (Some(cycle), Some(window)) => {
                Some(format!("in the first {} of {}", time_text(window), time_text(cycle)))
            }
            _ => None,
        };
        let active = self.active.map(|active| format!("for {}", time_text(active)));
        let periodic = self.periodic.map(|each| format!("and again every {}", time_text(each)));
        let times: Vec<String> = self.after_uplink.iter().map(|after| time_text(*after)).collect();
        let after =
            (!times.is_empty()).then(|| format!("receives {} after it sent", times.join(" or ")));
        let awake =
            (self.awake > Span::ZERO).then(|| format!("awake for {}", time_text(self.awake)));
        [paging, windows, active, periodic, after, awake]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// Validates the parameters, in a state with this name that has a service or not. The error says
    /// what is wrong and what to write.
    pub(super) fn check(&self, name: &str, serves: bool) -> Result<(), String> {
        let refuse = |text: &str| Err(format!("the `reach` of `{name}` {text}"));
        let (pages, answers) = (self.paging.is_some(), !self.after_uplink.is_empty());
        let paged = [self.cycle, self.window, self.active, self.periodic];
        if pages == answers {
            return refuse(
                "needs either `paging` or `after_uplink`; write for example \
                 `reach: {paging: 2.56 s}`",
            );
        }
        if answers && (paged.iter().any(Option::is_some) || self.offset > Span::ZERO) {
            return refuse("has `after_uplink` and keys of paging; remove one of them");
        }
        if answers && !serves {
            return refuse("has `after_uplink`, but the state carries nothing; add a `service`");
        }
        if self.paging == Some(Span::ZERO) {
            return refuse("has a `paging` of zero; write for example `paging: 2.56 s`");
        }
        if self.paging.is_some_and(|paging| self.offset >= paging) {
            return refuse("has an `offset` that is not below `paging`; use less");
        }
        if serves && (self.active.is_some() || self.periodic.is_some()) {
            return refuse(
                "has `active` or `periodic`, which are for a device without a connection; remove \
                 them, or the state's `service`",
            );
        }
        if self.periodic.is_some() && self.active.is_none() {
            return refuse("has `periodic` without `active`; add for example `active: 16 s`");
        }
        if self.periodic == Some(Span::ZERO) {
            return refuse("has a `periodic` of zero; write for example `periodic: 1 h`");
        }
        match (self.cycle, self.window) {
            (None, None) => Ok(()),
            (Some(cycle), Some(window)) if window <= cycle && Some(window) >= self.paging => Ok(()),
            (Some(_), Some(_)) => refuse(
                "has a `window` that is not between `paging` and `cycle`; use for example \
                 `paging: 2.56 s, cycle: 20.48 s, window: 5.12 s`",
            ),
            _ => refuse("has one of `cycle` and `window`; give both, or none"),
        }
    }
}

/// Maximum number of periodic updates in which an occasion is looked for.
const MAX_ROUNDS: u64 = 10_000;

/// The first of `offset`, `offset` + `period` and so on, at or after `at`.
fn multiple(at: Instant, period: Span, offset: Span) -> Instant {
    let first = Instant::START + offset;
    let period = period.as_ns().max(1);
    first + Span::from_ns((at - first).as_ns().div_ceil(period).saturating_mul(period))
}

#[cfg(test)]
#[path = "reach_tests.rs"]
mod tests;
