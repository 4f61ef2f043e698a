//! The experiment file, its checks, and the plan that it resolves to.
//!
//! ```text
//! text -> tree -> matrix -> one tree per cell -> File -> Plan
//! ```
//! All cells are checked before anything runs. Problems are collected and shown with their line.
//! This crate starts no process and opens no socket; its only I/O is on the experiment file and the
//! files that it names.

mod board;
mod clock;
mod clones;
mod defaults;
mod destination;
mod disk_forecast;
mod edges;
mod edit;
mod exchange;
mod expect;
mod experiment;
mod fan_out;
mod fault;
mod file;
mod forecast;
pub mod import;
mod joined;
mod key_schema;
mod layer2_schema;
mod limits;
mod link_change;
mod load;
mod mac;
mod matrix;
mod metric;
mod mqtt;
mod nearest;
mod node_change;
mod only;
mod outcome;
mod overrides;
mod pattern;
mod placeholders;
mod plan;
mod plan_channel_text;
mod plan_links_text;
mod plan_machine_text;
mod plan_reception_text;
mod plan_routes_text;
mod plan_text;
mod problem;
mod profile;
mod program;
mod program_check;
mod program_metric;
mod radio_schema;
mod read;
mod resolve;
mod scalar;
mod schema;
mod source;
mod subnet;
mod subnet_set;
mod substitute;
mod target;
#[cfg(test)]
mod test_plan;
mod tree;

pub use board::{Board, Radio};
pub use destination::Destination;
pub use disk_forecast::{DiskForecast, OUTPUT_LIMIT};
pub use exchange::{Exchange, Pair, Turn};
pub use expect::Expect;
pub use experiment::Experiment;
pub use fault::{PlannedFault, PlannedFaultKind};
pub use forecast::Forecast;
pub use link_change::{RunningLink, link_change};
pub use load::{Contention, Device, Load, Made, Probe, Requests};
pub use mac::Mac;
pub use mqtt::{Mqtt, MqttClient, MqttMessage, MqttPattern, MqttTls};
pub use node_change::{NodeChange, node_change};
pub use only::Only;
pub use outcome::{Outcome, Status, evaluate};
pub use overrides::Overrides;
pub use plan::{
    BROKER_NAME, Backend, BrokerKind, Command, FanOut, Interaction, MQTT_PORT, POOL_LIMIT, Plan,
    PlannedBridge, PlannedBroker, PlannedCapture, PlannedChange, PlannedChangeKind, PlannedCpu,
    PlannedLimits, PlannedLink, PlannedNetwork, PlannedNode, PlannedPlatform, PlannedProfile,
    PlannedRoot, PlannedRoute, PlannedServices, PlannedVlan, SourceAddresses, Way, Workload,
};
pub use problem::{Errors, Problem};
pub use profile::{LinkProfile, Quality, Value};
pub use program::{Program, Ready};
pub use program_check::{OutputCheck, OutputRule, ProgramCheck};
pub use program_metric::{OTLP, Pattern, ProgramMetric, Rule, STATSD, Scrape, Stream};
pub use record::{Cell, Clock, Cpu};
pub use schema::schema;
pub use subnet::Subnet;
pub use target::Target;
