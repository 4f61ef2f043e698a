//! File format: the board that a node emulates.

use crate::file::models::model;
use crate::limits::SCALE_ABOVE;
use crate::problem::Problem;
use crate::read::{At, Fields, Read, Sink};
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::{Charge, Current, Frequency, Rate, Ratio, Voltage};

/// The board that a node emulates: a known name, or a profile.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Board {
    /// The name of a known board, such as `nrf52840`.
    Named(String),
    /// A custom board.
    Own(Box<BoardProfile>),
}

impl Read for Board {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match &node.content {
            Content::Scalar(name) => Some(Self::Named(name.clone())),
            _ => Read::read(node, sink).map(|own| Self::Own(Box::new(own))),
        }
    }
}

model! {
    /// A board's power profile.
    BoardProfile, "a board",
    /// Source of the figures.
    optional source as "source": String,
    /// Quality of the figures: `data sheet`, `unchecked` or `estimate`.
    optional quality as "quality": String,
    /// Supply voltage for the currents. Values: voltage (`mV`, `V`).
    #[schemars(required)]
    required supply as "supply": Voltage,
    /// Battery capacity. Values: charge (`mAh`, `Ah`).
    optional battery as "battery": Charge,
    /// Current of the CPU.
    #[schemars(required)]
    required cpu as "cpu": BoardCpu,
    /// Current of the radio, added to the CPU's.
    optional radio as "radio": BoardRadio,
    /// EEMBC CoreMark score of one core, iterations per second, for `limits.cpu`. Range: above 0.
    #[schemars(extend("exclusiveMinimum" = SCALE_ABOVE))]
    optional coremark as "coremark": f64,
}

model! {
    /// Current of a board's CPU.
    BoardCpu, "a board's CPU",
    /// Current while the CPU is active. Values: current (`nA`, `uA`, `mA`, `A`).
    #[schemars(required)]
    required active as "active": Current,
    /// Current while the CPU is idle. Values: current (`nA`, `uA`, `mA`, `A`).
    #[schemars(required)]
    required idle as "idle": Current,
    /// Seconds of CPU time on the board per second of CPU time on this host. Range: above 0.
    /// Default: 1.
    #[schemars(extend("exclusiveMinimum" = SCALE_ABOVE))]
    optional scale as "scale": f64,
}

model! {
    /// Current of a board's radio, added to the CPU's.
    BoardRadio, "a board's radio",
    /// Additional current while the radio sends.
    #[schemars(required)]
    required transmit as "transmit": Current,
    /// Additional current while the radio receives a frame.
    #[schemars(required)]
    required receive as "receive": Current,
    /// Additional current while the radio waits for a frame. Default: as `receive`.
    optional listen as "listen": Current,
    /// Additional current while the radio is off. Default: 0 A.
    optional sleep as "sleep": Current,
    /// Share of the time without frames in which the radio listens. Default: 100 %.
    optional listening as "listening": Ratio,
    /// Rate on air, for links without a configured rate.
    optional rate as "rate": Rate,
}

/// Limit of a node's CPU: a clock frequency of the host, or a share of a board's CPU.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cpu {
    /// Cycles per second of the host's CPU.
    Clock(Frequency),
    /// A share of a board's CoreMark score.
    Of(Ratio, String),
}

impl Read for Cpu {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let what = "a clock frequency such as `200 MHz`, or a share such as `5 % of esp32`";
        let Content::Scalar(text) = &node.content else {
            sink.expected(what, node);
            return None;
        };
        let read = match text.split_once(" of ") {
            Some((share, board)) => {
                share.parse().map(|share| Self::Of(share, board.trim().to_owned()))
            }
            None => text.parse().map(Self::Clock),
        };
        read.map_err(|error| {
            let mut problem = Problem::new(error.to_string()).at(node.place);
            // A larger number means a clock frequency without its unit.
            let count = |n: &f64| (0.0..100.0).contains(n);
            if let Some(number) = text.trim().parse::<f64>().ok().filter(count) {
                problem = problem
                    .note(format!("for a number of CPUs, the key is `cpus`: `cpus: {number}`"));
            }
            sink.add(problem.label(format!("expected {what}")));
        })
        .ok()
    }
}

/// The number of CPUs of the key `cpus`.
pub(crate) fn cpus(fields: &mut Fields<'_, '_>) -> Option<At<f64>> {
    let node = fields.value("cpus", false)?;
    if let Content::Scalar(text) = &node.content
        && (text.parse::<Frequency>().is_ok() || text.contains(" of "))
    {
        let problem = Problem::new(format!("expected a number of CPUs, found `{text}`"));
        let problem = problem.at(node.place).label(format!("the key is `cpu`: `cpu: {text}`"));
        fields.sink.add(problem.note("`cpus` is a number of CPUs such as `0.5`"));
        return None;
    }
    At::read(node, fields.sink)
}
