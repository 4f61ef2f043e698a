//! Sends requests at the moments that a trace asks for, and says how well it did;
//! and devices that answer them after given service times.
//!
//! The schedule is made before the run (`trace`). The loop that sends takes no memory
//! for an operation and never waits for an answer before it sends the next one, unless
//! a closed loop was asked for.

mod book;
mod clock;
mod coap;
mod connection;
mod counts;
mod datagram;
mod device;
mod epoll;
mod figures;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod histories;
mod http;
mod log;
#[cfg(test)]
mod overload;
mod pace;
mod percentiles;
mod probe;
mod reasons;
mod request_queue;
mod run;
mod settings;
mod slots;
mod socket;
mod stamp;
mod stream;
mod supply;
mod targets;
mod template;

pub use clock::{Nanos, now};
pub use counts::{Counts, Observed};
pub use datagram::IDS_PER_SECOND;
pub use device::{
    Checked, DeviceError, DeviceSettings, Mischief, Served, ServedResource, check, serve,
};
pub use figures::{Figures, Pace as PaceFigures, Series, Submission, write_log};
pub use histories::{History, Latency, read_log};
pub use percentiles::Percentiles;
pub use probe::{ProbeSettings, Probed, probe};
pub use run::{Error, Progress, run};
pub use settings::{Closed, Settings};
pub use supply::Origin;
