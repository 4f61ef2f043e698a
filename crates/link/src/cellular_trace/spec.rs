//! Settings of a cellular trace, and its keys in the experiment file.

use crate::keys::{Contradictions, Key, Kind, Model, time_text};
use crate::{LightTrace, SizeDelays, Trace};
use serde::{Deserialize, Serialize};
use std::path::Path;
use units::{Instant, Span};

/// Bytes of an opportunity in both traces: an IP packet and the header of the TUN device
/// (`PACKET_SIZE` in CellReplay's cellular_queue.hh).
pub(super) const OPPORTUNITY: u64 = 1400;
/// Traces of one direction of a cellular link under light and heavy load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellularTrace {
    /// Base delay and opportunities under light load.
    pub light: LightTrace,
    /// Opportunities under heavy load.
    pub heavy: Trace,
    /// Delay by the size of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_delays: Option<SizeDelays>,
    /// Time without frames after which a frame begins a new train.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle: Span,
}

fn is_zero(span: &Span) -> bool {
    *span == Span::ZERO
}

pub(crate) const CELLULAR_TRACE: Model = Model {
    name: "CellularTrace",
    what: "a cellular trace",
    doc: "Traces of a cellular link as CellReplay (NSDI 2025) records them: one for light load and \
          one for heavy load.",
    keys: &[
        Key::new(
            "light",
            Kind::File,
            "Base delay and opportunities under light load. Each line is a recorded train of \
             packets: its time, its base delay and its opportunities of up to 1,400 B, which count \
             from its first packet, all in ms. The last line only ends the trace, which then \
             repeats. Values: path.",
        )
        .required(),
        Key::new(
            "heavy",
            Kind::File,
            "Opportunities under heavy load: a file as for `trace`, with up to 1,400 B each time. \
             Values: path.",
        )
        .required(),
        Key::new(
            "size_delays",
            Kind::File,
            "Delay by packet size, added to the base delay: lines such as `100 -1.5`, with a size in \
             bytes (100, 200 and so on) and a time in ms. Values: path.",
        ),
        Key::new(
            "idle",
            Kind::Time,
            "How long after the last frame of a train a frame begins a new one, apart from the base \
             delay. Default: 0 s.",
        ),
    ],
};

impl CellularTrace {
    /// Mean rate under heavy load in bit/s.
    pub fn mean_bit_s(&self) -> f64 {
        self.heavy.mean_bit_s()
    }

    /// Text for people.
    pub(crate) fn text(&self) -> String {
        let mut text =
            format!("light trace {}, heavy trace {}", self.light.text(), self.heavy.text());
        if let Some(delays) = &self.size_delays {
            text += &format!(", delays by size {}", delays.file.display());
        }
        if self.idle != Span::ZERO {
            text += &format!(", a new train after {}", time_text(self.idle));
        }
        text
    }

    /// Reads the files, relative to `base`; `None` if one is not usable.
    pub(crate) fn load(&self, base: &Path, found: &mut Contradictions) -> Option<Self> {
        let mut report = |key: &str, error: String, format: &str| {
            let fix = format!(
                "a file in the format of CellReplay: {format}; paths are relative to this file"
            );
            found.add(format!("cellular_trace.{key}"), error, fix);
        };
        let light = LightTrace::read(&base.join(&self.light.file));
        let light = light.map_err(|error| report("light", error.to_string(), "recorded trains"));
        let heavy = Trace::read(&base.join(&self.heavy.file));
        let heavy = heavy.map_err(|error| report("heavy", error.to_string(), "one time per line"));
        let sizes =
            self.size_delays.as_ref().map(|sizes| SizeDelays::read(&base.join(&sizes.file)));
        let sizes = sizes.transpose().map_err(|error| {
            report("size_delays", error.to_string(), "a size and a delay per line");
        });
        Some(Self {
            light: light.ok()?,
            heavy: heavy.ok()?.with_opportunity(OPPORTUNITY),
            size_delays: sizes.ok()?,
            idle: self.idle,
        })
    }

    /// Whether the files are the same.
    pub(crate) fn has_files_of(&self, other: &Self) -> bool {
        let sizes = |trace: &Self| trace.size_delays.as_ref().map(|sizes| sizes.file.clone());
        self.light.file == other.light.file
            && self.heavy.file == other.heavy.file
            && sizes(self) == sizes(other)
    }

    /// The time `at`, moved by the delay of a packet of this size.
    pub(super) fn moved(&self, at: Instant, bytes: u64) -> Instant {
        let ms = self.size_delays.as_ref().map_or(0.0, |sizes| sizes.of(bytes));
        let span = Span::from_ms(ms.abs() as u64);
        if ms < 0.0 { at - span } else { at + span }
    }
}
