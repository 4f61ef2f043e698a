//! Exchange workloads: pairs of a source and a sink, and the schedule of their exchanges.

use crate::mqtt::MqttTls;
use record::{Connection, ExchangeProtocol};
use serde::{Deserialize, Serialize};
use units::{Draw, Purpose, Span};

/// Whether serde can skip the field.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Payloads that sources send to sinks, each exchange measured separately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// Name in the results.
    pub name: String,
    /// Nodes that send payloads, in order.
    pub sources: Vec<String>,
    /// Nodes that receive payloads: as many as sources, or one.
    pub sinks: Vec<String>,
    /// Nodes with brokers, if the protocol needs them: as many as sources, or one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub brokers: Vec<String>,
    /// Protocol.
    pub protocol: ExchangeProtocol,
    /// Lifetime of connections.
    pub connection: Connection,
    /// Payload sizes, B.
    pub sizes: Vec<u64>,
    /// Repetitions of each size.
    pub repetitions: u64,
    /// Warm-up exchanges of each pair, excluded from all results.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warmup: u64,
    /// Time from the start of one exchange of a pair to the start of the next.
    pub every: Span,
    /// Minimum time from the end of one exchange to the start of the next.
    pub pause: Span,
    /// Time after which an exchange fails.
    pub timeout: Span,
    /// Port of the server or broker.
    pub port: u16,
    /// TLS certificates, if connections are encrypted.
    pub tls: Option<MqttTls>,
    /// Whether TCP uses timestamps. `None`: the kernel's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_timestamps: Option<bool>,
    /// Network of the exchanges.
    pub network: String,
}

/// The driving node, the nodes that serve it, and the broker between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair<'a> {
    /// Node that starts each exchange.
    pub driver: &'a str,
    /// Nodes at the other end: one, or all if each exchange involves all.
    pub servers: Vec<&'a str>,
    /// Node of the broker.
    pub broker: Option<&'a str>,
}

impl Exchange {
    /// The driving nodes and the servers.
    fn sides(&self) -> [&[String]; 2] {
        match self.protocol.is_pull() {
            true => [&self.sinks, &self.sources],
            false => [&self.sources, &self.sinks],
        }
    }

    /// Number of pairs, at least 1.
    fn pair_count(&self) -> u64 {
        self.sides()[0].len().max(1) as u64
    }

    /// The pairs, in order.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let [drivers, servers] = self.sides();
        let nth = |list: &[String], k: usize| -> Option<usize> {
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

    /// Number of exchanges, without warm-up.
    pub fn exchanges(&self) -> u64 {
        (self.sizes.len() as u64).saturating_mul(self.repetitions)
    }

    /// Number of exchanges with warm-up. Warm-up exchanges have the last numbers.
    pub fn all_exchanges(&self) -> u64 {
        self.exchanges().saturating_add(self.warmup.saturating_mul(self.pairs().len() as u64))
    }

    /// Maximum number of exchanges of one pair.
    fn per_pair(&self) -> u64 {
        let counted = self.exchanges().div_ceil(self.pair_count());
        counted.saturating_add(self.warmup)
    }

    /// Start of a pair's first exchange. The first exchanges of all pairs are spread evenly over
    /// one interval `every`.
    pub fn offset(&self, pair: usize) -> Span {
        self.every / self.pair_count() * pair as u64
    }

    /// Duration, if each exchange ends before the next is due.
    pub fn planned_duration(&self) -> Span {
        self.every * self.per_pair()
    }

    /// Maximum extra duration: each exchange takes the whole timeout.
    pub fn max_overrun(&self) -> Span {
        (self.timeout + self.pause) * self.per_pair()
    }

    /// The exchanges of each pair in order: number, and bytes of payload.
    ///
    /// All exchanges are shuffled by the seed and dealt to the pairs in turn; the number of an
    /// exchange is its position after the shuffle. Warm-up exchanges come first, with random sizes
    /// and higher numbers. `number` is the workload's position in the plan.
    pub fn schedule(&self, seed: u64, number: usize) -> Vec<Vec<(u64, u64)>> {
        let order = self.order(seed, number);
        let of_pair = |pair: u64| {
            let numbers = (0..).map_while(|nth| self.number(Turn { pair, nth }));
            numbers.map(|number| (number, self.sizes[order[number as usize] as usize])).collect()
        };
        (0..self.pair_count()).map(of_pair).collect()
    }

    /// The size of each exchange, with warm-up, in the order of their numbers: its position in
    /// `sizes`. See [`Exchange::schedule`].
    pub fn order(&self, seed: u64, number: usize) -> Vec<u32> {
        let once = 0..self.sizes.len() as u32;
        let mut all: Vec<u32> = (0..self.repetitions).flat_map(|_| once.clone()).collect();
        // Links use stream numbers from 0 up; workloads count down from the maximum.
        let draw = Draw::new(seed, u64::MAX - number as u64, 0);
        // Fisher-Yates (Knuth, TAOCP 2, 3.4.2, algorithm P). The product may round up to `last +
        // 1`.
        for last in (1..all.len()).rev() {
            let share = draw.uniform(Purpose::Order, last as u64);
            all.swap(last, ((share * (last + 1) as f64) as usize).min(last));
        }
        // Behind the draws of the shuffle, so that warm-up does not change the order.
        let warm_up = self.exchanges()..self.exchanges() + self.warm_up();
        all.extend(warm_up.map(|next| {
            let share = draw.uniform(Purpose::Order, next);
            ((share * self.sizes.len() as f64) as usize).min(self.sizes.len() - 1) as u32
        }));
        all
    }

    /// Number of warm-up exchanges of all pairs.
    fn warm_up(&self) -> u64 {
        self.warmup * self.pair_count()
    }

    /// The number of a pair's exchange; `None` if it has fewer.
    pub fn number(&self, Turn { pair, nth }: Turn) -> Option<u64> {
        match nth.checked_sub(self.warmup) {
            None => Some(self.exchanges() + pair * self.warmup + nth),
            Some(nth) => {
                let number = nth * self.pair_count() + pair;
                (number < self.exchanges()).then_some(number)
            }
        }
    }

    /// Which exchange of which pair has a number, which is below that of all exchanges.
    pub fn turn(&self, number: u64) -> Turn {
        let pairs = self.pair_count();
        match number.checked_sub(self.exchanges()) {
            None => Turn { pair: number % pairs, nth: self.warmup + number / pairs },
            Some(warm) => Turn { pair: warm / self.warmup.max(1), nth: warm % self.warmup.max(1) },
        }
    }
}

/// A place in the schedule of exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Position of the pair.
    pub pair: u64,
    /// Position of the exchange among those of its pair, from 0, with warm-up.
    pub nth: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::Coap;

