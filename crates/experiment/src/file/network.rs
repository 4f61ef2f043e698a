//! Networks and what they do to frames, as typed.

use crate::problem::Problem;
use crate::read::{At, Fields, Named, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::subnet::Subnet;
use crate::tree::{Content, Node};
use medium::{Distribution, LossUnit};
use schemars::JsonSchema;
use units::{Bytes, Rate, Ratio, Span};

/// A segment that nodes attach to.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Network {
    /// The groups on it; they get addresses in this order.
    #[schemars(required)]
    pub attach: Option<At<OneOrMore<At<String>>>>,
    /// Where its addresses come from, such as `10.0.0.0/16`.
    #[schemars(required)]
    pub subnet: Option<At<Subnet>>,
    /// The largest IP packet; 1500 B unless given.
    pub mtu: Option<At<Bytes>>,
    /// What it does to frames: a name from `profiles`. Without one, and without
    /// `channel` and `links` of its own, nothing.
    pub profile: Option<At<String>>,
    /// How its links share it, in place of a profile's; `switch` unless given.
    pub channel: Option<At<Channel>>,
    /// Impairments by group, in place of a profile's.
    pub links: Option<Named<Link>>,
}

impl Read for Network {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a network", sink)?;
        let network = Self {
            attach: fields.optional("attach"),
            subnet: fields.required("subnet"),
            mtu: fields.optional("mtu"),
            profile: fields.optional("profile"),
            channel: fields.optional("channel"),
            links: fields.optional("links"),
        };
        if let Some(profile) = &network.profile {
            for key in ["channel", "links"] {
                if !fields.has(key) {
                    continue;
                }
                let text = format!("a network with a profile has no `{key}` of its own");
                let label = format!("leave this out, or `{key}`, or put both into the profile");
                fields.sink.add(Problem::new(text).at(profile.place).label(label));
            }
        }
        fields.finish();
        Some(network)
    }
}

/// What a network does to frames.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Profile {
    /// How the links share it; `switch` unless given.
    pub channel: Option<At<Channel>>,
    /// Impairments by group; a group that is not named has none.
    pub links: Option<Named<Link>>,
}

impl Read for Profile {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a profile", sink)?;
        let profile = Self { channel: fields.optional("channel"), links: fields.optional("links") };
        fields.finish();
        Some(profile)
    }
}

/// How the links of a network share it.
#[derive(Debug, Clone, Copy, JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub(crate) enum Channel {
    /// Each link by itself, full duplex.
    Switch,
    /// One half-duplex channel of this rate for all: one frame at a time.
    Shared(#[schemars(with = "At<Rate>")] Rate),
}

impl Read for Channel {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        match &node.content {
            Content::Scalar(text) if text == "switch" => Some(Self::Switch),
            Content::Map(_) => {
                let mut fields = Fields::of(node, "a channel", sink)?;
                let rate = fields.required("shared");
                fields.finish();
                rate.map(Self::Shared)
            }
            _ => {
                sink.expected("`switch` or `{shared: 250 kbit/s}`", node);
                None
            }
        }
    }
}

/// What is asked of a link each way.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Link {
    /// From the node into the network.
    pub up: Option<Impairment>,
    /// From the network to the node.
    pub down: Option<Impairment>,
}

impl Read for Link {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a link", sink)?;
        let link = Self { up: fields.optional("up"), down: fields.optional("down") };
        fields.finish();
        Some(link)
    }
}

/// What a link does to frames in one direction, in tc-netem's words.
#[derive(Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Impairment {
    /// Mean time from the end of serialisation to delivery.
    pub delay: Option<At<Span>>,
    /// Variation of the delay.
    pub jitter: Option<At<Span>>,
    /// Shape of the variation: evenly within the jitter, or normal with it as
    /// standard deviation; `uniform` unless given.
    pub distribution: Option<At<Distribution>>,
    /// Whether a frame waits for those before it; without it, jitter reorders.
    pub keep_order: Option<At<bool>>,
    /// Share of frames (or trains) that are lost.
    pub loss: Option<At<Ratio>>,
    /// What is lost as one: a frame, or all fragments of a datagram and
    /// back-to-back segments of a flow; `frame` unless given.
    pub loss_unit: Option<At<LossUnit>>,
    /// Data rate of the link, header included; unlimited unless given.
    pub rate: Option<At<Rate>>,
    /// Bytes that an idle link lets through at once; 0 B unless given.
    pub burst: Option<At<Bytes>>,
    /// Frames that may wait for the rate; 1000 unless given.
    pub queue: Option<At<u32>>,
}

impl Read for Impairment {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "an impairment", sink)?;
        let impairment = Self {
            delay: fields.optional("delay"),
            jitter: fields.optional("jitter"),
            distribution: fields.optional("distribution"),
            keep_order: fields.optional("keep_order"),
            loss: fields.optional("loss"),
            loss_unit: fields.optional("loss_unit"),
            rate: fields.optional("rate"),
            burst: fields.optional("burst"),
            queue: fields.optional("queue"),
        };
        let rated = fields.has("rate");
        if let Some(burst) = impairment.burst.as_ref().filter(|_| !rated) {
            fields.sink.add(needs_rate("burst").at(burst.place));
        }
        fields.finish();
        Some(impairment)
    }
}

/// The complaint about a `key` that only a rate gives a meaning.
pub(crate) fn needs_rate(key: &str) -> Problem {
    Problem::new(format!("`{key}` without a `rate` does nothing"))
        .label(format!("give a `rate` too, or leave `{key}` out"))
}

impl Impairment {
    /// The same in the medium's terms.
    pub fn resolve(&self) -> medium::Impairment {
        let none = medium::Impairment::default();
        medium::Impairment {
            delay: self.delay.as_ref().map_or(none.delay, |at| at.value),
            jitter: self.jitter.as_ref().map_or(none.jitter, |at| at.value),
            distribution: self.distribution.as_ref().map_or(none.distribution, |at| at.value),
            keep_order: self.keep_order.as_ref().map_or(none.keep_order, |at| at.value),
            loss: self.loss.as_ref().map_or(none.loss, |at| at.value),
            loss_unit: self.loss_unit.as_ref().map_or(none.loss_unit, |at| at.value),
            rate: self.rate.as_ref().map(|at| at.value),
            burst: self.burst.as_ref().map_or(none.burst, |at| at.value),
            queue: self.queue.as_ref().map_or(none.queue, |at| at.value),
        }
    }
}

impl Word for Distribution {
    const WHAT: &'static str = "a distribution";
    const WORDS: &'static [(&'static str, Self)] =
        &[("uniform", Self::Uniform), ("normal", Self::Normal)];
}

impl Word for LossUnit {
    const WHAT: &'static str = "a unit of loss";
    const WORDS: &'static [(&'static str, Self)] =
        &[("frame", Self::Frame), ("train", Self::Train)];
}

impl Read for Distribution {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl Read for LossUnit {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
