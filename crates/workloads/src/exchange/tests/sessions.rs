//! Both sides of each protocol.

use super::*;
use crate::protocols::mqtt::broker;
use record::event::{FailureReason, Section};

/// Runs both sides and checks all that holds for each protocol. Returns the sections of the
/// exchange of 5,000 B.
fn check(protocol: &Value, connection: &str) -> Vec<Section> {
    check_at("127.0.0.1", protocol, connection)
}

fn check_at(address: &str, protocol: &Value, connection: &str) -> Vec<Section> {
    let folder = tempfile::tempdir().unwrap();
    let mut more = json!({
        "port": free_port(), "connection": connection, "address": address,
        "peers": [{"name": "server", "address": address}],
    });
    if protocol.get("mqtt").is_some() {
        more["port"] = broker::start(broker::Manners::Good).into();
        more["brokers"] = json!([{"name": "broker", "address": address}]);
    }
    let spec = spec(folder.path(), protocol, &more);
    let Both { exchanges, sections, receipts } = both(&spec);
    assert_eq!(exchanges.len(), SIZES.len(), "{protocol}");
    let mut last_end = 0;
    for (exchange, (number, size)) in exchanges.iter().zip(&spec.exchanges) {
        assert_eq!((exchange.message, exchange.bytes), (*number, *size as u64));
        assert_eq!((exchange.failure, exchange.detail.as_str()), (None, ""), "{protocol}: {size}");
        // One at a time, and none before its time.
        let ExchangeEvent { intended_ns, begin_ns, end_ns, received_ns, .. } = *exchange;
        assert!(last_end <= begin_ns && intended_ns <= begin_ns && begin_ns <= end_ns);
        last_end = end_ns;
        let own: Vec<_> = sections.iter().filter(|row| row.message == Some(*number)).collect();
        assert!(own.windows(2).all(|two| two[0].end_ns == two[1].begin_ns), "{own:?}");
        let span = (own[0].begin_ns, own.last().unwrap().end_ns);
        assert!(begin_ns <= span.0 && span.1 == end_ns, "{exchange:?} has {own:?}");
        assert!(received_ns.is_none_or(|at| (begin_ns..=end_ns).contains(&at)));
        // Loopback: each frame is sent and received here.
        let bytes: u64 = own.iter().map(|row| row.out_bytes).sum();
        assert!(bytes >= exchange.bytes, "{protocol}: {bytes} B for {size} B");
        match spec.protocol.is_pull() {
            true => assert!(received_ns.is_some(), "{protocol}"),
            false => {
                let found: Vec<_> =
                    receipts.iter().filter(|one| one.bytes == exchange.bytes).collect();
                assert_eq!(found.len(), 1, "{protocol}: {receipts:?}");
                assert_eq!(found[0].peer, "driver");
                // HTTP and MQTT have no number but that of a payload with room for it.
                let is_short = *size < body::NUMBER && found[0].message.is_none();
                assert!(is_short || found[0].message == Some(*number), "{protocol}: {receipts:?}");
                assert_eq!(found[0].failure, None);
            }
        }
    }
    let of_last = sections.iter().filter(|row| row.message == Some(4));
    let found = of_last.map(|row| row.section).collect();
    assert_eq!(sections.last().map(|row| row.section), Some(Section::All));
    found
}

#[test]
fn udp() {
    for connection in ["new", "kept"] {
        assert_eq!(check(&json!("udp"), connection), [Section::Payload]);
    }
}

#[test]
fn tcp() {
    use Section::{Payload, TransportClose, TransportConnect};
    assert_eq!(check(&json!("tcp"), "new"), [TransportConnect, Payload, TransportClose]);
    assert_eq!(check(&json!("tcp"), "kept"), [Payload]);
}

#[test]
fn http() {
    use Section::{Payload, TransportClose, TransportConnect};
    for method in ["get", "put", "post"] {
        let protocol = json!({"http": {"method": method}});
        assert_eq!(check(&protocol, "new"), [TransportConnect, Payload, TransportClose]);
        assert_eq!(check(&protocol, "kept"), [Payload]);
    }
}

