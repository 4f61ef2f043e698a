//! Networks of compose files.

use super::names::Names;
use super::reader::{Reader, entries, get, list, text};
use super::subnets;
use super::writer::{Draft, Network};
use crate::subnet::Subnet;
use crate::tree::{Content, Key, Node};

/// Adds the networks of the file, and the default one, in this order. Returns their names.
pub(super) fn networks(root: &Node, draft: &mut Draft, reader: &mut Reader) -> Names {
    let named = get(root, "networks").map(entries).unwrap_or_default();
    let mut foreign: Vec<&str> = named.iter().map(|(key, _)| key.text.as_str()).collect();
    if !foreign.contains(&"default") {
        foreign.push("default");
    }
    let names = Names::of_networks(&foreign);
    for (key, node) in &named {
        let name = names.get(&key.text).unwrap_or_default().to_owned();
        if name != key.text {
            reader.note(key.place, format!("the name {}: the network is `{name}`", key.text));
        }
        let subnets = own_subnets(node, &key.text, reader);
        let mut known = vec!["ipam", "driver", "name"];
        if subnets.iter().any(|subnet| subnet.is_ipv6()) {
            known.push("enable_ipv6");
        }
        reader.unknown(node, &format!("the network {}", key.text), &known);
        let place = key.place;
        draft.networks.push(Network { name, place, subnets, ..Network::default() });
    }
    if foreign.len() > named.len() {
        let network =
            Network { name: "default".to_owned(), place: root.place, ..Network::default() };
        draft.networks.push(network);
    }
    names
}

/// The subnets of a network: at most one of IPv4 and one of IPv6.
fn own_subnets(network: &Node, name: &str, reader: &mut Reader) -> Vec<Subnet> {
    let config = get(network, "ipam").and_then(|ipam| get(ipam, "config"));
    let mut subnets: Vec<Subnet> = Vec::new();
    for node in config.map(list).unwrap_or_default() {
        let Some(node) = get(node, "subnet") else { continue };
        let what = format!("the subnet of the network {name}");
        let given = reader.with_defaults(text(node).unwrap_or_default(), &what, node.place);
        let why = match subnets::read(&given) {
            Ok(subnet) if subnets.iter().all(|known| known.is_ipv6() != subnet.is_ipv6()) => {
                subnets.push(subnet);
                continue;
            }
            Ok(_) => "a network has one subnet of IPv4 and one of IPv6".to_owned(),
            Err(why) => why,
        };
        reader.note(node.place, format!("{what}, {given}, is left out: {why}"));
    }
    subnets
}

/// Attaches the nodes of the service `key`, which are `group`, to its networks.
pub(super) fn attach(
    key: &Key,
    service: &Node,
    group: &str,
    names: &Names,
    draft: &mut Draft,
    reader: &mut Reader,
) {
    let own: Vec<&str> = match get(service, "networks") {
        None => vec!["default"],
        Some(names) => match &names.content {
            Content::Map(_) => {
                for (network, keys) in entries(names) {
                    let what = format!("{} on the network {}", key.text, network.text);
                    reader.unknown(keys, &what, &[]);
                }
                entries(names).into_iter().map(|(network, _)| network.text.as_str()).collect()
            }
            _ => list(names).into_iter().filter_map(text).collect(),
        },
    };
    for foreign in own {
        let name = names.get(foreign);
        match draft.networks.iter_mut().find(|network| Some(network.name.as_str()) == name) {
            // The service names the network twice.
            Some(network) if network.attach.last().is_some_and(|last| last == group) => {}
            Some(network) => network.attach.push(group.to_owned()),
            None => reader.note(key.place, format!("the network {foreign}: the file has none")),
        }
    }
}
