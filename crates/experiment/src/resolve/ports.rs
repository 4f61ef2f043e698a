//! Exchanges whose servers would need the same port of a node.

use crate::exchange::Exchange;
use crate::file::{self, File};
use crate::plan::Workload;
use crate::problem::Problem;
use crate::read::Sink;
use record::{CoapTransport, ExchangeProtocol};
use std::collections::BTreeMap;

/// What a server binds: transport, port, network and node.
type Bound<'a> = (&'static str, u16, &'a str, &'a str);

/// Reports exchanges whose servers would need the same port: the second one could not start.
pub(super) fn check(file: &File, workloads: &[Workload], sink: &mut Sink) {
    let typed = file.workloads.iter().flatten().filter_map(|workload| match workload {
        file::Workload::Exchange(exchange) => Some(exchange.as_ref()),
        _ => None,
    });
    let typed: Vec<&file::Exchange> = typed.collect();
    let exchanges = workloads.iter().filter_map(|workload| match workload {
        Workload::Exchange(exchange) => Some(exchange),
        _ => None,
    });
    let exchanges: Vec<&Exchange> = exchanges.collect();
    // Otherwise one has problems, which come first.
    if typed.len() != exchanges.len() {
        return;
    }
    let mut servers: BTreeMap<Bound<'_>, &str> = BTreeMap::new();
    for (exchange, typed) in exchanges.into_iter().zip(typed) {
        let bound = servers_of(exchange);
        let taken = bound.iter().find_map(|bound| Some((bound, servers.get(bound)?)));
        if let Some(((transport, port, _, node), other)) = taken {
            let text = format!(
                "`{}` and `{other}` would both have a server at {transport} port {port} of `{node}`",
                exchange.name
            );
            let place = typed.port.as_ref().map_or(typed.place, |port| port.place);
            let label = format!(
                "use another port here, for example `port: {}`, or make one exchange of both, with all sources in `sources`",
                port.checked_add(1).unwrap_or(7_000)
            );
            sink.add(Problem::new(text).at(place).label(label));
            continue;
        }
        servers.extend(bound.into_iter().map(|bound| (bound, exchange.name.as_str())));
    }
}

/// What the servers of an exchange bind. Those of MQTT are the broker's.
fn servers_of(exchange: &Exchange) -> Vec<Bound<'_>> {
    let transport = match &exchange.protocol {
        ExchangeProtocol::Udp | ExchangeProtocol::Quic(_) => "UDP",
        ExchangeProtocol::Tcp | ExchangeProtocol::Opcua(_) | ExchangeProtocol::Http(_) => "TCP",
        ExchangeProtocol::Coap(coap) => match coap.transport {
            CoapTransport::Udp | CoapTransport::Dtls => "UDP",
            CoapTransport::Tcp | CoapTransport::Tls => "TCP",
        },
        ExchangeProtocol::Mqtt(_) => return Vec::new(),
    };
    let nodes = if exchange.protocol.is_pull() { &exchange.sources } else { &exchange.sinks };
    let bound = |node| (transport, exchange.port, exchange.network.as_str(), node);
    nodes.iter().map(|node| bound(node.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use crate::test_plan::plan;

    fn with(first: &str, second: &str) -> Result<(), String> {
        let exchange = |keys: &str| {
            format!("  - exchange: {{{keys}, payload: [10 B], repetitions: 1, every: 1 s}}\n")
        };
        let file = format!(
            "experiment: e\nnodes: {{a: {{}}, b: {{}}, gw: {{}}}}\nnetworks: {{lan: {{attach: [a, b, gw], subnet: 10.0.0.0/24}}}}\nworkloads:\n{}{}",
            exchange(first),
            exchange(second)
        );
        plan(&file).map(|_| ())
    }

    #[test]
    fn two_servers_need_two_ports() {
        let udp = "sources: a, sinks: gw, protocol: udp";
        let error = with(udp, "sources: b, sinks: gw, protocol: udp").unwrap_err();
        assert!(
            error.contains(
                "`exchange-2` and `exchange-1` would both have a server at UDP port 7000 of `gw`"
            ),
            "{error}"
        );
        for other in [
            "sources: b, sinks: gw, protocol: udp, port: 7001",
            "sources: b, sinks: gw, protocol: tcp",
            "sources: gw, sinks: b, protocol: udp",
        ] {
            assert_eq!(with(udp, other), Ok(()), "{other}");
        }
    }
}
