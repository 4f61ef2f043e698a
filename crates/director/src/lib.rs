//! An adaptive transport library: it chooses, live, how an application's messages
//! travel, from what the application needs and what the network is doing.
//!
//! Its core does no I/O and reads no clock: what an application asks for
//! ([`TransportProperties`], [`QosTargets`]), what models of interaction can do
//! ([`ModelId`]), what is known of how they do ([`PerformanceMap`], [`bound`]), what is
//! seen of the network ([`Estimator`]), and from these the choice ([`Policy`]) and the
//! way from one model to another without losing or doubling a message ([`Switch`],
//! [`Window`]). A [`session`] puts them together with the models that carry its messages
//! ([`carrier`]), sealed ([`keys`], [`envelope`]). [`io`] gives it sockets and the time.
//!
//! Names are those of IETF TAPS (RFC 9621, RFC 9622) where TAPS has them. TAPS fixes a
//! protocol stack once a connection is there; that a session changes its model is what
//! is added here.

mod analytic;
pub mod arq;
pub mod bound;
pub mod carrier;
mod chance;
#[cfg(feature = "coap")]
pub mod coap;
mod conditions;
pub mod envelope;
mod estimate;
pub mod fec;
#[cfg(feature = "io")]
pub mod io;
pub mod keys;
mod map;
mod model;
mod pace;
mod policy;
mod properties;
pub mod session;
mod switch;
mod targets;
mod window;

pub use conditions::Conditions;
pub use estimate::{Estimate, Estimator, Interval};
pub use map::{Figures, MapError, PerformanceMap, Point, Quantiles};
pub use model::{Features, ModelId, Models};
pub use policy::{Choice, Decision, Policy, Settings, Why};
pub use properties::{CapacityProfile, Preference, TransportProperties};
pub use switch::{Action, MemberId, MessageId, Phase, Switch};
pub use targets::{Pattern, QosTargets};
pub use window::Window;

/// A moment or a span in ns, on a clock that does not jump.
pub type Nanos = u64;
