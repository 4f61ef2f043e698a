//! Resolves exchanges: pairs, payloads and times.

use super::checks::positive;
use super::context::Context;
use super::interaction::MAX_ROWS;
use super::stacks;
use crate::exchange::Exchange;
use crate::file::{self, CoapKeys, Payload, Protocol};
use crate::limits::{MQTT_QOS, ONE};
use crate::mqtt::MqttTls;
use crate::problem::Problem;
use crate::read::{At, OneOrMore, Sink};
use crate::source::Place;
use record::{Coap, CoapTransport, ExchangeProtocol, Method, MqttChoice, MqttVersion};
use units::Span;

/// Default time after which an exchange fails.
const TIMEOUT: Span = Span::from_ns(60_000_000_000);
/// Maximum number of sizes of one workload, and maximum size, B: the buffer of counted frames must
/// hold one exchange.
const MAX_SIZES: u64 = 100_000;
const MAX_SIZE: u64 = 1_000_000;
/// Maximum payload of a UDP datagram, B, after the exchange's number.
const MAX_UDP: u64 = 65_503;
/// Block sizes of RFC 7959, B.
/// SZX 0 to 6 (section 2.2): powers of two, which the check below requires.
const BLOCK_SIZES: std::ops::RangeInclusive<u64> = 16..=1024;

/// Range of leisure and acknowledgement timeout in libcoap, ns.
const TIME_RANGE: std::ops::RangeInclusive<u64> = 1_000_000_000..=65_535_000_000_000;

/// Sources, sinks, brokers, and the network between them.
type Ends = (Vec<String>, Vec<String>, Vec<String>, String);

/// Adds a problem at `place`.
fn report(sink: &mut Sink, at: Place, text: impl Into<String>, label: &str) {
    sink.add(Problem::new(text).at(at).label(label));
}

impl Context<'_, '_> {
    /// Resolves the workload. `None`: the problem is in the sink.
    pub(super) fn exchange(
        &self,
        name: String,
        typed: &file::Exchange,
        sink: &mut Sink,
    ) -> Option<Exchange> {
        let protocol = typed.protocol.as_ref().and_then(|at| protocol(at, sink));
        let ends = self.exchange_ends(typed, sink);
        let sizes = typed.payload.as_ref().and_then(|at| sizes(at, sink));
        let every = positive(&typed.every, "every", sink);
        let repetitions = repetitions(typed, sink);
        let timeout = match &typed.timeout {
            Some(_) => positive(&typed.timeout, "timeout", sink),
            None => Some(TIMEOUT),
        };
        let tls = match &typed.tls {
            Some(tls) => Some(self.tls(tls, sink)?),
            None => None,
        };
        let protocol = protocol?;
        // QUIC has no unencrypted mode.
        let tls = match &protocol {
            ExchangeProtocol::Quic(_) => tls.or(Some(MqttTls::Generated)),
            _ => tls,
        };
        let default = protocol.default_port(tls.is_some());
        let port = super::mqtt::port_or(&typed.port, default, sink)?;
        let (sources, sinks, brokers, network) = ends?;
        let connection = typed.connection.as_ref().map(|at| at.value);
        // Other protocols ignore `broker`, so that an axis can select the protocol.
        let brokers = match protocol {
            ExchangeProtocol::Mqtt(_) => brokers,
            _ => Vec::new(),
        };
        let exchange = Exchange {
            name,
            sources,
            sinks,
            brokers,
            connection: connection.unwrap_or(protocol.default_connection()),
            protocol,
            sizes: sizes?,
            repetitions: repetitions?,
            warmup: typed.warmup.as_ref().map_or(0, |at| at.value),
            every: every?,
            pause: typed.pause.as_ref().map_or(Span::ZERO, |pause| pause.value),
            timeout: timeout?,
            port,
            tls,
            tcp_timestamps: typed.tcp_timestamps.as_ref().map(|at| at.value),
            network,
        };
        self.check_exchange(typed, &exchange, sink).then_some(exchange)
    }

