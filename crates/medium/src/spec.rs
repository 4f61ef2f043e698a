//! What a segment is made of, and what comes out of it.

use crate::change::{Change, Way};
use crate::channel::Channel;
use crate::fates::Replay;
use crate::step::Cause;
use crate::{Frame, Impairment, Instant, StatesSpec};
use units::Span;

/// The time between queries about groups, unless another is configured (RFC 3376, 8.2).
pub const QUERY_INTERVAL: Span = Span::from_ns(125_000_000_000);

/// One attachment to a segment, with what is asked of it each way.
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    /// From the node into the network.
    pub up: Impairment,
    /// From the network to the node.
    pub down: Impairment,
    /// Its own address, which frames of no other endpoint may have; none for hardware,
    /// whose address we do not know.
    pub mac: Option<[u8; 6]>,
    /// The states of its radio, which both ways go through.
    pub states: Option<StatesSpec>,
}

/// What a segment is made of.
#[derive(Debug, Clone)]
pub struct SegmentSpec {
    /// How the members share it.
    pub channel: Channel,
    /// The members; an endpoint's place here is its index everywhere.
    pub endpoints: Vec<Endpoint>,
    /// The seed of all draws.
    pub seed: u64,
    /// Whether impairments hold from the start, or wait for
    /// [`Segment::impair`].
    pub impaired: bool,
    /// Whether an endpoint with an address of its own may send from no other. Without it
    /// bridges and virtual machines in nodes work.
    pub own_addresses_only: bool,
    /// How often the network asks who wants which multicast groups; never if 0.
    pub query_interval: Span,
    /// The longest frame, link header included; longer ones are rejected.
    pub longest: Option<usize>,
    /// What an earlier run decided, by endpoint: up, then down.
    pub replay: Option<Vec<[Replay; 2]>>,
    /// Changes, and when they are made after the start of impairments.
    pub timetable: Vec<(Span, Change)>,
}

impl SegmentSpec {
    /// A switch without endpoints that asks for no groups and whose impairments wait.
    pub fn switch(seed: u64) -> Self {
        Self {
            channel: Channel::Switch,
            endpoints: Vec::new(),
            seed,
            impaired: false,
            own_addresses_only: false,
            query_interval: Span::ZERO,
            longest: None,
            replay: None,
            timetable: Vec::new(),
        }
    }
}

/// A frame on its way out of the segment, or segments of a super-frame that go out
/// together.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Who gets it.
    pub endpoint: usize,
    /// The frame, link header included.
    pub frame: Frame,
    /// When it came in.
    pub arrived: Instant,
    /// When it should go out.
    pub intended: Instant,
}

/// A frame that the segment did not carry further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drop {
    /// On whose link.
    pub endpoint: usize,
    /// Which way.
    pub way: Way,
    /// Why.
    pub cause: Cause,
}
