//! Analysis of packet captures: sizes, layers, TCP flows, messages of MQTT, CoAP, ZMTP and
//! OPC UA, and loss and latency between two capture points.
//!
//! [`analyze`] reads pcap and pcapng from any source, in one pass and in bounded memory. It
//! returns an [`Analysis`], which serialises to the format in `docs/analyze.md`. TCP
//! analysis follows tshark 4.0.

mod address;
mod coap;
mod contexts;
#[cfg(test)]
mod differential;
mod dissect;
mod error;
mod figures;
mod flow;
mod icmp;
mod ieee802154;
mod ip;
mod kinds;
mod link;
mod lowpan;
mod marks;
mod message_names;
mod messages;
mod mqtt;
mod names;
mod opcua;
mod options;
mod parser;
mod paths;
mod reader;
mod reassembly;
mod sequence;
mod stream;
mod survey;
mod times;
mod unread;
mod zmtp;

pub use error::Error;
pub use figures::{
    Analysis, DirectionFigures, FlowFigures, Goodput, KindFigures, MergedFigures, NodeFigures,
    PathFigures, PointFigures, ProtocolFigures, RttFigures, SizeFigures, StreamFigures, TcpFigures,
    TimeFigures, UnreadFigures,
};
pub use options::{Options, Protocol};
pub use survey::analyze;