#[test]
fn coap_over_udp() {
    for (method, confirmable) in [("get", true), ("get", false), ("put", true), ("post", false)] {
        let options = json!({"method": method, "confirmable": confirmable, "block": 512});
        // 5,000 B are ten blocks of 512 B.
        let blocks: Vec<_> = (1..=10).map(Section::Block).collect();
        assert_eq!(check(&json!({"coap": options}), "new"), blocks, "{method}");
        assert_eq!(check(&json!({"coap": options}), "kept"), blocks, "{method}");
    }
}

#[test]
fn coap_over_tcp() {
    use Section::{Block, ProtocolConnect, TransportClose, TransportConnect};
    for method in ["get", "put"] {
        let protocol = json!({"coap": {"method": method, "transport": "tcp"}});
        let blocks = (1..=5).map(Block);
        let whole = [TransportConnect, ProtocolConnect].into_iter().chain(blocks.clone());
        let whole: Vec<_> = whole.chain([TransportClose]).collect();
        assert_eq!(check(&protocol, "new"), whole, "{method}");
        assert_eq!(check(&protocol, "kept"), blocks.collect::<Vec<_>>(), "{method}");
    }
}

#[test]
fn over_ipv6() {
    for protocol in [
        json!("udp"),
        json!("tcp"),
        json!({"http": {"method": "put"}}),
        json!({"http": {"method": "get"}}),
        json!({"coap": {"method": "put"}}),
        json!({"coap": {"method": "get", "transport": "tcp"}}),
    ] {
        check_at("::1", &protocol, "new");
        check_at("::1", &protocol, "kept");
    }
}

#[test]
fn mqtt() {
    use Section::{Payload, ProtocolClose, ProtocolConnect, TransportClose, TransportConnect};
    let whole = [TransportConnect, ProtocolConnect, Payload, ProtocolClose, TransportClose];
    for qos in 0..=2 {
        let protocol = json!({"mqtt": {"qos": qos, "version": "3.1.1"}});
        assert_eq!(check(&protocol, "new"), whole);
        assert_eq!(check(&protocol, "kept"), [Payload]);
    }
}

#[cfg(feature = "opcua")]
#[test]
fn opcua() {
    for variables in [1, 10] {
        let protocol = json!({"opcua": {"variables": variables, "timestamps": "both"}});
        assert_eq!(check(&protocol, "kept"), [Section::Payload]);
    }
}

#[test]
fn a_subscriber_records_only_the_payloads_of_its_workload() {
    let folder = tempfile::tempdir().unwrap();
    let more = json!({
        "exchanges": [[0, 1_000], [1, 5_000]], "sizes": [1_000, 5_000],
        "port": broker::start(broker::Manners::Babbles),
        "brokers": [{"name": "broker", "address": "127.0.0.1"}],
    });
    let protocol = json!({"mqtt": {"qos": 1, "version": "3.1.1"}});
    let Both { receipts, .. } = both(&spec(folder.path(), &protocol, &more));
    let found: Vec<_> = receipts.iter().map(|one| (one.message, one.bytes)).collect();
    assert_eq!(found, [(Some(0), 1_000), (Some(1), 5_000)]);
}

#[test]
fn a_refused_subscription_is_recorded_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let more = json!({
        "port": broker::start(broker::Manners::RefusesSubscriptions),
        "brokers": [{"name": "broker", "address": "127.0.0.1"}],
    });
    let protocol = json!({"mqtt": {"qos": 0, "version": "3.1.1"}});
    let Both { exchanges, receipts, .. } = both(&spec(folder.path(), &protocol, &more));
    // The publisher cannot know.
    assert!(exchanges.iter().all(|exchange| exchange.failure.is_none()));
    assert_eq!(receipts.len(), 1, "{receipts:?}");
    assert_eq!(receipts[0].failure, Some(FailureReason::Rejected));
    assert_eq!(receipts[0].peer, "driver");
    assert!(receipts[0].detail.contains("broker broker") && receipts[0].detail.contains("128"));
}
