//! Text form of how the links of a network share it.

use link::Channel;

/// The text of a channel.
pub(crate) fn channel_text(channel: &Channel) -> String {
    match channel {
        Channel::Switch => "switch, full duplex".to_owned(),
        Channel::Shared(rate) => format!("shared half-duplex channel, {rate}"),
        Channel::Csma(csma) => {
            let lowpan = lowpan(csma);
            format!("channel of {} under CSMA-CA, half duplex{lowpan}", csma.rate)
        }
        Channel::Cell { up, down } => format!("cell, {up} up, {down} down"),
        Channel::Wifi(wifi) => match wifi.aggregate {
            1 => format!("Wi-Fi channel, {}, half duplex", wifi.rate),
            most => {
                format!("Wi-Fi channel, {}, half duplex, aggregates of up to {most}", wifi.rate)
            }
        },
        Channel::Aloha(aloha) => {
            let channels = match aloha.channels {
                1 => "one radio channel".to_owned(),
                more => format!("{more} radio channels"),
            };
            let duplex = if aloha.half_duplex { "half" } else { "full" };
            let demodulators = aloha.demodulators;
            format!(
                "{channels} under ALOHA, {duplex}-duplex gateways for {demodulators} packets at once"
            )
        }
    }
}

/// What a channel that carries 6LoWPAN adds to its line.
fn lowpan(csma: &link::CsmaSpec) -> String {
    let addresses = match (csma.carries, csma.mac_addresses) {
        (link::Carried::Lowpan, link::MacAddresses::Extended) => "extended",
        (link::Carried::Lowpan, link::MacAddresses::Short) => "short",
        _ => return String::new(),
    };
    let contexts = csma.compression().contexts;
    let contexts = match contexts.is_empty() {
        true => "no contexts".to_owned(),
        false => format!("contexts {contexts}"),
    };
    format!(", 6LoWPAN with {addresses} addresses and {contexts}")
}
