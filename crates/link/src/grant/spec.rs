//! Grant parameters of a cellular link, as in the experiment file.

use crate::keys::{Key, Kind, Model, time_text};
use serde::{Deserialize, Serialize};
use units::{Bytes, Ratio, Span};

/// Grant parameters of one direction of a cellular link; see [`Grant`](super::Grant) for
/// the model.
///
/// With `cycle` alone, or with `request_period` and `delay`, the sender requests grants.
/// Without them it always has a grant for every block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantSpec {
    /// Duration of a transport block, and block period; above 0.
    pub tti: Span,
    /// Bytes per transport block; above 0.
    pub transport_block: Bytes,
    /// Share of a transport block that carries frames and their `overhead`; above 0.
    #[serde(default = "all")]
    pub efficiency: Ratio,
    /// Bytes that the radio adds to each IP packet.
    #[serde(default)]
    pub overhead: Bytes,
    /// Start of the first block on the run's clock; below `tti`. Shifts two directions
    /// against each other: GSM's uplink, for example, is three timeslots later.
    #[serde(default)]
    pub offset: Span,
    /// Time from data at an idle sender to the first grant, if only the total is known; and
    /// from the end of that grant to the next, if `initial` was too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle: Option<Span>,
    /// Requests are possible only at multiples of this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_period: Option<Span>,
    /// Time from request to grant; default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Bytes of the first grant after an idle period, including overhead. Frames beyond
    /// that wait for a second grant without limit. Default: the first grant has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Bytes>,
    /// How long the sender keeps its grant after its last block; default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

pub(crate) const GRANT: Model = Model {
    name: "Grant",
    what: "a grant",
    doc: "Grants of a cellular network. With `cycle`, or with `request_period` and `delay`, the \
          sender\nrequests grants; without them it always has one.",
    keys: &[
        Key::new("tti", Kind::Time, "Time from one transport block to the next.").required(),
        Key::new("transport_block", Kind::Size, "Bytes of a transport block.").required(),
        Key::new(
            "efficiency",
            Kind::Share,
            "Share of a block that carries frames and their `overhead`. Default: 100 %.",
        ),
        Key::new(
            "overhead",
            Kind::Size,
            "Bytes that the radio adds to each IP packet. Default: 0 B.",
        ),
        Key::new("offset", Kind::Time, "Start of the first block; below `tti`. Default: 0 s."),
        Key::new(
            "cycle",
            Kind::Time,
            "Time from data at an idle sender to the first grant, if only the total is known.",
        ),
        Key::new(
            "request_period",
            Kind::Time,
            "Requests are possible only at multiples of this time.",
        ),
        Key::new("delay", Kind::Time, "Time from request to grant. Default: 0 s."),
        Key::new(
            "initial",
            Kind::Size,
            "Bytes of the first grant; frames beyond that wait for a second grant, for the same \
             time again. Default: no limit.",
        ),
        Key::new(
            "hold",
            Kind::Time,
            "How long a sender with nothing to send keeps its grant. Default: 0 s.",
        ),
    ],
};

fn all() -> Ratio {
    Ratio::from_fraction(1.0).expect("a share")
}

impl GrantSpec {
    /// Blocks of `transport_block` bytes each `tti`, always granted.
    pub fn always(tti: Span, transport_block: Bytes) -> Self {
        Self {
            tti,
            transport_block,
            efficiency: all(),
            overhead: Bytes::new(0),
            offset: Span::ZERO,
            cycle: None,
            request_period: None,
            delay: None,
            initial: None,
            hold: None,
        }
    }

    /// Whether the sender has to request grants.
    pub fn asks(&self) -> bool {
        self.cycle.is_some() || self.request_period.is_some() || self.delay.is_some()
    }

    /// Maximum throughput in bit/s, including each packet's `overhead`.
    pub fn bit_s(&self) -> f64 {
        self.capacity() as f64 * 8e6 / self.tti.as_ns().max(1) as f64
    }

    /// Capacity of a block in 1/1000 byte; 0 only in a spec that [`Self::check`] rejects.
    pub(super) fn capacity(&self) -> u64 {
        (self.transport_block.get() as f64 * 1e3 * self.efficiency.fraction()).round() as u64
    }

    /// Text for people.
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("grants of {} B every {}", self.transport_block.get(), time_text(self.tti));
        if self.efficiency.fraction() < 1.0 {
            text += &format!(" at {} efficiency", self.efficiency);
        }
        let mut terms = Vec::new();
        terms.extend(self.cycle.map(|cycle| format!("cycle {}", time_text(cycle))));
        terms.extend(
            self.request_period.map(|period| format!("request period {}", time_text(period))),
        );
        terms.extend(self.delay.map(|delay| format!("delay {}", time_text(delay))));
        terms.extend(self.initial.map(|bytes| format!("initial {} B", bytes.get())));
        terms.extend(self.hold.map(|hold| format!("hold {}", time_text(hold))));
        if self.overhead != Bytes::ZERO {
            terms.push(format!("overhead {} B per packet", self.overhead.get()));
        }
        if self.offset != Span::ZERO {
            terms.push(format!("offset {}", time_text(self.offset)));
        }
        if !terms.is_empty() {
            text += &format!(" ({})", terms.join(", "));
        }
        text
    }

    /// Validates the parameters. The error says what is wrong and what to write.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |text: &str| Err(text.to_owned());
        let zero = |span: Option<Span>| span == Some(Span::ZERO);
        if self.tti == Span::ZERO {
            return refuse("a `tti` of zero sends no blocks; write for example `tti: 20 ms`");
        }
        if self.transport_block.get() == 0 {
            return refuse(
                "a `transport_block` of zero carries no data; write for example \
                 `transport_block: 148 B`",
            );
        }
        if self.capacity() == 0 {
            return Err(format!(
                "with an `efficiency` of {} a transport block carries no data; write for \
                 example `efficiency: 90 %`",
                self.efficiency
            ));
        }
        if self.offset >= self.tti {
            return Err(format!(
                "`offset` is {}, but blocks repeat every {}; use less than `tti`",
                self.offset, self.tti
            ));
        }
        if zero(self.cycle) {
            return refuse(
                "a `cycle` of zero grants immediately; remove it, or write for example \
                 `cycle: 157 ms`",
            );
        }
        if zero(self.request_period) {
            return refuse(
                "a `request_period` of zero sends requests endlessly; remove it, or write \
                 for example `request_period: 20 ms`",
            );
        }
        if self.cycle.is_some() && (self.request_period.is_some() || self.delay.is_some()) {
            return refuse(
                "`cycle` is the total time from data to grant; `request_period` and `delay` are \
                 its parts; use one or the other",
            );
        }
        if self.initial == Some(Bytes::new(0)) {
            return refuse(
                "an `initial` grant of zero covers no data; remove it, or write for example \
                 `initial: 176 B`",
            );
        }
        for (key, given) in [("initial", self.initial.is_some()), ("hold", self.hold.is_some())] {
            if given && !self.asks() {
                return Err(format!(
                    "`{key}` needs a sender that requests grants, and this one is always granted; \
                     add `cycle` or `request_period`, or remove `{key}`"
                ));
            }
        }
        Ok(())
    }
}
