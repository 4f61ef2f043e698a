//! Schema of radio states and of CSMA-CA, which the medium's own code reads.

use crate::read::{At, OneOrMore};
use crate::scalar::Word;
use link::{CsmaSpec, PathLoss};
use schemars::JsonSchema;
use units::{Attenuation, Bytes, PowerLevel, Rate, Span};

/// States of a device's radio.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "LinkStates")]
#[allow(dead_code)]
pub(crate) struct StatesKeys {
    /// Radio states, from the lowest power to the highest capacity; at least one.
    #[schemars(required)]
    states: Option<Vec<StateKeys>>,
    /// State at the start. Values: name of a state. Default: the first.
    initial: Option<At<String>>,
    /// Half duplex: the device does not receive while it sends, nor `guard` before and after that.
    half_duplex: Option<HalfDuplexKeys>,
}

/// A state of a radio.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "RadioState")]
#[allow(dead_code)]
struct StateKeys {
    /// Name of the state.
    #[schemars(required)]
    name: Option<At<String>>,
    /// What the state does with frames. Default: none, no frames pass.
    service: Option<At<ServiceKeys>>,
    /// Change to a higher state.
    promotion: Option<PromotionKeys>,
    /// After this time without data in either direction, the radio returns to the previous state in
    /// the list. Default: never.
    inactivity: Option<At<Span>>,
    /// When a device that saves energy receives. Default: always.
    reach: Option<ReachKeys>,
}

/// What a state of a radio does with frames.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case", rename = "RadioService")]
#[allow(dead_code)]
pub(crate) enum ServiceKeys {
    /// Frames use the link's grant or rate.
    Full,
    /// Frames use this state's own service times, one after another in each direction.
    Slow(SlowKeys),
}

/// Service times of a state in each direction.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "SlowService")]
#[allow(dead_code)]
pub(crate) struct SlowKeys {
    /// Uplink: from the device to the network.
    up: SlowTimeKeys,
    /// Downlink: from the network to the device.
    down: SlowTimeKeys,
}

/// Service time of a frame: the sum of these.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "ServiceTime")]
#[allow(dead_code)]
pub(crate) struct SlowTimeKeys {
    /// Time for each frame. Default: 0 s.
    fixed: Option<At<Span>>,
    /// Time for each byte of the IP packet. Default: 0 s.
    byte: Option<At<Span>>,
    /// Time that the number of bytes squared multiplies. Default: 0 s.
    square: Option<At<Span>>,
}

/// Change of a radio to a higher state.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Promotion")]
#[allow(dead_code)]
struct PromotionKeys {
    /// Duration of the promotion; frames of both directions wait meanwhile.
    #[schemars(required)]
    delay: Option<At<Span>>,
    /// The promotion begins when more bytes of IP packets than this are queued on the uplink; in a
    /// state without service, with any frame. Default: 0 B.
    up: Option<At<Bytes>>,
    /// The same threshold on the downlink. Default: 0 B.
    down: Option<At<Bytes>>,
    /// State to go to, after this one in the list. Values: name of a state. Default: the last one.
    to: Option<At<String>>,
}

/// When a device that saves energy receives. Needs `paging` or `after_uplink`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Reach")]
#[allow(dead_code)]
struct ReachKeys {
    /// The device receives at multiples of this time: its paging occasions (DRX).
    paging: Option<At<Span>>,
    /// First paging occasion; below `paging`. Default: 0 s.
    offset: Option<At<Span>>,
    /// Paging occasions count only in a window at the start of each cycle of this duration (eDRX).
    /// Needs `window`.
    cycle: Option<At<Span>>,
    /// Duration of the window; between `paging` and `cycle`.
    window: Option<At<Span>>,
    /// Paging occasions count only until this time after the device became idle (PSM, timer T3324).
    active: Option<At<Span>>,
    /// They count again for `active` after each multiple of this time (PSM, timer T3412). Needs
    /// `active`.
    periodic: Option<At<Span>>,
    /// In addition, the device receives all the time until this long after the last frame, as a
    /// connected device with DRX does. Default: 0 s.
    awake: Option<At<Span>>,
    /// The device receives at these times after the end of a frame that it sent, one frame: the
    /// receive windows of LoRaWAN's class A. Not with `paging`.
    after_uplink: Option<Vec<At<Span>>>,
}

