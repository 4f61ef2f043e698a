//! The built-in link profiles.

/// Names and texts, related profiles together.
pub(super) const KNOWN: [(&str, &str); 22] = [
    ("edge-lab", include_str!("../../../../profiles/edge-lab.yaml")),
    ("edge-field", include_str!("../../../../profiles/edge-field.yaml")),
    ("umts-lab", include_str!("../../../../profiles/umts-lab.yaml")),
    ("umts-field", include_str!("../../../../profiles/umts-field.yaml")),
    ("lte-lab", include_str!("../../../../profiles/lte-lab.yaml")),
    ("lte-5mhz", include_str!("../../../../profiles/lte-5mhz.yaml")),
    ("lte-m", include_str!("../../../../profiles/lte-m.yaml")),
    ("nb-iot", include_str!("../../../../profiles/nb-iot.yaml")),
    ("nb-iot-ce1", include_str!("../../../../profiles/nb-iot-ce1.yaml")),
    ("nb-iot-ce2", include_str!("../../../../profiles/nb-iot-ce2.yaml")),
    ("nr-tdd", include_str!("../../../../profiles/nr-tdd.yaml")),
    ("ieee802154", include_str!("../../../../profiles/ieee802154.yaml")),
    ("ieee802154-lowpan", include_str!("../../../../profiles/ieee802154-lowpan.yaml")),
    ("lora-eu868", include_str!("../../../../profiles/lora-eu868.yaml")),
    ("lora-eu868-sf12", include_str!("../../../../profiles/lora-eu868-sf12.yaml")),
    ("g3-plc", include_str!("../../../../profiles/g3-plc.yaml")),
    ("prime", include_str!("../../../../profiles/prime.yaml")),
    ("geo", include_str!("../../../../profiles/geo.yaml")),
    ("leo", include_str!("../../../../profiles/leo.yaml")),
    ("dsl", include_str!("../../../../profiles/dsl.yaml")),
    ("wifi", include_str!("../../../../profiles/wifi.yaml")),
    ("wifi-n", include_str!("../../../../profiles/wifi-n.yaml")),
];
