//! Definitions of everything that crosses a process or a file, each in one place: the specs of
//! workload programs, control messages, figures and results of a run.
//!
//! The crates that write and the crates that read use the same types, so that the compiler finds
//! every use of a field that changes.

pub mod control;
mod mqtt_version;
mod pattern;
mod protocol;
pub mod spec;
mod word;

pub use mqtt_version::MqttVersion;
pub use pattern::{DirectorModel, InteractionPattern};
pub use protocol::{
    Coap, CoapTransport, Connection, ExchangeProtocol, Http, HttpMethod, Method, MqttChoice, Opcua,
    Quic, Timestamps,
};
