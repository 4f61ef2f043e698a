//! Specification of a segment, and its output types.

use crate::change::Change;
use link::{
    Cause, Channel, Direction, Frame, Impairment, PortVlans, Reception, Replay, StatesSpec,
};
use units::{Instant, Span};

/// One attachment to a segment, with its settings in each direction.
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    /// From the node into the network.
    pub up: Impairment,
    /// From the network to the node.
    pub down: Impairment,
    /// The endpoint's address, which no other endpoint may use; `None` for hardware with an
    /// unknown address.
    pub mac: Option<[u8; 6]>,
    /// States of the radio, shared by both directions.
    pub states: Option<StatesSpec>,
    /// Endpoint at whose place an attached one is, on a channel with distance; `None`: it has no radio
    /// conditions. Those of a segment's first endpoints are in [`SegmentSpec::reception`].
    pub place: Option<usize>,
    /// VLANs of the switch's port. `None`: the port passes all frames and tags unchanged. Either all
    /// endpoints of a segment have VLANs, or none.
    pub vlans: Option<PortVlans>,
    /// Whether further networks are behind the endpoint, so that it gets all multicast and all
    /// membership reports, as the port of a router does.
    pub is_bridge: bool,
    /// Ports of the node's interfaces in VLANs of a trunk. Frames have no tag there, and the VLAN's on
    /// the link.
    pub vlan_ports: Vec<VlanPort>,
}

/// A port at which frames of one VLAN of a trunk have no tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VlanPort {
    /// Number of the VLAN.
    pub vlan: u16,
    /// Number of the port. Its place is that of the trunk.
    pub port: usize,
}

/// Specification of a segment.
#[derive(Debug, Clone)]
pub struct SegmentSpec {
    /// How the members share its capacity.
    pub channel: Channel,
    /// Which endpoints hear each other on a channel with contention; `None`: all do.
    pub reception: Option<Reception>,
    /// The members; their position is their index everywhere.
    pub endpoints: Vec<Endpoint>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Whether impairments apply from the start, or only after [`Segment::impair`].
    pub impaired: bool,
    /// Whether an endpoint with a configured address may use only that one. Must be `false`
    /// for bridges and virtual machines in nodes.
    pub own_addresses_only: bool,
    /// Interval of membership queries; 0 disables them.
    pub query_interval: Span,
    /// The longest accepted frame, including the link header; longer ones are rejected.
    pub longest: Option<usize>,
    /// Bytes before the link header of each frame that the segment passes on unread; 10 for the
    /// virtio-net header of packet sockets with segmentation offload, else 0.
    pub prefix: usize,
    /// Decisions of an earlier run, by endpoint: up, then down.
    pub replay: Option<Vec<[Replay; 2]>>,
    /// Changes, and their times after the start of impairments.
    pub timetable: Vec<(Span, Change)>,
}

impl SegmentSpec {
    /// A switch without endpoints and queries, whose impairments are not yet enabled.
    pub fn switch(seed: u64) -> Self {
        Self {
            channel: Channel::Switch,
            reception: None,
            endpoints: Vec::new(),
            seed,
            impaired: false,
            own_addresses_only: false,
            query_interval: Span::ZERO,
            longest: None,
            prefix: 0,
            replay: None,
            timetable: Vec::new(),
        }
    }
}

/// A frame that leaves the segment.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Receiver.
    pub endpoint: usize,
    /// The frame, behind [`SegmentSpec::prefix`].
    pub frame: Frame,
    /// Length of that prefix.
    pub prefix: usize,
    /// Arrival time in the segment.
    pub arrived: Instant,
    /// Intended delivery time.
    pub intended: Instant,
}

impl Delivery {
    /// The frame from the link header on.
    pub fn bytes(&self) -> &[u8] {
        self.frame.get(self.prefix..).unwrap_or_default()
    }
}

/// A frame dropped by the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drop {
    /// Endpoint of the link.
    pub endpoint: usize,
    /// Direction.
    pub way: Direction,
    /// Reason.
    pub cause: Cause,
}
