//! The inputs of a run in virtual time: a network, its nodes, and a session.

use crate::draw::CROSS;
use crate::wire::{HEADERS, Link};
use director::session::{Config, Security};
use director::{Conditions, Instant, ModelId, Pattern};
use engine::{Endpoint, SegmentSpec};
use experiment::{Interaction, Plan, Workload};
use link::{GilbertElliott, Impairment, Loss};
use units::{Rate, Ratio, Span};

const KEY: &[u8] = b"a key that both ends have";

/// The models to which a model of the file restricts the director: an empty list for no
/// restriction, or one model. None for models that are not the director's.
pub fn models(interaction: &Interaction) -> Option<Vec<ModelId>> {
    match interaction.down.text() {
        "director" => Some(Vec::new()),
        text => {
            let name = text.strip_prefix("director/")?;
            Some(ModelId::ALL.into_iter().filter(|model| model.name() == name).collect())
        }
    }
}

/// The plan's interaction, without cross traffic.
pub fn interaction(plan: &Plan) -> Option<&Interaction> {
    interactions(plan).find(|interaction| interaction.name != CROSS)
}

fn interactions(plan: &Plan) -> impl Iterator<Item = &Interaction> {
    plan.workloads.iter().filter_map(|workload| match workload {
        Workload::Interaction(interaction) => Some(interaction),
        _ => None,
    })
}

/// Datagrams from the hub to another node, and equally long answers.
#[derive(Debug, Clone, Copy)]
pub struct CrossTraffic {
    /// The other node.
    pub end: End,
    /// Bytes of a datagram.
    pub payload: usize,
    /// Time between datagrams.
    pub every: Span,
}

/// An endpoint of the network.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Its index on the segment.
    pub place: usize,
    /// Its IP and interface addresses.
    pub link: Link,
}

/// The inputs of a run.
pub struct Setup {
    /// The network.
    pub segment: SegmentSpec,
    /// The session.
    pub config: Config,
    /// The hub, then the members.
    pub ends: Vec<End>,
    /// Cross traffic, if any.
    pub cross: Option<CrossTraffic>,
    /// Largest packet in bytes.
    pub mtu: usize,
    /// Time between messages.
    pub every: Span,
    /// Number of messages.
    pub messages: u64,
    /// Number of members that receive each message, starting from the first.
    pub fan_out: Vec<u32>,
    /// Bytes of each message.
    pub payload: usize,
    /// Seed of the random decisions.
    pub seed: u64,
    /// When the impairments and the timetable begin from the start of the session.
    pub impaired_at: Instant,
    /// When the first message is sent.
    pub first_at: Instant,
}

/// Time in which members join and the session gets ready, before impairments and messages.
const SETTLE: Span = Span::from_s(30);

/// The same configuration as the workload's in nodes.
fn config(assumed: Conditions, models: Vec<ModelId>) -> Config {
    let mut config = Config::new(Pattern::PublishCollect, Security::Key(KEY.to_vec()));
    // Messages wait as long as the timetable needs.
    config.lifetime = None;
    config.assumed = assumed;
    config.targets.delivery_ratio = Some(0.999);
    config.below = HEADERS;
    config.models = models;
    config
}

