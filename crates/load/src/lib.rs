//! Load generator: sends requests at the times of a trace and reports how well it kept
//! them. Also device servers that answer requests after given service times.
//!
//! The schedule is made before the run (`trace`). The sending loop allocates no memory per
//! operation and never waits for an answer before it sends the next request, except in a
//! closed loop.

mod coap;
mod connection;
mod datagram;
mod device;
mod epoll;
mod error;
mod figures;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod histories;
mod http;
mod log;
mod outstanding;
#[cfg(test)]
mod overload;
mod pacer;
mod probe;
mod reasons;
mod request_feed;
mod request_queue;
mod run;
mod scheduling;
mod sender;
mod settings;
mod shared;
mod slots;
mod socket;
mod stamp;
mod stream;
mod targets;
mod template;

pub use datagram::IDS_PER_SECOND;
pub use device::{DeviceError, DeviceSettings, MisbehaviourShares, check, is_exhausted, serve};
pub use error::Error;
pub use figures::{Figures, Series, Submission, write_log};
pub use histories::{History, Latency, read_log};
pub use probe::{ProbeSettings, probe};
pub use request_feed::Origin;
pub use run::{Progress, run};
pub use settings::{Closed, Settings};
