//! Handovers at fixed times, as of satellites in low orbit: each begins an interval with another
//! path, and frames wait until the new path carries them.

use crate::keys::{Contradictions, Key, Keys, Kind, Model, time_text};
use crate::stage::{ChannelWait, Stage};
use serde::Serialize;
use units::{Draw, Purpose, Span};

/// Handovers of a link; `None` without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Handovers(pub Option<Handover>);

/// Handovers at fixed times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Handover {
    /// Time from one to the next; the first is at the start of impairments.
    pub every: Span,
    /// Largest delay that a path adds; each interval has one, uniform from 0 to this.
    #[serde(skip_serializing_if = "is_zero")]
    pub spread: Span,
    /// Time from a handover until frames pass again: those that leave earlier wait.
    #[serde(skip_serializing_if = "is_zero")]
    pub pause: Span,
}

impl Handovers {
    /// As [`Handover::delay`]; zero without handovers.
    pub(crate) fn delay(&self, draw: Draw, since: Span) -> Span {
        self.0.map_or(Span::ZERO, |handover| handover.delay(draw, since))
    }
}

fn is_zero(span: &Span) -> bool {
    *span == Span::ZERO
}

impl Handover {
    /// The delay of a frame that left this long after the start of impairments.
    pub fn delay(&self, draw: Draw, since: Span) -> Span {
        let (since, every) = (since.as_ns(), self.every.as_ns().max(1));
        let (interval, within) = (since / every, Span::from_ns(since % every));
        // Drawn by interval and not by frame: all frames of one path have its delay.
        let spread = draw.uniform(Purpose::Handover, interval) * self.spread.as_ns() as f64;
        // The difference of spans saturates, so it is 0 behind the pause.
        Span::from_ns(spread as u64) + (self.pause - within)
    }
}

const HANDOVER: Model = Model {
    name: "Handover",
    what: "a handover",
    doc: "Handovers at fixed times, as of satellites in low orbit.",
    keys: &[
        Key::new("every", Kind::Time, "Time from one handover to the next, from time 0.")
            .required(),
        Key::new(
            "spread",
            Kind::Time,
            "Largest delay that a path adds to `delay`. The delay of a path is drawn once, \
             uniform from 0 to this, and holds until the next handover.",
        ),
        Key::new(
            "pause",
            Kind::Time,
            "Time from a handover until the new path carries frames; frames that leave meanwhile \
             wait.",
        ),
    ],
};

impl Stage for Handovers {
    const KEYS: &'static [Key] = &[Key::new(
        "handover",
        Kind::Map(&HANDOVER),
        "Handovers at fixed times, as of satellites: another path each time, and a pause.",
    )];
    const ORDER: u8 = 6;
    type Flow = ();

    fn read(keys: &Keys) -> Result<Self, String> {
        let Some(own) = keys.read::<Keys>("handover")? else { return Ok(Self(None)) };
        Ok(Self(Some(Handover {
            every: own.require("every")?,
            spread: own.read_or_default("spread")?,
            pause: own.read_or_default("pause")?,
        })))
    }

    fn write(&self, keys: &mut Keys) {
        if let Some(handover) = &self.0 {
            keys.insert("handover", handover);
        }
    }

    fn check(keys: &Keys, _: ChannelWait, found: &mut Contradictions) {
        let Some(own) = keys.get::<Keys>("handover") else { return };
        let time = |key: &str| own.get::<Span>(key).unwrap_or_default();
        let (every, pause) = (time("every"), time("pause"));
        if own.has("every") && every == Span::ZERO {
            found.add("handover.every", "a time of 0", "use more than 0 s, for example `15 s`");
        } else if own.has("every") && pause >= every {
            let text = format!("the pause of {pause} lasts until the next handover after {every}");
            found.add(
                "handover.pause",
                text,
                "no frame would ever pass at once: use less than `every`",
            );
        }
        if !own.has("spread") && !own.has("pause") {
            let fix = "add `spread`, `pause` or both";
            found.add("handover", "handovers without any effect", fix);
        }
    }

    fn check_netem(keys: &Keys, found: &mut Contradictions) {
        if keys.has("handover") {
            found.add("handover", "handovers", "use a `timetable` that changes `delay`");
        }
    }

    fn text(&self, _is_scheduled: bool) -> Option<String> {
        let Handover { every, spread, pause } = self.0?;
        let part = |time: Span, text: String| (time != Span::ZERO).then_some(text);
        let spread = part(spread, format!(" up to {} more", time_text(spread)));
        let pause = part(pause, format!(" a pause of {}", time_text(pause)));
        let parts: Vec<_> = spread.into_iter().chain(pause).collect();
        Some(format!("a handover every {}:{}", time_text(every), parts.join(",")))
    }

    fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn handover(every: u64, spread: u64, pause: u64) -> Handover {
        let [every, spread, pause] = [every, spread, pause].map(|ms| Span::from_ns(ms * MS));
        Handover { every, spread, pause }
    }

    #[test]
    fn frames_wait_for_the_end_of_the_pause() {
        let pauses = handover(15_000, 0, 140);
        let at = |ms: u64| pauses.delay(Draw::new(1, 1, 0), Span::from_ms(ms)).as_ns() / MS;
        assert_eq!([0, 40, 139, 140, 14_999, 15_000, 15_100].map(at), [140, 100, 1, 0, 0, 140, 40]);
    }

    #[test]
    fn each_interval_has_its_path() {
        let paths = handover(15_000, 30, 0);
        let draw = Draw::new(7, 1, 0);
        let at = |interval: u64, ms: u64| paths.delay(draw, Span::from_ms(interval * 15_000 + ms));
        assert_eq!(at(3, 0), at(3, 14_999));
        let mut delays: Vec<f64> = (0..10_000).map(|n| at(n, 5).as_ms()).collect();
        delays.sort_by(f64::total_cmp);
        // Four standard errors of a quantile: 4 * 30 * 0.5 / 100.
        for (place, expected) in [(2_500, 7.5), (5_000, 15.0), (7_500, 22.5)] {
            assert!((delays[place] - expected).abs() < 0.6, "{}", delays[place]);
        }
        assert!(delays[9_999] < 30.0);
        assert_ne!(
            at(0, 0),
            paths.delay(Draw::new(7, 2, 0), Span::ZERO),
            "links have separate paths"
        );
    }
}
