//! Resolves the MQTT broker of a network, and checks the workloads that use it.

use crate::file::{Broker, File};
use crate::load::{Load, Requests};
use crate::plan::{
    BROKER_NAME, BrokerKind, MQTT_PORT, PlannedBroker, PlannedNetwork, PlannedNode, Workload,
};
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::nodes::Nodes;
use trace::Scheme;

/// Adds the broker to its network in `planned`.
pub(super) fn resolve(
    file: &File,
    nodes: &Nodes<'_>,
    networks: &mut [PlannedNetwork],
    planned: &[PlannedNode],
    sink: &mut Sink,
) {
    let mut first: Option<&str> = None;
    for (name, _, typed) in file.networks.iter().flat_map(Named::iter) {
        let Some(broker) = &typed.mqtt else { continue };
        if let Some(first) = first {
            let text = format!("`{first}` and `{name}` both have an MQTT broker");
            let label = format!(
                "programs know one by the name `{BROKER_NAME}`: remove this, or start the second by the `run` of a node"
            );
            sink.add(Problem::new(text).at(broker.place).label(label));
            continue;
        }
        first = Some(name);
        let has_vlans = typed.vlans.as_ref().is_some_and(|vlans| !vlans.value.is_empty());
        let place = networks.iter().position(|network| network.name == name);
        let Some(place) = place else { continue };
        let others = networks.iter().enumerate();
        let joined = others.filter(|(at, _)| *at != place);
        let is_joined = joined.map(|(_, other)| other).any(|o| networks[place].is_joined_with(o));
        if has_vlans || is_joined {
            let what = if has_vlans { "VLANs" } else { "a bridge to another network" };
            let text = format!("`{name}` has {what} and an MQTT broker");
            let label = "the broker would not reach all nodes: start one by the `run` of a node";
            sink.add(Problem::new(text).at(broker.place).label(label));
            continue;
        }
        networks[place].mqtt = of(name, broker, nodes, planned, sink);
    }
}

/// The broker of the network `name`.
fn of(
    name: &str,
    typed: &Broker,
    nodes: &Nodes<'_>,
    planned: &[PlannedNode],
    sink: &mut Sink,
) -> Option<PlannedBroker> {
    let on = typed.on.as_ref()?;
    let kind = typed.broker.as_ref()?;
    let (_, found) = nodes.find(on, sink)?;
    let [own] = &found[..] else {
        let text = format!("`{}` has {} nodes, but a broker is one node", on.value, found.len());
        let label = format!("write for example `{}`", found.first()?);
        sink.add(Problem::new(text).at(on.place).label(label));
        return None;
    };
    let mut report = |text: String, label: &str| {
        sink.add(Problem::new(text).at(on.place).label(label.to_owned()));
        None
    };
    let attached =
        || planned.iter().filter(|node| node.links.iter().any(|link| link.network == name));
    let Some(node) = attached().find(|node| node.name == *own) else {
        return report(format!("`{own}` is not attached to `{name}`"), "use a node of the network");
    };
    if !runs_programs(node) {
        let text = format!("`{own}` cannot run a broker: it is hardware, a machine or a bridge");
        return report(text, "use another node of the network");
    }
    if planned.iter().any(|node| node.name == BROKER_NAME) {
        let text =
            format!("a node has the name `{BROKER_NAME}`, by which programs reach the broker");
        return report(text, "rename that node");
    }
    if kind.value == BrokerKind::Mosquitto {
        let devices = Vec::new();
        return Some(PlannedBroker { broker: kind.value, on: own.clone(), devices });
    }
    let devices = attached().filter(|node| node.name != *own && runs_programs(node));
    let devices: Vec<&PlannedNode> = devices.collect();
    if devices.is_empty() {
        let text = format!("no other node of `{name}` can run a gateway");
        return report(text, "attach nodes with programs, or use `broker: mosquitto`");
    }
    let leased = devices.iter().chain([&node]).find(|node| {
        node.links.iter().any(|link| link.network == name && (link.by_dhcp || link.by_slaac))
    });
    if let Some(leased) = leased {
        let source = if leased.links.iter().any(|link| link.by_dhcp) { "DHCP" } else { "SLAAC" };
        let text = format!(
            "`{}` gets its address by {source}, and gateways start before that",
            leased.name
        );
        return report(text, "remove `address` of its group, or use `broker: mosquitto`");
    }
    let devices = devices.iter().map(|node| node.name.clone()).collect();
    Some(PlannedBroker { broker: kind.value, on: own.clone(), devices })
}

