//! A workload of exchanges: pairs of a source and a sink, and the order of what they do.

use crate::mqtt::{MqttTls, MqttVersion};
use crate::scalar::Word;
use crate::stacks::{Http, HttpMethod, Opcua, Quic};
use serde::{Deserialize, Serialize};
use units::{Draw, Purpose, Span};

/// How long connections last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connection {
    /// Each exchange has one of its own.
    New,
    /// One is made before the start and kept.
    Kept,
}

impl Word for Connection {
    const WHAT: &'static str = "a lifetime of connections";
    const WORDS: &'static [(&'static str, Self)] = &[("new", Self::New), ("kept", Self::Kept)];
}

/// What is asked of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// The sink asks for the payload.
    Get,
    /// The source puts it.
    Put,
    /// The source posts it.
    Post,
    /// The source has the resource removed; there is no payload.
    Delete,
}

impl Word for Method {
    const WHAT: &'static str = "a method";
    const WORDS: &'static [(&'static str, Self)] =
        &[("get", Self::Get), ("put", Self::Put), ("post", Self::Post), ("delete", Self::Delete)];
}

/// What CoAP runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoapTransport {
    /// UDP (RFC 7252).
    Udp,
    /// DTLS over UDP (RFC 7252).
    Dtls,
    /// TCP (RFC 8323).
    Tcp,
    /// TLS over TCP (RFC 8323).
    Tls,
}

impl Word for CoapTransport {
    const WHAT: &'static str = "a transport of CoAP";
    const WORDS: &'static [(&'static str, Self)] =
        &[("udp", Self::Udp), ("dtls", Self::Dtls), ("tcp", Self::Tcp), ("tls", Self::Tls)];
}

impl CoapTransport {
    /// Whether it is encrypted.
    pub fn is_secure(self) -> bool {
        matches!(self, Self::Dtls | Self::Tls)
    }
}

/// What can be chosen of CoAP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Coap {
    /// What is asked of the resource.
    pub method: Method,
    /// Whether messages are confirmed.
    pub confirmable: bool,
    /// Bytes of a block: 16, 32 and so on to 1024.
    pub block: u32,
    /// What it runs over.
    pub transport: CoapTransport,
    /// Whether the sink observes the resource, and the source notifies it.
    pub observe: bool,
    /// Whether one request goes to all at the other end, by multicast.
    pub group: bool,
    /// Whether blocks go several at a time (RFC 9177).
    pub q_block: bool,
    /// The time within which members of a group answer (RFC 7252, 8.2).
    pub leisure: Span,
    /// How long a first confirmable message waits for its acknowledgement.
    pub ack_timeout: Span,
    /// How often one is sent again.
    pub max_retransmit: u32,
}

/// What can be chosen of MQTT.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MqttChoice {
    /// Quality of service, 0 to 2.
    pub qos: u8,
    /// The protocol's version.
    pub version: MqttVersion,
}

/// A protocol, with what can be chosen of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExchangeProtocol {
    /// Plain UDP.
    Udp,
    /// Plain TCP.
    Tcp,
    /// CoAP.
    Coap(Coap),
    /// MQTT.
    Mqtt(MqttChoice),
    /// OPC UA.
    Opcua(Opcua),
    /// HTTP/1.1.
    Http(Http),
    /// QUIC.
    Quic(Quic),
}

impl ExchangeProtocol {
    /// Its name in specs and results.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Coap(_) => "coap",
            Self::Mqtt(_) => "mqtt",
            Self::Opcua(_) => "opcua",
            Self::Http(_) => "http",
            Self::Quic(_) => "quic",
        }
    }

    /// Whether the sink asks for the payload, and so begins each exchange.
    pub fn pulls(&self) -> bool {
        match self {
            Self::Coap(coap) => coap.method == Method::Get && !coap.observe,
            Self::Opcua(_) => true,
            Self::Http(http) => http.method == HttpMethod::Get,
            _ => false,
        }
    }

    /// Whether one exchange is with all at the other end.
    pub fn is_to_all(&self) -> bool {
        matches!(self, Self::Coap(coap) if coap.group)
    }

    /// How long connections last unless the file says.
    pub fn usual_connection(&self) -> Connection {
        match self {
            Self::Coap(coap) if coap.observe => Connection::Kept,
            Self::Opcua(_) => Connection::Kept,
            _ => Connection::New,
        }
    }

    /// The port unless the file says.
    pub fn usual_port(&self, tls: bool) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 7000,
            Self::Coap(coap) => 5683 + u16::from(coap.transport.is_secure()),
            Self::Mqtt(_) => {
                if tls {
                    8883
                } else {
                    1883
                }
            }
            Self::Opcua(_) => 4840,
            Self::Http(_) => 80,
            Self::Quic(_) => 4433,
        }
    }
}

