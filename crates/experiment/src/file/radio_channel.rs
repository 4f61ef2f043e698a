//! Keys of radio channels. The medium's own code reads their values; here, each is read as that of any
//! other key, for the schema and for errors.

use crate::read::{At, Fields, OneOrMore, Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use link::{AlohaSpec, CsmaSpec, PathLoss, WifiSpec};
use schemars::JsonSchema;
use units::{Attenuation, Bytes, PowerLevel, Rate, Span};

/// Defines optional keys of a map: its schema, and how it is read.
macro_rules! keys {
    (
        $(#[$about:meta])*
        $name:ident, $what:literal {
            $($(#[$meaning:meta])* $key:ident: $kind:ty,)*
        }
    ) => {
        #[derive(JsonSchema)]
        $(#[$about])*
        #[schemars(deny_unknown_fields)]
        #[allow(dead_code)]
        pub(crate) struct $name {
            $($(#[$meaning])* $key: Option<$kind>,)*
        }

        impl Read for $name {
            fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
                let mut fields = Fields::of(node, $what, sink)?;
                let keys = Self { $($key: fields.optional(stringify!($key)),)* };
                fields.finish();
                Some(keys)
            }
        }
    };
}

keys! {
    /// Unslotted CSMA-CA of IEEE 802.15.4. The defaults are the standard's values at 2.4 GHz.
    #[schemars(rename = "Csma")]
    CsmaKeys, "a channel under CSMA-CA" {
        /// Data rate on air, also of headers and acknowledgements. Default: 250 kbit/s.
        rate: At<Rate>,
        /// Bytes before each frame and acknowledgement: preamble (4 B), start of frame (1 B), length (1
        /// B). Default: 6 B.
        phy_header: At<Bytes>,
        /// Backoff unit: aUnitBackoffPeriod, 20 symbols. Default: 320 us.
        unit_backoff: At<Span>,
        /// Initial backoff exponent: the first backoff is 0 to 2^`min_be` - 1 units. Range: 0 to
        /// `max_be`. Default: 3.
        #[schemars(extend("minimum" = CsmaSpec::MIN_BE.start(), "maximum" = CsmaSpec::MIN_BE.end()))]
        min_be: At<u32>,
        /// Maximum backoff exponent; each busy clear channel assessment (CCA) adds one. Range: 3 to 8.
        /// Default: 5.
        #[schemars(extend("minimum" = CsmaSpec::MAX_BE.start(), "maximum" = CsmaSpec::MAX_BE.end()))]
        max_be: At<u32>,
        /// Maximum number of consecutive busy CCAs; after one more, the frame is given up. Range: 0 to
        /// 5. Default: 4.
        #[schemars(extend("minimum" = CsmaSpec::MAX_BACKOFFS.start(), "maximum" = CsmaSpec::MAX_BACKOFFS.end()))]
        max_backoffs: At<u32>,
        /// Duration of a CCA: 8 symbols. Any transmission during this time makes the channel busy.
        /// Default: 128 us.
        cca: At<Span>,
        /// Time to switch between reception and transmission: aTurnaroundTime, 12 symbols. Also the
        /// time from the end of a frame to its acknowledgement. Default: 192 us.
        turnaround: At<Span>,
        /// Whether unicast frames are acknowledged, and retransmitted without acknowledgement. Default:
        /// true.
        acknowledge: At<bool>,
        /// Length of an acknowledgement, without `phy_header`. Default: 5 B.
        ack: At<Bytes>,
        /// Acknowledgement timeout after the end of a frame: macAckWaitDuration, 54 symbols. Default:
        /// 864 us.
        ack_wait: At<Span>,
        /// Maximum number of retransmissions of an unacknowledged frame. Range: 0 to 7. Default: 3.
        #[schemars(extend("minimum" = CsmaSpec::RETRIES.start(), "maximum" = CsmaSpec::RETRIES.end()))]
        retries: At<u32>,
        /// Interframe space after a frame of more than 18 B and its acknowledgement: 40 symbols.
        /// Default: 640 us.
        lifs: At<Span>,
        /// Interframe space after a shorter frame: 12 symbols. Default: 192 us.
        sifs: At<Span>,
        /// What the channel carries: Ethernet frames; with `lowpan`, IPv6 packets as frames of IEEE
        /// 802.15.4, compressed and fragmented by 6LoWPAN; or frames of simulated radios, which
        /// acknowledge and retransmit themselves, so that `acknowledge` and `retries` have no effect.
        /// Default: `ethernet`.
        carries: At<Carried>,
        /// Whether simulated radios get only those frames that may concern them, as from a radio with an
        /// address filter. That saves most of the work with many devices; devices that listen to all
        /// frames do not hear them all then, and a device that has been assigned a short address and not
        /// sent from it may miss a frame until it is repeated. Only with `carries: openthread` or `zep`.
        /// Default: false.
        address_filter: At<bool>,
        /// Addresses in the MAC headers of 6LoWPAN: `extended` ones have 8 B, `short` ones 2 B. Only with
        /// `carries: lowpan`. Default: `extended`.
        mac_addresses: At<MacAddresses>,
        /// Contexts of 6LoWPAN, at most 16: prefixes whose addresses packets have in a short form. `[]` for
        /// none. Only with `carries: lowpan`. Values: IPv6 prefix, or list of these. Default: the network's IPv6
        /// subnet.
        contexts: At<OneOrMore<At<String>>>,
        /// Loss by the distance between nodes, which need a `position`. Default: all nodes hear each
        /// other, without loss.
        path_loss: PathLossKeys,
        /// File with the loss from node to node, in place of `path_loss`: lines such as
        /// `meter-1,gateway,5 %`, each for both directions unless the other has a line. Pairs without a
        /// line do not hear each other. Values: path. Default: none.
        pair_losses: At<String>,
    }
}

keys! {
    /// Log-distance path loss.
    #[schemars(rename = "PathLoss")]
    PathLossKeys, "a path loss" {
        /// Path loss exponent: 2 in free space, 2.7 to 6 with obstacles. Range: 1 to 10. Default: 3.
        #[schemars(extend("minimum" = PathLoss::EXPONENTS.start(), "maximum" = PathLoss::EXPONENTS.end()))]
        exponent: At<f64>,
        /// Attenuation at 1 m, also for closer nodes; 40.2 dB is that of free space at 2.45 GHz.
        /// Default: 40.2 dB.
        reference_loss: At<Attenuation>,
        /// Transmit power of all nodes, with the gain of both antennas. Default: 0 dBm.
        transmit_power: At<PowerLevel>,
        /// Received level at which 1 % of the frames of 20 B are lost. Default: -85 dBm, the
        /// requirement of IEEE 802.15.4.
        sensitivity: At<PowerLevel>,
        /// Received level from which a node senses a transmission, and from which it disturbs the
        /// reception of others. Default: `sensitivity`.
        carrier_sense: At<PowerLevel>,
        /// Capture effect: a frame survives a collision at a receiver if it is stronger than the sum of
        /// all others by this, 3 dB for radios of IEEE 802.15.4. Default: none, colliding frames are lost.
        capture: At<Attenuation>,
        /// Log-normal shadowing: standard deviation of the loss between two nodes from that of their
        /// distance, up to 20 dB. Each pair has its deviation, in both directions, for the whole run;
        /// it depends on the seed and the repeat. Default: 0 dB.
        shadowing: At<Attenuation>,
    }
}

keys! {
    /// Contention of Wi-Fi (DCF). The defaults are those of 802.11n in 20 MHz with one stream.
    #[schemars(rename = "Wifi")]
    WifiKeys, "a Wi-Fi channel" {
        /// Data rate of unicast frames. Default: 65 Mbit/s.
        rate: At<Rate>,
        /// Rate of acknowledgements, and of multicast and broadcast frames, which are not
        /// acknowledged. Default: 24 Mbit/s.
        basic_rate: At<Rate>,
        /// Largest number of frames to one receiver in a transmission (A-MPDU); 1 for no aggregation.
        /// Range: 1 to 64. Default: 64.
        #[schemars(extend("minimum" = WifiSpec::AGGREGATE.start(), "maximum" = WifiSpec::AGGREGATE.end()))]
        aggregate: At<u32>,
        /// Maximum number of retransmissions of a frame. Range: 0 to 255. Default: 7.
        #[schemars(extend("minimum" = WifiSpec::RETRIES.start(), "maximum" = WifiSpec::RETRIES.end()))]
        retries: At<u32>,
        /// Smallest contention window, a power of 2 less 1: the first backoff is 0 to this many slots.
        /// Range: 0 to 32767. Default: 15.
        #[schemars(extend("minimum" = WifiSpec::WINDOWS.start(), "maximum" = WifiSpec::WINDOWS.end()))]
        cw_min: At<u32>,
        /// Largest contention window, a power of 2 less 1: the window doubles after each failure.
        /// Range: 0 to 32767. Default: 1023.
        #[schemars(extend("minimum" = WifiSpec::WINDOWS.start(), "maximum" = WifiSpec::WINDOWS.end()))]
        cw_max: At<u32>,
        /// Slot of the backoff. Default: 9 us.
        slot: At<Span>,
        /// Time from a frame to its acknowledgement. Default: 16 us.
        sifs: At<Span>,
        /// Time for which the channel must be idle before a backoff counts. Default: 43 us, that of best
        /// effort; 34 us (DIFS) without 802.11e.
        aifs: At<Span>,
        /// Preamble and header of the physical layer. Default: 36 us.
        preamble: At<Span>,
    }
}

keys! {
    /// Radio channels of LoRa devices, which do not sense them: packets that overlap collide.
    #[schemars(rename = "Aloha")]
    AlohaKeys, "an ALOHA channel" {
        /// Number of radio channels: each packet is sent on one of them at random. EU868 has at least 3.
        /// Range: 1 to 96. Default: 3.
        #[schemars(extend("minimum" = AlohaSpec::CHANNELS.start(), "maximum" = AlohaSpec::CHANNELS.end()))]
        channels: At<u32>,
        /// Number of packets that a gateway receives at once: SX1301 has eight demodulators, SX1302 sixteen.
        /// A packet takes one for its time on air. Range: 1 to 1000. Default: 8.
        #[schemars(extend("minimum" = AlohaSpec::DEMODULATORS.start(), "maximum" = AlohaSpec::DEMODULATORS.end()))]
        demodulators: At<u32>,
        /// Whether a gateway receives nothing while it sends. Default: true.
        half_duplex: At<bool>,
        /// Levels by the distance to the gateways, which are the nodes without `lora`; nodes need a
        /// `position`. Default: all packets are equally strong and reach the gateways.
        path_loss: LoraPathLossKeys,
    }
}

keys! {
    /// Log-distance path loss of LoRa.
    #[schemars(rename = "LoraPathLoss")]
    LoraPathLossKeys, "a path loss" {
        /// Path loss exponent: 2 in free space, 2.7 to 6 with obstacles. Range: 1 to 10. Default: 3.
        #[schemars(extend("minimum" = PathLoss::EXPONENTS.start(), "maximum" = PathLoss::EXPONENTS.end()))]
        exponent: At<f64>,
        /// Attenuation at 1 m, also for closer nodes; 31.2 dB is that of free space at 868 MHz.
        /// Default: 31.2 dB.
        reference_loss: At<Attenuation>,
        /// Transmit power of all devices, with the gain of both antennas. Default: 14 dBm.
        transmit_power: At<PowerLevel>,
        /// Capture effect: a packet survives a collision at a gateway if it is stronger than the sum of
        /// all others of its spreading factor by this. Default: 6 dB.
        capture: At<Attenuation>,
        /// Log-normal shadowing: standard deviation of the loss between two nodes from that of their
        /// distance, up to 20 dB. Each pair has its deviation, in both directions, for the whole run;
        /// it depends on the seed and the repeat. Default: 0 dB.
        shadowing: At<Attenuation>,
    }
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

impl Read for Carried {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl Read for MacAddresses {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::radio::tests::{read_keys, schema_keys};
    use link::LoraPathLoss;
    use serde_json::json;

    #[test]
    fn the_schema_and_the_medium_know_the_same_keys() {
        assert_eq!(read_keys::<CsmaSpec>(), schema_keys::<CsmaKeys>());
        assert_eq!(read_keys::<PathLoss>(), schema_keys::<PathLossKeys>());
        assert_eq!(read_keys::<AlohaSpec>(), schema_keys::<AlohaKeys>());
        assert_eq!(read_keys::<WifiSpec>(), schema_keys::<WifiKeys>());
        assert_eq!(read_keys::<LoraPathLoss>(), schema_keys::<LoraPathLossKeys>());
    }

    #[test]
    fn the_medium_reads_the_words_of_the_schema() {
        for (word, _) in Carried::WORDS {
            serde_json::from_value::<CsmaSpec>(json!({ "carries": word })).unwrap();
        }
        for (word, _) in MacAddresses::WORDS {
            serde_json::from_value::<CsmaSpec>(json!({ "mac_addresses": word })).unwrap();
        }
    }
}
