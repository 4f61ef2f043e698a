//! Programs that run inside nodes as the system under test: interaction models, MQTT clients, both
//! sides of exchanges, load generators and devices, and probes that measure the network.
//!
//! A program is the source or a sink of an interaction model, over real protocol stacks: kernel
//! UDP, or libzmq over TCP and PGM. It is independent of namespaces and of the medium: it reads a
//! [`record::spec::Spec`], communicates with its parent process over a [`Control`] channel, and writes its
//! events to a file.

mod address;
mod collect;
mod console;
mod control;
mod dhcp;
mod error;
mod events;
mod exchange;
mod gateway;
mod kept;
mod link;
mod load;
mod log;
mod payload;
mod protocols;
mod report;
mod schedule;
mod seen;
mod sink;
mod source;
mod spec;
mod wait;

pub use crate::load::{device, load, probe};
pub use collect::run as collect;
pub use console::run as console;
pub use control::Control;
pub use dhcp::run as dhcp;
pub use error::Error;
pub use exchange::run as exchange;
pub use gateway::run as gateway;
pub use payload::{MARKER, Template};
pub use protocols::mqtt::run as mqtt;
pub use protocols::zeromq::info as zmq_info;
pub use spec::read;

use record::spec::{InteractionSpec, Role};

/// Runs the program that `spec` describes until a stop message.
pub fn interaction(spec: &InteractionSpec, control: &mut Control) -> Result<(), Error> {
    match spec.role {
        Role::Source => source::run(spec, control),
        Role::Sink => sink::run(spec, control),
    }
}