/// Whether a node runs programs on this machine's kernel, and has planned addresses.
fn runs_programs(node: &PlannedNode) -> bool {
    let is_service = node.services.is_some();
    node.external.is_none() && node.machine.is_none() && node.bridge.is_none() && !is_service
}

/// Reports workloads that cannot use the gateways of their broker.
pub(super) fn check_workloads(
    file: &File,
    networks: &[PlannedNetwork],
    workloads: &[Workload],
    sink: &mut Sink,
) {
    let with_broker = |network: &&PlannedNetwork| network.mqtt.is_some();
    let Some(network) = networks.iter().find(with_broker) else { return };
    let Some(broker) = network.mqtt.as_ref().filter(|own| own.broker == BrokerKind::Gateway) else {
        return;
    };
    let typed = file.networks.as_ref().and_then(|all| all.get(&network.name));
    let Some(place) = typed.and_then(|typed| Some(typed.mqtt.as_ref()?.place)) else { return };
    for workload in workloads {
        let Some((text, label)) = refusal(broker, workload) else { continue };
        sink.add(Problem::new(text).at(place).label(label));
    }
}

/// Whether a load sends MQTT.
fn is_mqtt(load: &Load) -> bool {
    matches!(&load.requests, Requests::Made(made) if made.protocol == Scheme::Mqtt)
}

