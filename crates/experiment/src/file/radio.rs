//! Schema of radio states, which the medium's own code reads.

use crate::read::At;
use schemars::JsonSchema;
use units::{Bytes, Span};

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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use link::{HalfDuplex, Promotion, Reach, Slow, State, StatesSpec};
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};
    use std::collections::BTreeSet;

    /// Keys that the medium's code knows, from its error about an unknown key.
    pub(crate) fn read_keys<T: DeserializeOwned>() -> BTreeSet<String> {
        let error = serde_json::from_value::<T>(json!({ "stranger": 1 })).err().unwrap();
        let error = error.to_string();
        let (_, known) = error.split_once("expected").unwrap();
        known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    pub(crate) fn schema_keys<T: JsonSchema>() -> BTreeSet<String> {
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
    }

    #[test]
    fn the_medium_reads_the_services_of_the_schema() {
        let slow: Value = json!({ "slow": { "up": { "byte": "1 ms" }, "down": {} } });
        for service in [json!("full"), slow] {
            serde_json::from_value::<State>(json!({ "name": "a", "service": service })).unwrap();
        }
    }
}
