//! Definitions of everything that crosses a process or a file, each in one place: the specs of
//! workload programs, control messages, figures and results of a run.
//!
//! The crates that write and the crates that read use the same types, so that the compiler finds
//! every use of a field that changes.

mod cell;
mod clock;
pub mod control;
pub mod event;
mod evidence;
mod figure;
mod mqtt_version;
mod pace;
mod pattern;
mod percentiles;
mod protocol;
mod run_facts;
pub mod selection;
mod series;
pub mod spec;
mod summary;
mod timeline;
mod verdict;
mod word;
mod workload_figures;

pub use cell::Cell;
pub use clock::{Clock, Cpu};
pub use evidence::Subject;
pub use figure::{Figure, Key, Over, Part, Scope, Shape, reduce};
pub use mqtt_version::MqttVersion;
pub use pattern::{DirectorModel, InteractionPattern};
pub use percentiles::Percentiles;
pub use protocol::{
    Coap, CoapTransport, Connection, ExchangeProtocol, Http, HttpMethod, Method, MqttChoice, Opcua,
    Quic, Timestamps,
};
pub use run_facts::{
    Accounting, Departures, HostCpu, Machine, Phase, Placement, RUN_FORMAT, RunFacts, Stalls,
};
pub use series::{SeriesSelector, is_usable};
pub use summary::{Group, Lateness, Links, Messages, Mqtt, MqttRole, Summary, Times};
pub use timeline::{Quarter, Timeline};
pub use verdict::{Evidence, Reason, Status, Verdict, short};
pub use workload_figures::{
    Exchanges, Load, LoadTimes, Observed, OddCounts, ProbeStatistics, Probes, RequestCounts,
    Samples, SectionFigures, Sender, SizeFigures,
};
