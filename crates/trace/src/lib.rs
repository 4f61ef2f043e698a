//! Load models, computed before the run: distributions of times, arrival processes, weighted
//! mixes, and traces of requests, one per line.
//!
//! Everything except trace I/O is pure: no clock, no sockets, no shared randomness. The same seed
//! gives the same requests. Times are nanoseconds since the start unless a name says otherwise.

mod arguments;
mod arrivals;
mod chart;
mod coap;
mod distribution;
mod histogram_summary;
mod inspect;
mod mix;
mod rate_profile;
mod reader;
mod recipe;
mod request;
mod resource;
mod service;
mod uri;

pub use arguments::ParseError;
pub use arrivals::{Arrivals, Times};
pub use chart::{bars, sparks};
pub use coap::{ACK_RANDOM_FACTOR, CoapError, CoapSettings, LARGEST_BLOCK, MAX_RETRANSMISSIONS};
pub use distribution::Distribution;
pub use histogram_summary::HistogramSummary;
pub use inspect::{Inspection, Tally};
pub use mix::Mix;
pub use rate_profile::{Frequency, RateProfile};
pub use reader::{Fault, LineError, Reader};
pub use recipe::{Group, Requests, TraceSpec};
pub use request::{Method, Request};
pub use resource::{Mode, Resource, ResourceError, read_resources};
pub use service::Service;
pub use uri::{Scheme, Target, UriError};
