//! What a segment is made of, and what comes out of it.

use crate::change::{Change, Way};
use crate::channel::Channel;
use crate::fates::Replay;
use crate::step::Cause;
use crate::{Frame, Impairment, Instant, StatesSpec};
use units::Span;

/// One attachment to a segment, with what is asked of it each way.
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    /// From the node into the network.
    pub up: Impairment,
    /// From the network to the node.
    pub down: Impairment,
    /// The only source address that frames from here may have; any when there is
    /// none.
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
    /// The longest frame, link header included; longer ones are rejected.
    pub longest: Option<usize>,
    /// What an earlier run decided, by endpoint: up, then down.
    pub replay: Option<Vec<[Replay; 2]>>,
    /// Changes, and when they are made after the start of impairments.
    pub timetable: Vec<(Span, Change)>,
}

impl SegmentSpec {
    /// A switch that nobody is attached to yet, whose impairments wait.
    pub fn switch(seed: u64) -> Self {
        Self {
            channel: Channel::Switch,
            endpoints: Vec::new(),
            seed,
            impaired: false,
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