    /// Sources, sinks, brokers and network of the pairs.
    fn exchange_ends(&self, typed: &file::Exchange, sink: &mut Sink) -> Option<Ends> {
        let mut groups: Vec<String> = Vec::new();
        let mut find = |list: &Option<At<OneOrMore<At<String>>>>, text: &str, sink: &mut Sink| {
            let list = list.as_ref()?;
            self.nonempty(list, text, sink);
            let (nodes, more) = self.nodes.find_all(&list.value, sink);
            groups.extend(more);
            (!nodes.is_empty()).then_some(nodes)
        };
        let sources = find(&typed.sources, "`sources` matches no nodes", sink);
        let sinks = find(&typed.sinks, "`sinks` matches no nodes", sink);
        let brokers = match typed.broker {
            Some(_) => find(&typed.broker, "`broker` matches no nodes", sink)?,
            None => Vec::new(),
        };
        let (sources, sinks) = (sources?, sinks?);
        // Between programs of one node, frames use the loopback interface.
        let lists = [(&typed.sinks, &sinks), (&typed.broker, &brokers)];
        for (at, nodes) in lists {
            let twice = nodes.iter().find(|node| sources.contains(node));
            if let (Some(at), Some(node)) = (at, twice) {
                let text = format!("`{node}` is a source and cannot have another role");
                report(sink, at.place, text, "traffic within a node does not pass any network");
                return None;
            }
        }
        groups.sort();
        groups.dedup();
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        let nodes: Vec<&String> = [&sources, &sinks, &brokers].into_iter().flatten().collect();
        let network = self.network(&typed.network, typed.place, &groups, &nodes, sink)?;
        Some((sources, sinks, brokers, network))
    }

    /// Checks that the parts fit together.
    fn check_exchange(&self, typed: &file::Exchange, it: &Exchange, sink: &mut Sink) -> bool {
        let place =
            |at: &Option<At<OneOrMore<At<String>>>>| at.as_ref().map_or(typed.place, |at| at.place);
        let (sources, sinks) = (it.sources.len(), it.sinks.len());
        let (drivers, servers) = match it.protocol.is_pull() {
            true => (sinks, sources),
            false => (sources, sinks),
        };
        let protocol = typed.protocol.as_ref().map_or(typed.place, |at| at.place);
        if it.protocol.is_to_all() {
            let ends = it.sources.iter().chain(&it.sinks);
            if !self.check_multicast("`group`", &it.network, ends, protocol, sink) {
                return false;
            }
            if drivers != 1 {
                let text = format!("{drivers} nodes would each send to the whole group");
                report(
                    sink,
                    protocol,
                    text,
                    "with `group`, only one node may send requests: use one sink, or with `put` \
                     and `post` one source",
                );
                return false;
            }
        } else if servers != 1 && servers != drivers || drivers == 0 {
            let text = format!("{sources} sources and {sinks} sinks");
            let label = match it.protocol.is_pull() {
                true => "each sink that sends requests needs a source: use as many of both",
                false => "use as many sinks as sources, or one for all",
            };
            report(sink, place(&typed.sinks), text, label);
            return false;
        } else if it.protocol.is_pull() && servers != drivers {
            let text = format!("{drivers} sinks would send requests to one source");
            report(sink, place(&typed.sources), text, "use as many sources as sinks");
            return false;
        }
        let needs_broker = matches!(it.protocol, ExchangeProtocol::Mqtt(_));
        if needs_broker && it.brokers.is_empty() {
            report(
                sink,
                protocol,
                "MQTT without a `broker`",
                "name a node whose `run` is the broker",
            );
            return false;
        }
        if it.brokers.len() > 1 && it.brokers.len() != sources {
            let text = format!("{} brokers for {sources} sources", it.brokers.len());
            report(sink, place(&typed.broker), text, "use one for all, or one per source");
            return false;
        }
        let mtu = self.networks.mtu(&it.network);
        stacks::check(it, mtu, protocol, sink)
            && self.check_sizes(typed, it, sink)
            && self.check_network(typed, it, sink)
    }

