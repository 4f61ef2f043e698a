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
mod datagram;
mod device;
mod figures;
mod histories;
mod log;
mod pace;
mod probe;
mod run;
mod settings;
mod socket;
mod stream;
mod supply;
mod template;

pub use clock::{Nanos, now};
pub use datagram::IDS_PER_SECOND;
pub use device::{
    Checked, DeviceError, DeviceSettings, Mischief, Served, ServedResource, check, serve,
};
pub use figures::{
    Counts, Figures, Pace as PaceFigures, Percentiles, Series, Submission, write_log,
};
pub use histories::{History, Latency, read_log};
pub use probe::{ProbeSettings, Probed, probe};
pub use run::{Error, Progress, run};
pub use settings::{Closed, Settings};
pub use supply::Origin;
