//! An adaptive transport library. It selects the transport protocol of an application's
//! messages at run time, from the application's requirements and the measured network state.
//!
//! The core does no I/O and reads no clock. Its parts:
//!
//! - requirements of the application: [`TransportProperties`], [`QosTargets`];
//! - the available transport models: [`ModelId`];
//! - expected performance of each model: [`PerformanceMap`], [`bound`];
//! - network estimation: [`Estimator`];
//! - model selection: [`Policy`];
//! - switching models without message loss or duplicates: [`Switch`], [`Window`].
//!
//! A [`session`] combines these with the transports ([`carrier`]) and with encryption
//! ([`handshake`], [`keys`], [`envelope`]). [`io`] is the I/O driver: it provides sockets and time.
//!
//! A *hub* is the root endpoint of a session, a *member* is a leaf endpoint.
//!
//! Names follow IETF TAPS (RFC 9621, RFC 9622) where TAPS defines one. TAPS fixes the protocol
//! stack when a connection is established; here a session can change its model at any time.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

#[cfg(not(any(feature = "std", feature = "portable")))]
compile_error!(
    "the director needs the feature `std`, or `portable` where there is no standard library"
);

mod agenda;
mod analytic;
pub mod arq;
pub mod bound;
pub mod bundle;
mod capacity;
pub mod carrier;
#[cfg(feature = "coap")]
pub mod coap;
mod conditions;
mod counts;
mod crypto;
mod downlink;
pub mod envelope;
mod estimate;
pub mod fec;
pub mod handshake;
mod ids;
#[cfg(feature = "io")]
pub mod io;
pub mod keys;
mod map;
mod member_set;
mod message_map;
mod model;
mod pace;
mod path_mtu;
mod platform;
mod policy;
mod properties;
pub mod replay;
mod rng;
pub mod session;
pub mod signature;
mod silence;
mod store;
mod switch;
mod targets;
mod timetable;
pub mod topic;
mod turn;
mod uplink;
mod window;

pub use conditions::Conditions;
pub use downlink::{HubChange, HubMessage, HubState, Outcomes, Receiver};
pub use estimate::{Estimate, Estimator, Interval};
pub use map::{Figures, MapError, PerformanceMap, Point, Quantiles};
pub use model::{Features, ModelId, Models};
pub use policy::{Choice, Decision, Policy, Reason, Settings};
pub use properties::{CapacityProfile, Preference, TransportProperties};
#[cfg(feature = "std")]
pub use rng::NoRandomness;
pub use rng::Seed;
pub use store::{HubReceipts, ReceiptChange, StoreId, StoredFrom, StoredNumber, Token};
pub use switch::{Action, MemberId, MessageId, Phase, Switch};
pub use targets::{Pattern, QosTargets};
pub use units::{Instant, Span};
pub use uplink::{Failure, LIFETIME, MessageProperties, Outcome, UplinkError};
pub use uplink::{SenderId, StoredChange, StoredMessage, StoredState};
pub use window::Window;

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "io"))]
#[doc = include_str!("../../README.md")]
struct Readme;