    fn check_sizes(&self, typed: &file::Exchange, it: &Exchange, sink: &mut Sink) -> bool {
        let place = typed.payload.as_ref().map_or(typed.place, |at| at.place);
        let largest = it.sizes.iter().copied().max().unwrap_or(0);
        let most = match &it.protocol {
            ExchangeProtocol::Udp => MAX_UDP,
            ExchangeProtocol::Coap(coap) if coap.method == Method::Delete => 0,
            // A group request fits one datagram; block-wise transfer is for two nodes.
            ExchangeProtocol::Coap(coap) if coap.group => u64::from(coap.block),
            _ => MAX_SIZE,
        };
        if largest > most {
            let text = format!("a payload of {largest} B");
            report(sink, place, text, &format!("use at most {most} B"));
            return false;
        }
        if it.all_exchanges() > MAX_ROWS {
            let text =
                format!("{} exchanges, with one row in the results each", it.all_exchanges());
            let label = format!("use at most {MAX_ROWS}: fewer sizes, repetitions or warm-ups");
            report(sink, place, text, &label);
            return false;
        }
        true
    }

    fn check_network(&self, typed: &file::Exchange, it: &Exchange, sink: &mut Sink) -> bool {
        if self.networks.has_offload(&it.network) {
            let text = format!("exchanges on `{}`, which has `offload`", it.network);
            let label = "Thingbed counts their bytes per frame: remove `offload`";
            report(sink, typed.place, text, label);
            return false;
        }
        true
    }
}

fn repetitions(typed: &file::Exchange, sink: &mut Sink) -> Option<u64> {
    let Some(at) = &typed.repetitions else { return Some(1) };
    if at.value < ONE {
        report(sink, at.place, "`repetitions` is 0, so no exchange runs", "use 1 or more");
        return None;
    }
    Some(at.value)
}

/// All sizes in the order of the file, without duplicates.
fn sizes(at: &At<Payload>, sink: &mut Sink) -> Option<Vec<u64>> {
    let mut sizes: Vec<u64> = match &at.value {
        Payload::Sizes(sizes) => sizes.iter().map(|size| size.value.get()).collect(),
        Payload::Sweep(sweep) => {
            let of = |key: &Option<At<units::Bytes>>| key.as_ref().map(|at| at.value.get());
            let (from, to, step) = (of(&sweep.from)?, of(&sweep.to)?, of(&sweep.step)?);
            if step == 0 || to < from || (to - from) / step >= MAX_SIZES {
                let text = format!("payload sizes from {from} B to {to} B in steps of {step} B");
                let label = "use a `to` not below `from`, a `step` above 0, and at most 100000 \
                             sizes";
                report(sink, at.place, text, label);
                return None;
            }
            (from..=to).step_by(step as usize).collect()
        }
    };
    let mut seen = std::collections::HashSet::new();
    // Sizes identify results, so that a second one would be merged with the first.
    sizes.retain(|size| seen.insert(*size));
    if sizes.is_empty() {
        report(sink, at.place, "`payload` has no size", "write for example `100 B`");
        return None;
    }
    Some(sizes)
}

fn protocol(at: &At<Protocol>, sink: &mut Sink) -> Option<ExchangeProtocol> {
    Some(match &at.value {
        Protocol::Udp => ExchangeProtocol::Udp,
        Protocol::Opcua(keys) => ExchangeProtocol::Opcua(stacks::opcua(keys, sink)?),
        Protocol::Http(keys) => ExchangeProtocol::Http(stacks::http(keys)),
        Protocol::Quic(keys) => ExchangeProtocol::Quic(stacks::quic(keys)),
        Protocol::Tcp => ExchangeProtocol::Tcp,
        Protocol::Coap(keys) => ExchangeProtocol::Coap(coap(keys, at.place, sink)?),
        Protocol::Mqtt(keys) => {
            let qos = keys.qos.as_ref().map_or(0, |qos| qos.value);
            if let Some(at) = keys.qos.as_ref().filter(|qos| !MQTT_QOS.contains(&qos.value)) {
                let text = format!("a quality of service of {qos}");
                report(sink, at.place, text, "MQTT has 0, 1 and 2");
                return None;
            }
            let version = keys.version.as_ref().map_or(MqttVersion::V311, |at| at.value);
            ExchangeProtocol::Mqtt(MqttChoice { qos: qos as u8, version })
        }
    })
}

