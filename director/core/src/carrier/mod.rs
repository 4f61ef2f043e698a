//! The transports of the models. Each model is a file or folder with its [`interface::Model`]; the
//! models register in [`registry`]. A model without multicast only implements an exchange
//! ([`exchange`]), one of an external stack only says how that sends ([`outside`]).
//!
//! A carrier (transport) delivers sealed envelopes to the other side. It does no I/O: its caller
//! passes the time and received datagrams, and sends the datagrams that it returns.

mod arq;
mod coap;
mod deliveries;
mod exchange;
mod fec;
mod interface;
mod mqtt;
mod outside;
mod peers;
mod pgm;
mod quic;
mod registry;
mod tcp;
mod udp;

pub(crate) use arq::Arq;
pub(crate) use exchange::Exchange;
pub(crate) use fec::asks;
pub use interface::{CarrierEvent, Flow, HubCarrier, Load, MemberCarrier, Params, To};
pub use outside::model_of;
pub use registry::{available, hub, is_of, member};
