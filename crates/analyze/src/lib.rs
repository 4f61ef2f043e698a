//! What is in a capture of packets: sizes, layers, flows of TCP, messages of
//! MQTT, CoAP, ZMTP and OPC UA, and what happened between two capture points.
//!
//! [`analyze`] reads pcap and pcapng from any source, once, in bounded memory,
//! and gives an [`Analysis`], which serialises to the form that
//! `docs/analyze.md` describes. What is said of TCP is what tshark says of it.

mod coap;
mod dissect;
mod error;
mod figures;
mod flow;
mod kinds;
mod messages;
mod mqtt;
mod opcua;
mod options;
mod parser;
mod paths;
mod reader;
mod sequence;
mod stream;
mod survey;
mod times;
mod zmtp;

pub use error::Error;
pub use figures::{
    Analysis, DirectionFigures, FlowFigures, Goodput, KindFigures, NodeFigures, PathFigures,
    PointFigures, RttFigures, SizeFigures, StreamFigures, TcpFigures, TimeFigures,
};
pub use options::{Options, Protocol};
pub use survey::analyze;