/// Whether nothing need be written.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Payloads that go from sources to sinks, each exchange by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Its name in the results.
    pub name: String,
    /// The nodes that payloads come from, in order.
    pub sources: Vec<String>,
    /// The nodes that they go to: as many, or one.
    pub sinks: Vec<String>,
    /// The nodes with brokers, where the protocol has them: as many as sources, or one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brokers: Vec<String>,
    /// Over what.
    pub protocol: ExchangeProtocol,
    /// How long connections last.
    pub connection: Connection,
    /// Bytes of payload.
    pub sizes: Vec<u64>,
    /// How often each size comes.
    pub repetitions: u64,
    /// Exchanges that each pair has before those, and that no figure counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup: u64,
    /// From the beginning of one exchange of a pair to that of the next.
    pub every: Span,
    /// The least from the end of one to the beginning of the next.
    pub pause: Span,
    /// How long one may take.
    pub timeout: Span,
    /// Where the server or the broker listens.
    pub port: u16,
    /// Whether and how connections are encrypted.
    pub tls: Option<MqttTls>,
    /// Whether TCP has timestamps; as the kernel has it if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_timestamps: Option<bool>,
    /// The network that it goes over.
    pub network: String,
}

/// One side that drives, those that serve it, and the broker between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The side that begins each exchange.
    pub driver: &'a str,
    /// The other side: one, or all where an exchange is with all.
    pub servers: Vec<&'a str>,
    /// The broker's node.
    pub broker: Option<&'a str>,
}

