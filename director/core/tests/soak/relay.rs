//! A faulty relay between a hub and its members: each member has a socket that the hub takes for
//! the member, and one that the member takes for the hub.

use crate::draws::Draws;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// Probabilities of faults per datagram, 0 to 1.
#[derive(Debug, Clone, Copy)]
pub struct Weather {
    pub drop: f64,
    pub duplicate: f64,
    pub reorder: f64,
    pub delay: f64,
    pub corrupt: f64,
    pub replay: f64,
}

/// Faults so far, by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    pub datagrams: u64,
    pub dropped: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub delayed: u64,
    pub corrupted: u64,
    /// Datagrams that had been sent earlier in the round, to either end.
    pub replayed: u64,
    /// Datagrams lost in cuts.
    pub cut_off: u64,
    pub cuts: u64,
    /// A member's new address, as behind a NAT that has forgotten the old one.
    pub rebinds: u64,
    pub restarts: u64,
    pub model_changes: u64,
    /// Sessions whose members did not all exchange messages within 20 s after the last fault; no
    /// faults of the relay.
    pub not_recovered: u64,
}

impl Faults {
    /// Their sum.
    pub fn total(&self) -> u64 {
        let Self { dropped, duplicated, reordered, delayed, corrupted, replayed, .. } = *self;
        let events = self.cut_off + self.cuts + self.rebinds + self.restarts + self.model_changes;
        dropped + duplicated + reordered + delayed + corrupted + replayed + events
    }

    /// Adds those of another round.
    pub fn add(&mut self, other: &Self) {
        self.datagrams += other.datagrams;
        self.dropped += other.dropped;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.delayed += other.delayed;
        self.corrupted += other.corrupted;
        self.replayed += other.replayed;
        self.cut_off += other.cut_off;
        self.cuts += other.cuts;
        self.rebinds += other.rebinds;
        self.restarts += other.restarts;
        self.model_changes += other.model_changes;
        self.not_recovered += other.not_recovered;
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} faults: {self:?}", self.total())
    }
}

/// Datagrams kept for later replay.
const KEPT: usize = 256;

/// A direction of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Toward {
    Hub,
    Member,
}

/// The line between the hub and a member.
struct Line {
    /// What the hub takes for the member.
    facing_hub: Arc<UdpSocket>,
    /// What the member takes for the hub.
    facing_member: Arc<UdpSocket>,
    /// The member's address, once it has sent something.
    member: Option<SocketAddr>,
    cut_until: [Option<Instant>; 2],
    /// Earlier datagrams, by direction.
    earlier: [Vec<Vec<u8>>; 2],
    /// Receives from `facing_hub`.
    reader: Option<JoinHandle<()>>,
}

struct State {
    hub: SocketAddr,
    weather: Option<Weather>,
    lines: Vec<Line>,
    draws: Draws,
    faults: Faults,
}

/// The relay.
#[derive(Clone)]
pub struct Relay(Arc<Mutex<State>>);

async fn open() -> Arc<UdpSocket> {
    Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a socket on loopback"))
}

fn address(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().expect("a bound socket")
}

