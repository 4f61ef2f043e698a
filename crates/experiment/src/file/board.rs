//! The board that a node stands for, as typed.

use crate::file::models::model;
use crate::problem::Problem;
use crate::read::{At, Fields, Read, Sink};
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::{Charge, Current, Frequency, Rate, Ratio, Voltage};

/// The board that a node stands for: the name of a known one, or its figures.
#[derive(Debug, Clone, PartialEq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum Board {
    /// A known one, such as `nrf52840`.
    Named(String),
    /// One of one's own.
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
    /// What a board draws.
    BoardProfile, "a board",
    /// Where the figures are from.
    optional source as "source": String,
    /// How good they are: `data sheet`, `unchecked` or `estimate`.
    optional quality as "quality": String,
    /// The voltage at which it draws the currents.
    #[schemars(required)]
    required supply as "supply": Voltage,
    /// What its battery holds.
    optional battery as "battery": Charge,
    /// What its CPU draws.
    #[schemars(required)]
    required cpu as "cpu": BoardCpu,
    /// What its radio draws beside the CPU.
    optional radio as "radio": BoardRadio,
    /// What one core of it scores in EEMBC's CoreMark, iterations a second.
    optional coremark as "coremark": f64,
}

model! {
    /// What a board's CPU draws.
    BoardCpu, "a board's CPU",
    /// While it works.
    #[schemars(required)]
    required active as "active": Current,
    /// While it does not.
    #[schemars(required)]
    required idle as "idle": Current,
    /// Seconds that it takes for what takes this host one; 1 unless given.
    optional scale as "scale": f64,
}

model! {
    /// What a board's radio draws, beside its CPU.
    BoardRadio, "a board's radio",
    /// While it sends.
    #[schemars(required)]
    required transmit as "transmit": Current,
    /// While it receives a frame.
    #[schemars(required)]
    required receive as "receive": Current,
    /// While it waits for one; as `receive` unless given.
    optional listen as "listen": Current,
    /// While it is off; 0 A unless given.
    optional sleep as "sleep": Current,
    /// Share of the time without frames in which it waits for one; 100 % unless given.
    optional listening as "listening": Ratio,
    /// The rate on air, for links that ask for none.
    optional rate as "rate": Rate,
}

/// What a node may use of a CPU's work: of the host's clock, or of another board's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cpu {
    /// So many cycles a second of the host's.
    Clock(Frequency),
    /// A share of what a board does, in CoreMark.
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
            let problem = Problem::new(error.to_string()).at(node.place);
            sink.add(problem.label(format!("expected {what}")));
        })
        .ok()
    }
}