impl Exchange {
    /// The pairs, in order.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let (drivers, servers) = match self.protocol.pulls() {
            true => (&self.sinks, &self.sources),
            false => (&self.sources, &self.sinks),
        };
        let nth = |list: &'_ [String], k: usize| -> Option<usize> {
            (!list.is_empty()).then(|| k.min(list.len() - 1))
        };
        drivers
            .iter()
            .enumerate()
            .map(|(k, driver)| Pair {
                driver,
                servers: match self.protocol.is_to_all() {
                    true => servers.iter().map(String::as_str).collect(),
                    false => nth(servers, k).map(|k| servers[k].as_str()).into_iter().collect(),
                },
                broker: nth(&self.brokers, k).map(|k| self.brokers[k].as_str()),
            })
            .collect()
    }

    /// How many exchanges there are, without those that warm up.
    pub fn exchanges(&self) -> u64 {
        (self.sizes.len() as u64).saturating_mul(self.repetitions)
    }

    /// How many there are in all. Those that warm up have the last numbers.
    pub fn all_exchanges(&self) -> u64 {
        self.exchanges().saturating_add(self.warmup.saturating_mul(self.pairs().len() as u64))
    }

    /// How many one pair has at most.
    fn of_a_pair(&self) -> u64 {
        let counted = self.exchanges().div_ceil((self.pairs().len() as u64).max(1));
        counted.saturating_add(self.warmup)
    }

    /// When a pair's first exchange begins: pairs begin one after the other within
    /// the time from one exchange to the next.
    pub fn offset(&self, pair: usize) -> Span {
        let share = self.every.as_ns() / self.pairs().len().max(1) as u64;
        Span::from_ns(share.saturating_mul(pair as u64))
    }

    /// How long it lasts if each exchange is over before the next is due.
    pub fn lasts(&self) -> Span {
        Span::from_ns(self.every.as_ns().saturating_mul(self.of_a_pair()))
    }

    /// How much longer it may last: if each exchange took as long as it may.
    pub fn may_be_late(&self) -> Span {
        let each = self.timeout.as_ns().saturating_add(self.pause.as_ns());
        Span::from_ns(each.saturating_mul(self.of_a_pair()))
    }

    /// The exchanges of each pair in their order: number, and bytes of payload.
    ///
    /// All are shuffled by the seed, and dealt out to the pairs in turn; an exchange's
    /// number is its place among the shuffled. Those that warm up come first, with sizes
    /// that are drawn and numbers beyond. `number` is the workload's place in the plan.
    pub fn schedule(&self, seed: u64, number: usize) -> Vec<Vec<(u64, u64)>> {
        let once = self.sizes.iter().copied();
        let mut all: Vec<u64> = (0..self.repetitions).flat_map(|_| once.clone()).collect();
        // Links have numbers from 0; workloads count down from the other end.
        let draw = Draw::new(seed, u64::MAX - number as u64, 0);
        for last in (1..all.len()).rev() {
            let share = draw.uniform(Purpose::Order, last as u64);
            all.swap(last, ((share * (last + 1) as f64) as usize).min(last));
        }
        let pairs = self.pairs().len().max(1);
        let mut next = all.len() as u64;
        let mut warm = |_: u64| {
            let share = draw.uniform(Purpose::Order, next);
            let size = (share * self.sizes.len() as f64) as usize;
            next += 1;
            (next - 1, self.sizes[size.min(self.sizes.len() - 1)])
        };
        let mut dealt: Vec<Vec<_>> =
            (0..pairs).map(|_| (0..self.warmup).map(&mut warm).collect()).collect();
        for (place, size) in all.into_iter().enumerate() {
            dealt[place % pairs].push((place as u64, size));
        }
        dealt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(sources: usize, sinks: usize, protocol: ExchangeProtocol) -> Exchange {
        let names = |of: &str, count| (1..=count).map(|n| format!("{of}-{n}")).collect();
        Exchange {
            name: "e".to_owned(),
            sources: names("m", sources),
            sinks: names("s", sinks),
            brokers: Vec::new(),
            connection: protocol.usual_connection(),
            protocol,
            sizes: vec![0, 100, 200],
            repetitions: 5,
            warmup: 0,
            every: Span::from_ns(100),
            pause: Span::from_ns(5),
            timeout: Span::from_ns(1000),
            port: 1,
            tls: None,
            tcp_timestamps: None,
            network: "n".to_owned(),
        }
    }

    #[test]
    fn the_source_drives_unless_the_sink_asks() {
        let pairs = exchange(2, 1, ExchangeProtocol::Tcp);
        let pairs = pairs.pairs();
        assert_eq!((pairs[1].driver, &pairs[1].servers[..]), ("m-2", &["s-1"][..]));
        let get = Coap {
            method: Method::Get,
            confirmable: true,
            block: 1024,
            transport: CoapTransport::Udp,
            observe: false,
            group: false,
            q_block: false,
            leisure: Span::from_ns(1),
            ack_timeout: Span::from_ns(1),
            max_retransmit: 4,
        };
        let asked = exchange(2, 2, ExchangeProtocol::Coap(get.clone()));
        let pairs = asked.pairs();
        assert_eq!((pairs[1].driver, &pairs[1].servers[..]), ("s-2", &["m-2"][..]));
        let all = exchange(3, 1, ExchangeProtocol::Coap(Coap { group: true, ..get }));
        assert_eq!(all.pairs().len(), 1);
        assert_eq!(all.pairs()[0].servers, ["m-1", "m-2", "m-3"]);
    }

    #[test]
    fn each_pair_warms_up_first_with_numbers_of_its_own() {
        let mut it = exchange(2, 2, ExchangeProtocol::Tcp);
        let cold = it.schedule(7, 0);
        it.warmup = 3;
        let warm = it.schedule(7, 0);
        let (warmups, counted): (Vec<_>, Vec<_>) =
            warm.iter().map(|own| (own[..3].to_vec(), own[3..].to_vec())).unzip();
        assert_eq!(counted, cold, "what counts stays as it is");
        let numbers: Vec<u64> = warmups.iter().flatten().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [15, 16, 17, 18, 19, 20]);
        assert!(warmups.iter().flatten().all(|(_, size)| it.sizes.contains(size)));
        assert_eq!((it.exchanges(), it.all_exchanges()), (15, 21));
        assert_eq!(it.lasts(), Span::from_ns(100 * (8 + 3)));
    }

    #[test]
    fn pairs_share_the_work_in_an_order_that_the_seed_draws() {
        let exchange = exchange(2, 2, ExchangeProtocol::Udp);
        let dealt = exchange.schedule(7, 0);
        assert_eq!(dealt, exchange.schedule(7, 0));
        assert_ne!(dealt, exchange.schedule(8, 0));
        assert_eq!((dealt[0].len(), dealt[1].len()), (8, 7));
        let mut all: Vec<(u64, u64)> = dealt.concat();
        all.sort_unstable();
        assert!(all.iter().enumerate().all(|(place, (number, _))| *number == place as u64));
        for size in [0, 100, 200] {
            assert_eq!(all.iter().filter(|(_, s)| *s == size).count(), 5);
        }
        assert!(!all.is_sorted_by_key(|(_, size)| *size), "they are mixed");
        assert_eq!((exchange.lasts().as_ns(), exchange.offset(1).as_ns()), (800, 50));
    }
}