impl Relay {
    /// A relay for this number of members, without faults for now. Returns it with the addresses
    /// of members for the hub, and of the hub for members.
    pub async fn start(
        hub: SocketAddr,
        members: usize,
        draws: Draws,
    ) -> (Self, Vec<SocketAddr>, Vec<SocketAddr>) {
        let mut lines = Vec::new();
        for _ in 0..members {
            lines.push(Line {
                facing_hub: open().await,
                facing_member: open().await,
                member: None,
                cut_until: [None; 2],
                earlier: [Vec::new(), Vec::new()],
                reader: None,
            });
        }
        let of_members = lines.iter().map(|line| address(&line.facing_hub)).collect();
        let of_hub = lines.iter().map(|line| address(&line.facing_member)).collect();
        let faults = Faults::default();
        let state = State { hub, weather: None, lines, draws, faults };
        let relay = Self(Arc::new(Mutex::new(state)));
        for member in 0..members {
            let socket = relay.with(|state| state.lines[member].facing_member.clone());
            tokio::spawn(relay.clone().read(member, socket, Toward::Hub));
            relay.read_hub(member);
        }
        (relay, of_members, of_hub)
    }

    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.0.lock().expect("no task has panicked"))
    }

    fn read_hub(&self, member: usize) {
        let socket = self.with(|state| state.lines[member].facing_hub.clone());
        let reader = tokio::spawn(self.clone().read(member, socket, Toward::Member));
        self.with(|state| state.lines[member].reader = Some(reader));
    }

    async fn read(self, member: usize, socket: Arc<UdpSocket>, toward: Toward) {
        let mut buffer = vec![0; 65_536];
        loop {
            // An error is a port that is closed while its member restarts.
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
            if toward == Toward::Hub {
                self.with(|state| state.lines[member].member = Some(from));
            }
            for (delay, datagram) in
                self.with(|state| state.judge(member, toward, &buffer[..length]))
            {
                if delay.is_zero() {
                    self.send(member, toward, &datagram);
                    continue;
                }
                let relay = self.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    relay.send(member, toward, &datagram);
                });
            }
        }
    }

    fn send(&self, member: usize, toward: Toward, datagram: &[u8]) {
        let (socket, to) = self.with(|state| {
            let line = &state.lines[member];
            match toward {
                Toward::Hub => (line.facing_hub.clone(), Some(state.hub)),
                Toward::Member => (line.facing_member.clone(), line.member),
            }
        });
        if let Some(to) = to {
            // A full buffer loses it, as on any path.
            let _ = socket.try_send_to(datagram, to);
        }
    }

    /// Sets the probabilities of faults; with `None` the relay is perfect, and no cut lasts.
    pub fn set_weather(&self, weather: Option<Weather>) {
        self.with(|state| {
            state.weather = weather;
            state.lines.iter_mut().for_each(|line| line.cut_until = [None; 2]);
        });
    }

    /// Loses everything for a time, in one direction or in both.
    pub fn cut(&self, member: usize, time: Duration, directions: [bool; 2]) {
        self.with(|state| {
            state.faults.cuts += 1;
            let until = Instant::now() + time;
            let cuts = state.lines[member].cut_until.iter_mut().zip(directions);
            cuts.filter(|(_, cut)| *cut).for_each(|(at, _)| *at = Some(until));
        });
    }

    /// The hub sees another address of the member from now on, and the old one is gone.
    pub async fn rebind(&self, member: usize) {
        let socket = open().await;
        let reader = self.with(|state| {
            state.faults.rebinds += 1;
            state.lines[member].facing_hub = socket;
            state.lines[member].reader.take()
        });
        reader.iter().for_each(JoinHandle::abort);
        self.read_hub(member);
    }

    /// Counts a fault that others have caused.
    pub fn count(&self, what: impl FnOnce(&mut Faults)) {
        self.with(|state| what(&mut state.faults));
    }

    /// Faults so far.
    pub fn faults(&self) -> Faults {
        self.with(|state| state.faults)
    }
}

impl State {
    /// What becomes of a datagram: copies and their delays.
    fn judge(&mut self, member: usize, to: Toward, datagram: &[u8]) -> Vec<(Duration, Vec<u8>)> {
        let Self { draws, faults, lines, .. } = self;
        let line = &mut lines[member];
        faults.datagrams += 1;
        if line.cut_until[to as usize].is_some_and(|until| Instant::now() < until) {
            faults.cut_off += 1;
            return Vec::new();
        }
        let Some(weather) = self.weather else { return vec![(Duration::ZERO, datagram.to_vec())] };
        let earlier = &mut line.earlier[to as usize];
        if earlier.len() < KEPT {
            earlier.push(datagram.to_vec());
        } else {
            let place = draws.below(KEPT as u64) as usize;
            earlier[place] = datagram.to_vec();
        }
        let mut sent = Vec::new();
        if draws.chance(weather.replay) {
            faults.replayed += 1;
            // Also in the direction that it did not have.
            let all = &line.earlier[draws.below(2) as usize];
            let any = all.get(draws.below(all.len().max(1) as u64) as usize);
            sent.extend(any.map(|any| (Duration::ZERO, any.clone())));
        }
        if draws.chance(weather.drop) {
            faults.dropped += 1;
            return sent;
        }
        let mut copies = 1;
        if draws.chance(weather.duplicate) {
            faults.duplicated += 1;
            copies += 1 + draws.below(3);
        }
        for _ in 0..copies {
            let (mut delay, mut bytes) = (Duration::ZERO, datagram.to_vec());
            if draws.chance(weather.reorder) {
                faults.reordered += 1;
                delay = Duration::from_micros(100 + draws.below(5_000));
            }
            if draws.chance(weather.delay) {
                faults.delayed += 1;
                // Some outlast changes of the model and restarts.
                let longest = if draws.chance(0.02) { 5_000 } else { 200 };
                delay += Duration::from_millis(1 + draws.below(longest));
            }
            if draws.chance(weather.corrupt) {
                faults.corrupted += 1;
                corrupt(draws, &mut bytes);
            }
            sent.push((delay, bytes));
        }
        sent
    }
}

/// Flips bits, cuts the end off, or appends bytes.
fn corrupt(draws: &mut Draws, bytes: &mut Vec<u8>) {
    match draws.below(4) {
        0 => bytes.truncate(draws.below(bytes.len().max(1) as u64) as usize),
        1 => (0..=draws.below(20)).for_each(|_| bytes.push(draws.next() as u8)),
        _ => {
            for _ in 0..=draws.below(3) {
                let place = draws.below(bytes.len().max(1) as u64) as usize;
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= 1 << draws.below(8);
                }
            }
        }
    }
}