/// A device that does not receive while it sends: half duplex of type B (3GPP TS 36.211, 6.2.5).
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "HalfDuplex")]
#[allow(dead_code)]
struct HalfDuplexKeys {
    /// Time from the end of a frame in one direction to the next in the other; 1 ms for type B.
    /// Default: 0 s.
    guard: Option<At<Span>>,
}

/// Unslotted CSMA-CA of IEEE 802.15.4. The defaults are the standard's values at 2.4 GHz.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Csma")]
#[allow(dead_code)]
pub(crate) struct CsmaKeys {
    /// Data rate on air, also of headers and acknowledgements. Default: 250 kbit/s.
    rate: Option<At<Rate>>,
    /// Bytes before each frame and acknowledgement: preamble (4 B), start of frame (1 B), length (1
    /// B). Default: 6 B.
    phy_header: Option<At<Bytes>>,
    /// Backoff unit: aUnitBackoffPeriod, 20 symbols. Default: 320 us.
    unit_backoff: Option<At<Span>>,
    /// Initial backoff exponent: the first backoff is 0 to 2^`min_be` - 1 units. Range: 0 to
    /// `max_be`. Default: 3.
    #[schemars(extend("minimum" = CsmaSpec::MIN_BE.start(), "maximum" = CsmaSpec::MIN_BE.end()))]
    min_be: Option<At<u32>>,
    /// Maximum backoff exponent; each busy clear channel assessment (CCA) adds one. Range: 3 to 8.
    /// Default: 5.
    #[schemars(extend("minimum" = CsmaSpec::MAX_BE.start(), "maximum" = CsmaSpec::MAX_BE.end()))]
    max_be: Option<At<u32>>,
    /// Maximum number of consecutive busy CCAs; after one more, the frame is given up. Range: 0 to
    /// 5. Default: 4.
    #[schemars(extend("minimum" = CsmaSpec::MAX_BACKOFFS.start(), "maximum" = CsmaSpec::MAX_BACKOFFS.end()))]
    max_backoffs: Option<At<u32>>,
    /// Duration of a CCA: 8 symbols. Any transmission during this time makes the channel busy.
    /// Default: 128 us.
    cca: Option<At<Span>>,
    /// Time to switch between reception and transmission: aTurnaroundTime, 12 symbols. Also the
    /// time from the end of a frame to its acknowledgement. Default: 192 us.
    turnaround: Option<At<Span>>,
    /// Whether unicast frames are acknowledged, and retransmitted without acknowledgement. Default:
    /// true.
    acknowledge: Option<At<bool>>,
    /// Length of an acknowledgement, without `phy_header`. Default: 5 B.
    ack: Option<At<Bytes>>,
    /// Acknowledgement timeout after the end of a frame: macAckWaitDuration, 54 symbols. Default:
    /// 864 us.
    ack_wait: Option<At<Span>>,
    /// Maximum number of retransmissions of an unacknowledged frame. Range: 0 to 7. Default: 3.
    #[schemars(extend("minimum" = CsmaSpec::RETRIES.start(), "maximum" = CsmaSpec::RETRIES.end()))]
    retries: Option<At<u32>>,
    /// Interframe space after a frame of more than 18 B and its acknowledgement: 40 symbols.
    /// Default: 640 us.
    lifs: Option<At<Span>>,
    /// Interframe space after a shorter frame: 12 symbols. Default: 192 us.
    sifs: Option<At<Span>>,
    /// What the channel carries: Ethernet frames; with `lowpan`, IPv6 packets as frames of IEEE
    /// 802.15.4, compressed and fragmented by 6LoWPAN; or frames of simulated radios, which
    /// acknowledge and retransmit themselves, so that `acknowledge` and `retries` have no effect.
    /// Default: `ethernet`.
    carries: Option<At<Carried>>,
    /// Whether simulated radios get only those frames that may concern them, as from a radio with an
    /// address filter. That saves most of the work with many devices; devices that listen to all
    /// frames do not hear them all then. Only with `carries: openthread` or `zep`. Default: false.
    address_filter: Option<At<bool>>,
    /// Addresses in the MAC headers of 6LoWPAN: `extended` ones have 8 B, `short` ones 2 B. Only with
    /// `carries: lowpan`. Default: `extended`.
    mac_addresses: Option<At<MacAddresses>>,
    /// Contexts of 6LoWPAN, at most 16: prefixes whose addresses packets have in a short form. `[]` for
    /// none. Only with `carries: lowpan`. Values: IPv6 prefix, or list of these. Default: the network's IPv6
    /// subnet.
    contexts: Option<At<OneOrMore<At<String>>>>,
    /// Loss by the distance between nodes, which need a `position`. Default: all nodes hear each
    /// other, without loss.
    path_loss: Option<PathLossKeys>,
    /// File with the loss from node to node, in place of `path_loss`: lines such as
    /// `meter-1,gateway,5 %`, each for both directions unless the other has a line. Pairs without a
    /// line do not hear each other. Values: path. Default: none.
    pair_losses: Option<At<String>>,
}

