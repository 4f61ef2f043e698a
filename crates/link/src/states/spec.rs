//! Radio states, as in the experiment file.

use super::reach::Reach;
use serde::{Deserialize, Serialize};
use units::{Bytes, Span};

/// What a state does with frames, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Passes them to the link's transmission model: grant, rate.
    Full,
    /// Carries them itself over a slow shared channel, one after another in each direction.
    Slow {
        /// Device to network.
        up: Slow,
        /// Network to device.
        down: Slow,
    },
}

/// Service time of a frame in slow service: `fixed`, plus `byte` for each byte of its IP
/// packet, plus `square` times the number of bytes squared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slow {
    /// Per frame.
    pub fixed: Span,
    /// Per byte.
    pub byte: Span,
    /// Per byte squared.
    pub square: Span,
}

impl Slow {
    /// Service time of `bytes`.
    pub fn time(self, bytes: u64) -> Span {
        let each = self.square.as_ns().saturating_mul(bytes).saturating_add(self.byte.as_ns());
        Span::from_ns(each.saturating_mul(bytes).saturating_add(self.fixed.as_ns()))
    }
}

/// Promotion to a higher state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promotion {
    /// Duration. Frames wait meanwhile, in both directions.
    pub delay: Span,
    /// The promotion begins when more than this is queued on the uplink, in bytes of IP
    /// packets; in a state without service, with any frame.
    #[serde(default)]
    pub up: Bytes,
    /// The threshold on the downlink.
    #[serde(default)]
    pub down: Bytes,
    /// Target state; default: the last.
    #[serde(default)]
    pub to: Option<String>,
}

/// One state of a radio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Name, for `to`, `initial` and reports.
    pub name: String,
    /// What the state does with frames; default: nothing passes.
    #[serde(default)]
    pub service: Option<Service>,
    /// Promotion to a higher state.
    #[serde(default)]
    pub promotion: Option<Promotion>,
    /// Returns to the previous state after this long without data in either direction;
    /// default: never.
    #[serde(default)]
    pub inactivity: Option<Span>,
    /// When the device receives; default: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
}

/// Radio states, from the lowest power to the highest capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatesSpec {
    /// The states; at least one.
    pub states: Vec<State>,
    /// Initial state; default: the first.
    #[serde(default)]
    pub initial: Option<String>,
    /// The device does not receive while it sends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_duplex: Option<HalfDuplex>,
}

/// A device that does not receive while it sends: half duplex of type B (3GPP TS 36.211, 6.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HalfDuplex {
    /// Time from the end of a frame in one direction to the next in the other; 1 ms for type B.
    pub guard: Span,
}

impl StatesSpec {
    /// Idle and connected, as in LTE, LTE-M, NB-IoT and 5G: `promotion` with any data, back
    /// to idle after `inactivity`.
    pub fn idle_connected(promotion: Span, inactivity: Span) -> Self {
        let state = |name: &str| State {
            name: name.to_owned(),
            service: None,
            promotion: None,
            inactivity: None,
            reach: None,
        };
        let delay = promotion;
        let promotion = Promotion { delay, up: Bytes::new(0), down: Bytes::new(0), to: None };
        Self {
            states: vec![
                State { promotion: Some(promotion), ..state("idle") },
                State {
                    service: Some(Service::Full),
                    inactivity: Some(inactivity),
                    ..state("connected")
                },
            ],
            initial: None,
            half_duplex: None,
        }
    }

    /// Index of the state with this name.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.states.iter().position(|state| state.name == name)
    }

    /// Text for people.
    pub fn text(&self) -> String {
        let one = |state: &State| match &state.reach {
            Some(reach) => format!("{} ({})", state.name, reach.text()),
            None => state.name.clone(),
        };
        let mut text = self.states.iter().map(one).collect::<Vec<_>>().join(", ");
        if self.half_duplex.is_some() {
            text += "; half duplex";
        }
        text
    }

    /// Validates the spec. The error says what is wrong and what to write.
    pub fn check(&self) -> Result<(), String> {
        let Some(highest) = self.states.len().checked_sub(1) else {
            return Err(
                "a radio without states carries nothing; remove `states`, or add a state with \
                 `service: full`"
                    .to_owned(),
            );
        };
        for (place, state) in self.states.iter().enumerate() {
            if self.place(&state.name) != Some(place) {
                return Err(format!("two states have the name `{}`; rename one", state.name));
            }
            self.check_state(place, highest)?;
        }
        match &self.initial {
            Some(name) if self.place(name).is_none() => Err(format!(
                "`initial` is `{name}`, which is not a state; use one of {}",
                self.names(0)
            )),
            _ => Ok(()),
        }
    }

    fn check_state(&self, place: usize, highest: usize) -> Result<(), String> {
        let state = &self.states[place];
        let name = &state.name;
        match state.inactivity {
            Some(_) if place == 0 => {
                return Err(format!(
                    "`{name}` is the first state and cannot fall back with `inactivity`; remove \
                     `inactivity`, or add a lower state before `{name}`"
                ));
            }
            Some(Span::ZERO) => {
                return Err(format!(
                    "an `inactivity` of zero leaves `{name}` at once; write for example \
                     `inactivity: 10 s`"
                ));
            }
            _ => {}
        }
        if let Some(reach) = &state.reach {
            reach.check(name, state.service.is_some())?;
        }
        let Some(promotion) = &state.promotion else {
            return match state.service {
                Some(_) => Ok(()),
                None => Err(format!(
                    "`{name}` has neither `service` nor `promotion`, so no frame can pass; \
                     add `service: full` or a `promotion`"
                )),
            };
        };
        let target = match &promotion.to {
            Some(to) => self.place(to),
            None => Some(highest),
        };
        let Some(target) = target.filter(|target| *target > place) else {
            return Err(match &promotion.to {
                Some(to) if place < highest => format!(
                    "the promotion of `{name}` leads to `{to}`, which is not a state after it; \
                     use one of {}",
                    self.names(place + 1)
                ),
                _ => format!(
                    "`{name}` is the last state and has no higher one; remove its `promotion`"
                ),
            });
        };
        match self.states[target].service {
            Some(_) => Ok(()),
            None => Err(format!(
                "the promotion of `{name}` leads to `{}`, which has no `service`; add a `service` to \
                 it",
                self.states[target].name
            )),
        }
    }

    fn names(&self, from: usize) -> String {
        let names: Vec<_> =
            self.states[from..].iter().map(|state| format!("`{}`", state.name)).collect();
        names.join(", ")
    }
}