impl Setup {
    /// A run of `plan` restricted to these models.
    pub fn of(plan: &Plan, models: Vec<ModelId>) -> Self {
        let interaction = interaction(plan).expect("an experiment with an interaction");
        let place = plan.networks.iter().position(|n| n.name == interaction.network);
        let place = place.expect("the interaction's network");
        let mut segments = runner::segments(plan).expect("an experiment without images");
        let own = |name: &String| {
            let link = |node: &experiment::PlannedNode| {
                node.links.iter().find(|link| link.network == interaction.network).cloned()
            };
            let mut on = plan.nodes.iter().filter_map(|node| Some((node, link(node)?))).enumerate();
            let (place, (_, link)) = on.find(|(_, (node, _))| node.name == *name)?;
            let std::net::IpAddr::V4(address) = link.address else { return None };
            Some(End { place, link: (address, link.mac.0) })
        };
        let names = std::iter::once(&interaction.source).chain(&interaction.sinks);
        let cross = interactions(plan).find(|interaction| interaction.name == CROSS);
        let cross = cross.and_then(|cross| {
            let (end, payload) = (own(cross.sinks.first()?)?, cross.payload_bytes as usize);
            Some(CrossTraffic { end, payload, every: cross.every })
        });
        let mtu = plan.networks[place].mtu.get();
        let mtu_only = Conditions { mtu: mtu as f64, ..Conditions::default() };
        let known = Conditions {
            loss: interaction.assume_loss.map_or(0.0, units::Ratio::fraction),
            // Without an assumption the workload assumes 20 ms.
            rtt: interaction.assume_round_trip.unwrap_or(Span::from_ms(20)),
            rate_bit_s: interaction.multicast_rate.bit_s() as f64,
            mtu: mtu as f64,
            group: interaction.sinks.len() as f64,
            payload: interaction.payload_bytes as f64,
            messages_s: 1e9 / interaction.every.max(Span::from_ns(1)).as_ns_f64(),
            ..Conditions::default()
        };
        let assumed = if interaction.assume_nothing { mtu_only } else { known };
        let config = Config { lifetime: interaction.lifetime, ..config(assumed, models) };
        Self {
            segment: segments.swap_remove(place),
            config,
            cross,
            ends: names.map(|name| own(name).expect("a node on the network")).collect(),
            mtu: mtu as usize,
            every: interaction.every,
            messages: interaction.messages,
            fan_out: (0..interaction.messages).map(|m| interaction.sinks_of(m) as u32).collect(),
            payload: interaction.payload_bytes as usize,
            seed: plan.impairment_seed(),
            impaired_at: Instant::START + SETTLE,
            first_at: Instant::START + SETTLE,
        }
    }

    /// The same without any knowledge of the network but its packets' size, and without a clean
    /// network at the start: members join through the impairments, and messages begin after `wait`.
    /// An answer after the deadline is worth nothing, so messages are not kept longer.
    #[must_use]
    pub fn told_nothing(mut self, wait: Span, deadline: Span) -> Self {
        let mtu = self.config.assumed.mtu;
        self.config.lifetime = Some(deadline);
        self.config.assumed = Conditions { mtu, ..Conditions::default() };
        (self.impaired_at, self.first_at) = (Instant::from_ns(1), Instant::START + wait);
        self
    }

    /// A run of `messages` messages with one model, over a network with the conditions `here`,
    /// which the director knows: the hub's link has the rate, the members' links delay and lose.
    pub fn at(here: &Conditions, model: ModelId, messages: u64, seed: u64) -> Self {
        // Half of the round trip in each direction.
        let delay = (here.rtt / 2).into();
        let mut member = Impairment { delay, ..Default::default() };
        if here.burst > 1.0 && here.loss > 0.0 {
            // As in `draw.rs`: the bad state loses all frames.
            let r = 1.0 / here.burst;
            let p = here.loss * r / (1.0 - here.loss);
            let share = |value| Ratio::from_fraction(value).unwrap_or_default();
            member.loss = Loss::GilbertElliott(GilbertElliott {
                p: share(p),
                r: share(r),
                loss_bad: share(1.0),
                loss_good: share(0.0),
            });
        } else {
            member.loss = Ratio::from_fraction(here.loss).unwrap_or_default().into();
        }
        let rate = Rate::from_bit_s(here.rate_bit_s as u64);
        let transmission = rate.map(Into::into).unwrap_or_default();
        let hub = Impairment { transmission, ..Default::default() };
        let ways =
            |of: &Impairment| Endpoint { up: of.clone(), down: of.clone(), ..Endpoint::default() };
        let count = here.group as usize;
        let mut endpoints = vec![ways(&hub)];
        endpoints.extend(std::iter::repeat_n(ways(&member), count));
        let end = |place: usize| {
            // From .1 on, as .0 names the network. 2 in the first byte: locally administered.
            let [high, low] = (place as u16 + 1).to_be_bytes();
            End { place, link: ([10, 0, high, low].into(), [2, 0, 10, 0, high, low]) }
        };
        Self {
            segment: SegmentSpec { endpoints, ..SegmentSpec::switch(seed) },
            config: config(*here, vec![model]),
            cross: None,
            ends: (0..=count).map(end).collect(),
            mtu: here.mtu as usize,
            every: Span::from_ns_f64(1e9 / here.messages_s),
            messages,
            fan_out: vec![count as u32; messages as usize],
            payload: here.payload as usize,
            seed,
            impaired_at: Instant::START + SETTLE,
            first_at: Instant::START + SETTLE,
        }
    }
}