/// Why a workload cannot use the gateways, and the fix.
fn refusal(broker: &PlannedBroker, workload: &Workload) -> Option<(String, String)> {
    let has_gateway = |node: &&String| **node == broker.on || broker.devices.contains(node);
    let lacking = |name: &str, one: &[String], other: &[String]| {
        let client = one.iter().chain(other).find(|node| !has_gateway(node))?;
        let text = format!("the client `{client}` of `{name}` has no gateway");
        Some((text, "attach it to this network".to_owned()))
    };
    let encrypted = |name: &str| {
        let text = format!("`{name}` uses TLS, which gateways do not have for clients");
        (text, "remove its `tls`, or use `broker: mosquitto`".to_owned())
    };
    match workload {
        Workload::Mqtt(mqtt) if mqtt.broker == broker.on && mqtt.port == MQTT_PORT => {
            if mqtt.tls.is_some() {
                return Some(encrypted(&mqtt.name));
            }
            lacking(&mqtt.name, &mqtt.publishers, &mqtt.subscribers)
        }
        Workload::Exchange(it) if it.brokers.contains(&broker.on) && it.port == MQTT_PORT => {
            if it.tls.is_some() {
                return Some(encrypted(&it.name));
            }
            if it.brokers.len() > 1 {
                let text = format!("`{}` has several brokers, one with gateways", it.name);
                return Some((text, format!("use only `{}` as its broker", broker.on)));
            }
            lacking(&it.name, &it.sources, &it.sinks)
        }
        Workload::Interaction(it) if it.broker.as_ref() == Some(&broker.on) => {
            let text = format!(
                "the director of `{}` would use MQTT, which gateways carry by the director",
                it.name
            );
            Some((text, "use `broker: mosquitto`".to_owned()))
        }
        Workload::Load(load) if load.targets().contains(&broker.on) && is_mqtt(load) => {
            let text = format!("the load `{}` would reach the gateway of the hub only", load.name);
            let label =
                "the hub's gateway serves programs of that node only: use `broker: mosquitto`";
            Some((text, label.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::{BrokerKind, Plan};
    use crate::test_plan::plan;

    const FILE: &str = "\
experiment: e
nodes: {hub: {}, meter: {count: 2}, far: {}}
networks:
  field: {attach: [hub, meter], subnet: 10.0.0.0/24, mqtt: {broker: gateway, on: hub}}
  out: {attach: [hub, far], subnet: 10.1.0.0/24}
workloads: [{command: {on: hub, run: ['true']}}]
duration: 1 s
";

    fn broker(plan: &Plan) -> (BrokerKind, &str, Vec<&str>) {
        let (network, own) = plan.broker().unwrap();
        assert_eq!(network.name, "field");
        (own.broker, &own.on, own.devices.iter().map(String::as_str).collect())
    }

    #[test]
    fn each_node_of_the_network_has_a_gateway() {
        let with_gateways = plan(FILE).unwrap();
        let devices = vec!["meter-1", "meter-2"];
        assert_eq!(broker(&with_gateways), (BrokerKind::Gateway, "hub", devices));
        assert!(with_gateways.has_local_gateway("hub", 1883));
        assert!(!with_gateways.has_local_gateway("hub", 1884));
        assert!(!with_gateways.has_local_gateway("meter-1", 1883));
        let text = with_gateways.to_string();
        for line in ["MQTT broker: the director's gateways on hub", "of clients: meter-1, meter-2"]
        {
            assert!(text.contains(line), "{line} in {text}");
        }
        let alone = plan(&FILE.replace("broker: gateway", "broker: mosquitto")).unwrap();
        assert_eq!(broker(&alone), (BrokerKind::Mosquitto, "hub", Vec::new()));
        assert!(!alone.has_local_gateway("hub", 1883));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let second = "subnet: 10.1.0.0/24, mqtt: {broker: mosquitto, on: far}";
        let exchange = "exchange: {sources: far, sinks: meter-1, broker: hub, protocol: mqtt, payload: [9 B], repetitions: 1, every: 1 s, network: field}";
        let encrypted =
            exchange.replace("sources: far", "sources: meter-2, port: 1883, tls: generated");
        let load = "load: {on: meter-1, to: hub, protocol: mqtt, arrivals: 'exponential:1s', duration: 2 s, path: a, network: field}";
        for (from, to, words) in [
            ("on: hub}}", "on: meter}}", "a broker is one node"),
            ("on: hub}}", "on: none}}", "unknown group `none`"),
            ("on: hub}}", "on: far}}", "`far` is not attached to `field`"),
            ("broker: gateway", "broker: hive", "mosquitto"),
            ("[hub, meter]", "hub", "no other node of `field` can run a gateway"),
            ("far: {}", "far: {}, mqtt-broker: {}", "has the name `mqtt-broker`"),
            ("subnet: 10.1.0.0/24", second, "both have an MQTT broker"),
            ("mqtt: {", "vlans: {hub: 3}, mqtt: {", "`field` has VLANs and an MQTT broker"),
            (
                "meter: {count: 2}",
                "meter: {count: 2, address: dhcp}",
                "by DHCP, and gateways start",
            ),
            ("hub: {}", "hub: {forward: true}", "`far` of `exchange-1` has no gateway"),
            ("command: {on: hub, run: ['true']}", &encrypted, "uses TLS"),
            ("command: {on: hub, run: ['true']}", load, "gateway of the hub only"),
        ] {
            let text = FILE.replace(from, to);
            let text = match words.contains("has no gateway") {
                true => text.replace("command: {on: hub, run: ['true']}", exchange),
                false => text,
            };
            let text = match words.contains("DHCP") {
                true => text.replace("mqtt: {", "dhcp: true, mqtt: {"),
                false => text,
            };
            let error = plan(&text).unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}