/// Reports keys that the other keys make meaningless.
fn check_unused(keys: &CoapKeys, sink: &mut Sink) {
    if let Some(leisure) = keys.leisure.as_ref().filter(|_| keys.group.is_none()) {
        let label = "only the members of a group wait before they answer: remove it";
        report(sink, leisure.place, "`leisure` without `group`", label);
    }
    let is_stream = |transport| matches!(transport, CoapTransport::Tcp | CoapTransport::Tls);
    if let Some(q_block) = keys.q_block.as_ref().filter(|at| at.value)
        && keys.transport.as_ref().is_some_and(|at| is_stream(at.value))
    {
        let label = "over TCP, larger blocks replace it (RFC 8323): remove it";
        report(sink, q_block.place, "`q_block` needs UDP", label);
    }
}

fn coap(keys: &CoapKeys, place: Place, sink: &mut Sink) -> Option<Coap> {
    let default = Coap::default();
    let is = |key: &Option<At<bool>>, other| key.as_ref().map_or(other, |at| at.value);
    let block = keys.block.as_ref().map_or(default.block.into(), |at| at.value.get());
    if let Some(at) =
        keys.block.as_ref().filter(|_| !BLOCK_SIZES.contains(&block) || !block.is_power_of_two())
    {
        let text = format!("a block of {block} B");
        report(sink, at.place, text, "use 16 B, 32 B, 64 B, 128 B, 256 B, 512 B or 1024 B");
        return None;
    }
    for (at, what) in [(&keys.leisure, "leisure"), (&keys.ack_timeout, "ack_timeout")] {
        if let Some(at) = at.as_ref().filter(|at| !TIME_RANGE.contains(&at.value.as_ns())) {
            report(
                sink,
                at.place,
                format!("`{what}` is {}", at.value),
                "use 1 s to 65535 s, the range of libcoap",
            );
            return None;
        }
    }
    check_unused(keys, sink);
    let span = |key: &Option<At<Span>>, other| key.as_ref().map_or(other, |at| at.value);
    let coap = Coap {
        method: keys.method.as_ref().map_or(default.method, |at| at.value),
        confirmable: is(&keys.confirmable, default.confirmable),
        block: block as u32,
        transport: keys.transport.as_ref().map_or(default.transport, |at| at.value),
        observe: is(&keys.observe, default.observe),
        group: is(&keys.group, default.group),
        q_block: is(&keys.q_block, default.q_block),
        leisure: span(&keys.leisure, default.leisure),
        ack_timeout: span(&keys.ack_timeout, default.ack_timeout),
        max_retransmit: keys.max_retransmit.as_ref().map_or(default.max_retransmit, |at| at.value),
    };
    let wrong = if coap.observe && coap.method != Method::Get {
        Some(("`observe` needs the method `get`", "remove `method`"))
    } else if coap.group && coap.observe {
        Some(("`group` and `observe` together", "remove one of them"))
    } else if coap.group && coap.transport != CoapTransport::Udp {
        Some(("CoAP multicast needs UDP", "remove `transport`"))
    } else if coap.group && coap.confirmable && keys.confirmable.is_some() {
        Some((
            "CoAP multicast cannot be confirmable",
            "write `confirmable: false` (RFC 7252, section 8.1)",
        ))
    } else {
        None
    };
    if let Some((text, label)) = wrong {
        report(sink, place, text, label);
        return None;
    }
    // The default is confirmable, which a request to a group must not be (RFC 7252, section 8.1).
    let confirmable = coap.confirmable && !coap.group;
    Some(Coap { confirmable, ..coap })
}