/// Log-distance path loss.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "PathLoss")]
#[allow(dead_code)]
struct PathLossKeys {
    /// Path loss exponent: 2 in free space, 2.7 to 6 with obstacles. Range: 1 to 10. Default: 3.
    #[schemars(extend("minimum" = PathLoss::EXPONENTS.start(), "maximum" = PathLoss::EXPONENTS.end()))]
    exponent: Option<At<f64>>,
    /// Attenuation at 1 m, also for closer nodes; 40.2 dB is that of free space at 2.45 GHz.
    /// Default: 40.2 dB.
    reference_loss: Option<At<Attenuation>>,
    /// Transmit power of all nodes, with the gain of both antennas. Default: 0 dBm.
    transmit_power: Option<At<PowerLevel>>,
    /// Received level at which 1 % of the frames of 20 B are lost. Default: -85 dBm, the
    /// requirement of IEEE 802.15.4.
    sensitivity: Option<At<PowerLevel>>,
    /// Received level from which a node senses a transmission, and from which it disturbs the
    /// reception of others. Default: `sensitivity`.
    carrier_sense: Option<At<PowerLevel>>,
    /// Capture effect: a frame survives a collision at a receiver if it is stronger than the sum of
    /// all others by this, 3 dB for radios of IEEE 802.15.4. Default: none, colliding frames are lost.
    capture: Option<At<Attenuation>>,
}

/// What a channel under CSMA-CA carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried;

impl Word for Carried {
    const WHAT: &'static str = "what a channel carries";
    const WORDS: &'static [(&'static str, Self)] =
        &[("ethernet", Self), ("lowpan", Self), ("openthread", Self), ("zep", Self)];
}

/// Kind of address in MAC headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MacAddresses;

impl Word for MacAddresses {
    const WHAT: &'static str = "a kind of MAC address";
    const WORDS: &'static [(&'static str, Self)] = &[("extended", Self), ("short", Self)];
}

#[cfg(test)]
mod tests {
    use super::*;
    use link::{HalfDuplex, Promotion, Reach, Slow, State, StatesSpec};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    /// Keys that the medium's code knows, from its error about an unknown key.
    fn read_keys<T: DeserializeOwned>() -> BTreeSet<String> {
        let error = serde_json::from_value::<T>(json!({ "stranger": 1 })).err().unwrap();
        let error = error.to_string();
        let (_, known) = error.split_once("expected").unwrap();
        known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn schema_keys<T: JsonSchema>() -> BTreeSet<String> {
        let schema = schemars::schema_for!(T).to_value();
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn the_schema_and_the_medium_know_the_same_keys() {
        assert_eq!(read_keys::<StatesSpec>(), schema_keys::<StatesKeys>());
        assert_eq!(read_keys::<State>(), schema_keys::<StateKeys>());
        assert_eq!(read_keys::<Slow>(), schema_keys::<SlowTimeKeys>());
        assert_eq!(read_keys::<Promotion>(), schema_keys::<PromotionKeys>());
        assert_eq!(read_keys::<Reach>(), schema_keys::<ReachKeys>());
        assert_eq!(read_keys::<HalfDuplex>(), schema_keys::<HalfDuplexKeys>());
        assert_eq!(read_keys::<CsmaSpec>(), schema_keys::<CsmaKeys>());
        assert_eq!(read_keys::<PathLoss>(), schema_keys::<PathLossKeys>());
    }

    #[test]
    fn the_medium_reads_the_words_of_the_schema() {
        for (word, _) in Carried::WORDS {
            serde_json::from_value::<CsmaSpec>(json!({ "carries": word })).unwrap();
        }
        for (word, _) in MacAddresses::WORDS {
            serde_json::from_value::<CsmaSpec>(json!({ "mac_addresses": word })).unwrap();
        }
        let slow: Value = json!({ "slow": { "up": { "byte": "1 ms" }, "down": {} } });
        for service in [json!("full"), slow] {
            serde_json::from_value::<State>(json!({ "name": "a", "service": service })).unwrap();
        }
    }
}
