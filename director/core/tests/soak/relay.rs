//! A faulty relay between a hub and its members: each member has a socket that the hub takes for
//! the member, and one that the member takes for the hub.

use crate::draws::Draws;
use crate::weather::{self, Faults, Toward, Weather};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// The line between the hub and a member.
struct Line {
    /// What the hub takes for the member.
    facing_hub: Arc<UdpSocket>,
    /// What the member takes for the hub.
    facing_member: Arc<UdpSocket>,
    /// The member's address, once it has sent something.
    member: Option<SocketAddr>,
    cut_until: [Option<Instant>; 2],
    path: weather::Line,
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
                path: weather::Line::default(),
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
        match &self.weather {
            Some(weather) => line.path.judge(weather, to, datagram, draws, faults),
            None => vec![(Duration::ZERO, datagram.to_vec())],
        }
    }
}