    fn exchange(sources: usize, sinks: usize, protocol: ExchangeProtocol) -> Exchange {
        let names = |of: &str, count| (1..=count).map(|n| format!("{of}-{n}")).collect();
        Exchange {
            name: "e".to_owned(),
            sources: names("m", sources),
            sinks: names("s", sinks),
            brokers: Vec::new(),
            connection: protocol.default_connection(),
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
        let get = Coap::default();
        let asked = exchange(2, 2, ExchangeProtocol::Coap(get.clone()));
        let pairs = asked.pairs();
        assert_eq!((pairs[1].driver, &pairs[1].servers[..]), ("s-2", &["m-2"][..]));
        let all = exchange(3, 1, ExchangeProtocol::Coap(Coap { group: true, ..get }));
        assert_eq!(all.pairs().len(), 1);
        assert_eq!(all.pairs()[0].servers, ["m-1", "m-2", "m-3"]);
    }

    #[test]
    fn each_number_has_one_turn() {
        for (pairs, warmup) in [(1, 0), (2, 3), (3, 1), (4, 0), (7, 2)] {
            let it = Exchange { warmup, ..exchange(pairs, 1, ExchangeProtocol::Tcp) };
            for number in 0..it.all_exchanges() {
                assert_eq!(it.number(it.turn(number)), Some(number), "{pairs} {warmup}");
            }
            let schedule = it.schedule(7, 0);
            assert_eq!(schedule.iter().flatten().count() as u64, it.all_exchanges());
            for (pair, own) in (0..).zip(&schedule) {
                for (nth, (number, _)) in (0..).zip(own) {
                    assert_eq!(it.turn(*number), Turn { pair, nth }, "{pairs} {warmup}");
                }
            }
        }
    }

    #[test]
    fn each_pair_warms_up_first_with_numbers_of_its_own() {
        let mut it = exchange(2, 2, ExchangeProtocol::Tcp);
        let cold = it.schedule(7, 0);
        it.warmup = 3;
        let warm = it.schedule(7, 0);
        let (warmups, counted): (Vec<_>, Vec<_>) =
            warm.iter().map(|own| (own[..3].to_vec(), own[3..].to_vec())).unzip();
        assert_eq!(counted, cold, "warm-up does not change the counted exchanges");
        let numbers: Vec<u64> = warmups.iter().flatten().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [15, 16, 17, 18, 19, 20]);
        assert!(warmups.iter().flatten().all(|(_, size)| it.sizes.contains(size)));
        assert_eq!((it.exchanges(), it.all_exchanges()), (15, 21));
        assert_eq!(it.planned_duration(), Span::from_ns(100 * (8 + 3)));
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
        assert!(!all.is_sorted_by_key(|(_, size)| *size), "sizes are shuffled");
        assert_eq!((exchange.planned_duration().as_ns(), exchange.offset(1).as_ns()), (800, 50));
    }
}
