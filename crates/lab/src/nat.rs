//! NAT gateway: forwards packets and replaces the source address of those that leave by one
//! interface (masquerading). Uses nf_tables over netlink in the node's own network namespace.

use crate::failure::Failure;
use crate::interface::{socket, up};
use crate::machine_tap;
use crate::netlink::{Message, NESTED, exchange};
use crate::routing::{Routing, enable_ipv6, set};
use crate::wire::{UPLINK, UPLINK_IPV6};
use std::net::Ipv6Addr;

/// Message types and attributes of linux/netfilter/nf_tables.h and nfnetlink.h.
const TABLES: u16 = 10 << 8;
const NEW_TABLE: u16 = TABLES;
const NEW_CHAIN: u16 = TABLES | 3;
const NEW_RULE: u16 = TABLES | 6;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
const REGISTER: u32 = 1;
const META_OUT_NAME: u32 = 7;
/// The postrouting hook, and the usual priority of source NAT there.
const AFTER_ROUTING: u32 = 4;
const SOURCE_NAT: u32 = 100;

/// The router of libslirp, the network stack of slirp4netns, at its end of the uplink.
const OUTER_ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const PREFIX: u8 = 64;

/// Makes this node a gateway to the network behind [`UPLINK`], of IPv4 and, with `ipv6`, of IPv6.
pub(crate) fn gateway(ipv6: bool) -> Result<(), Failure> {
    set("/proc/sys/net/ipv4/ip_forward", "1")?;
    translate(libc::AF_INET)?;
    if ipv6 {
        set("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
        translate(libc::AF_INET6)?;
        uplink_ipv6()?;
    }
    Ok(())
}

/// Creates the uplink with its IPv6 address and default route, for which its program has no options.
fn uplink_ipv6() -> Result<(), Failure> {
    machine_tap::create(UPLINK, libc::IFF_TAP)?;
    enable_ipv6(UPLINK)?;
    up(&socket()?, UPLINK)?;
    let routing = Routing::open()?;
    routing.add_address(UPLINK, UPLINK_IPV6, PREFIX)?;
    routing.add_default_route(UPLINK, OUTER_ROUTER)
}

/// Adds the rule to a family.
fn translate(family: libc::c_int) -> Result<(), Failure> {
    exchange(libc::NETLINK_NETFILTER, &batch(family, UPLINK)).map(drop).map_err(|errno| {
        let version = if family == libc::AF_INET6 { "IPv6" } else { "IPv4" };
        Failure::of(format!("set up address translation of {version} with nf_tables"), errno)
    })
}

/// The table, its chain and the rule, in one transaction.
fn batch(family: libc::c_int, outside: &str) -> Vec<u8> {
    let message = |kind, flags| message(family, kind, flags);
    let create = libc::NLM_F_CREATE;
    let mut table = message(NEW_TABLE, create);
    table.text(1, TABLE);

    let mut chain = message(NEW_CHAIN, create);
    chain.text(1, TABLE);
    chain.text(3, CHAIN);
    let hook = chain.begin(4 | NESTED);
    chain.number(1, AFTER_ROUTING);
    chain.number(2, SOURCE_NAT);
    chain.end(hook);
    chain.text(7, "nat");

    let mut rule = message(NEW_RULE, create | libc::NLM_F_APPEND | libc::NLM_F_ACK);
    rule.text(1, TABLE);
    rule.text(2, CHAIN);
    let expressions = rule.begin(4 | NESTED);
    expression(&mut rule, "meta", |rule| {
        rule.number(1, REGISTER);
        rule.number(2, META_OUT_NAME);
    });
    expression(&mut rule, "cmp", |rule| {
        rule.number(1, REGISTER);
        rule.number(2, 0);
        let data = rule.begin(3 | NESTED);
        let mut name = [0; libc::IFNAMSIZ];
        name[..outside.len()].copy_from_slice(outside.as_bytes());
        rule.bytes(1, &name);
        rule.end(data);
    });
    expression(&mut rule, "masq", |_| {});
    rule.end(expressions);

    [limit(BATCH_BEGIN), table.finish(), chain.finish(), rule.finish(), limit(BATCH_END)].concat()
}

const TABLE: &str = "thingbed";
const CHAIN: &str = "outward";

fn expression(rule: &mut Message, name: &str, fill: impl FnOnce(&mut Message)) {
    let element = rule.begin(1 | NESTED);
    rule.text(1, name);
    let data = rule.begin(2 | NESTED);
    fill(rule);
    rule.end(data);
    rule.end(element);
}

/// A message of a family: `struct nfgenmsg` has the family, a version and a number.
fn message(family: libc::c_int, kind: u16, flags: libc::c_int) -> Message {
    Message::new(kind, flags, &[family as u8, 0, 0, 0])
}

/// The begin or end of a transaction.
fn limit(kind: u16) -> Vec<u8> {
    Message::new(kind, 0, &[0, 0, 0, 10]).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_batch_is_whole_messages_one_after_the_other() {
        let bytes = batch(libc::AF_INET6, "tap0");
        let (mut at, mut kinds) = (0, Vec::new());
        while at < bytes.len() {
            let len = u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            kinds.push(u16::from_ne_bytes(bytes[at + 4..at + 6].try_into().unwrap()));
            assert_eq!(len % 4, 0, "each begins on a multiple of four");
            at += len;
        }
        assert_eq!(at, bytes.len());
        assert_eq!(kinds, [BATCH_BEGIN, NEW_TABLE, NEW_CHAIN, NEW_RULE, BATCH_END]);
    }
}
