//! The MQTT port: connections of clients.

mod packets;
mod refused;

use crate::budget::{Held, Inflow, OVERHEAD, Outflow, Room};
use crate::packet::{Ack, Connect, Packet};
use crate::reason;
use crate::wire::Malformed;
pub use packets::MAX_ALIASES;
use packets::{End, Packets, READ};
use refused::Refusals;
use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, timeout};

/// Maximum number of messages and subscriptions of a connection that are not acknowledged; then it is not read.
pub const MAX_OPEN: usize = 1_000;
/// Maximum number of packets that wait for a slow client; then it is disconnected.
pub const MAX_PACKETS: usize = 4_096;
/// Maximum size of packets that wait for a slow client, in bytes; then it is disconnected.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of events that wait for the gateway.
const MAX_EVENTS: usize = 256;
/// Time for the first packet.
const FIRST: Duration = Duration::from_secs(10);
/// Minimum time between two reports of connections that could not be accepted.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// Time to write the reason why a connection ends.
const GOODBYE: Duration = Duration::from_secs(1);
/// A client has sent nothing for longer than its keep alive allows.
const SILENT: Malformed = Malformed { why: "silence", code: reason::KEEP_ALIVE };

/// An event of a connection.
#[derive(Debug)]
pub enum Event {
    /// A client has connected; its packets go here.
    Opened(u64, Box<Connect>, mpsc::Sender<Queued>),
    /// It has sent a packet, with the room of a message of QoS 1 or 2.
    Received(u64, Packet, Room),
    /// It has sent something else; the reason code.
    Refused(u64, u8),
    /// The connection is over.
    Closed(u64),
}

/// A packet that waits for a client, with the memory that it is counted for.
#[derive(Debug)]
pub struct Queued {
    packet: Packet,
    _held: Arc<Held>,
}

/// Where packets of a connection go.
struct Connection {
    packets: mpsc::Sender<Queued>,
    /// Memory for those that wait.
    memory: Outflow,
}

/// The port, and its connections.
pub struct Server {
    events: mpsc::Receiver<Event>,
    connections: HashMap<u64, Connection>,
    /// Memory for messages of QoS 1 and 2 of all clients.
    inflow: Inflow,
    /// Whether the last report said that it is full.
    is_full: bool,
    /// Messages of QoS 0 that slow clients have missed, and slow clients that were disconnected.
    missed: u64,
    disconnected: u64,
    /// The last connection that could not be accepted, and the time from which one is reported.
    unaccepted: Arc<Mutex<Option<io::Error>>>,
    report_at: Option<Instant>,
    /// Connections that have ended because of what their clients have sent.
    refusals: Refusals,
}

/// What all connections have.
#[derive(Clone)]
struct Shared {
    events: mpsc::Sender<Event>,
    inflow: Inflow,
    refusals: Refusals,
}

impl Server {
    /// Serves clients of this port.
    pub fn new(listener: TcpListener) -> Self {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let shared =
            Shared { events: sender, inflow: Inflow::default(), refusals: Refusals::default() };
        let (inflow, refusals) = (shared.inflow.clone(), shared.refusals.clone());
        let unaccepted = Arc::default();
        tokio::spawn(accept(listener, shared, Arc::clone(&unaccepted)));
        Self {
            events,
            connections: HashMap::new(),
            inflow,
            is_full: false,
            missed: 0,
            disconnected: 0,
            unaccepted,
            report_at: None,
            refusals,
        }
    }

    /// What to report: each time that the memory for messages of clients gets full, what slow
    /// clients have missed since the last call, and connections that were refused.
    pub fn report(&mut self) -> Vec<String> {
        let (missed, disconnected) =
            (std::mem::take(&mut self.missed), std::mem::take(&mut self.disconnected));
        let limit = format!("{MAX_PACKETS} packets or {} MiB wait for it", MAX_BYTES >> 20);
        let missed = (missed > 0)
            .then(|| format!("{missed} messages of QoS 0 to a client were dropped: {limit}"));
        let disconnected = (disconnected > 0)
            .then(|| format!("{disconnected} slow clients were disconnected: {limit}"));
        let unaccepted = self.report_unaccepted();
        let reports = [self.report_full(), missed, disconnected, unaccepted];
        reports.into_iter().flatten().chain(self.refusals.report()).collect()
    }

    /// Connections that cannot be accepted, once a minute.
    fn report_unaccepted(&mut self) -> Option<String> {
        let is_due = self.report_at.is_none_or(|at| Instant::now() >= at);
        let error = self.unaccepted.lock().unwrap_or_else(PoisonError::into_inner).take();
        let error = error.filter(|_| is_due)?;
        self.report_at = Some(Instant::now() + REPORT_EVERY);
        Some(format!(
            "a connection of a client could not be accepted: {error}. If too many files are open, raise the \
             limit (ulimit -n)"
        ))
    }

    fn report_full(&mut self) -> Option<String> {
        let was_full = std::mem::replace(&mut self.is_full, self.inflow.is_full());
        (self.is_full && !was_full).then(|| {
            format!(
                "clients that publish with QoS 1 or 2 have to wait: {} MiB of their messages are not \
                 delivered",
                self.inflow.used() >> 20
            )
        })
    }

    /// The next event.
    pub async fn next(&mut self) -> Option<Event> {
        let event = self.events.recv().await?;
        match &event {
            Event::Opened(connection, _, packets) => {
                let (packets, memory) = (packets.clone(), Outflow::of(MAX_BYTES));
                self.connections.insert(*connection, Connection { packets, memory });
            }
            Event::Closed(connection) => drop(self.connections.remove(connection)),
            Event::Received(..) | Event::Refused(..) => {}
        }
        Some(event)
    }

    /// Sends a packet. Of a client that does not read, the connection ends, except for QoS 0, which
    /// it misses.
    pub fn send(&mut self, connection: u64, packet: Packet) {
        let Some(Connection { packets, memory }) = self.connections.get(&connection) else {
            return;
        };
        let (size, unsure) = match &packet {
            Packet::Publish(publish) => (publish.message.size(), publish.message.qos == 0),
            _ => (0, false),
        };
        if let Some(_held) = memory.hold(size + OVERHEAD) {
            match packets.try_send(Queued { packet, _held }) {
                // A connection that has ended is not slow.
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => return,
                Err(mpsc::error::TrySendError::Full(_)) => {}
            }
        }
        if unsure {
            self.missed += 1;
        } else {
            self.disconnected += 1;
            self.close(connection);
        }
    }

    /// Closes a connection after what was sent on it.
    pub fn close(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }
}

async fn accept(listener: TcpListener, shared: Shared, unaccepted: Arc<Mutex<Option<io::Error>>>) {
    for number in 1.. {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                *unaccepted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                // Too many open files: others may close some.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let shared = shared.clone();
        tokio::spawn(async move {
            // The gateway learns why by the end of the connection.
            serve(stream, from, number, &shared).await;
            let _ = shared.events.send(Event::Closed(number)).await;
        });
    }
}

async fn serve(stream: TcpStream, from: SocketAddr, number: u64, shared: &Shared) {
    let Shared { events, inflow, refusals } = shared;
    let (read, write) = stream.into_split();
    let mut packets = Packets::new(read);
    let connect = match timeout(FIRST, packets.next()).await {
        Ok(Ok(Packet::Connect(connect))) => connect,
        // Before a CONNECT, no version is known in which to answer.
        Ok(Err(End::Refused(why))) => return refusals.record(from, None, &packets.explain(why)),
        _ => return,
    };
    let (level, keep_alive, client) = (connect.level, connect.keep_alive, connect.client.clone());
    // One and a half times the keep alive (3.1.2.10).
    let silence = Duration::from_millis(u64::from(keep_alive) * 1_500);
    let silence = if silence.is_zero() { Duration::MAX } else { silence };
    let open = Arc::new(Unacknowledged::default());
    let (sender, receiver) = mpsc::channel(MAX_PACKETS);
    if events.send(Event::Opened(number, connect, sender)).await.is_err() {
        return;
    }
    let mut writer = std::pin::pin!(write_all(write, receiver, open.clone(), level));
    let reader = async {
        loop {
            let packet = match timeout(silence, packets.next()).await {
                Ok(packet) => packet?,
                Err(_) => return Err::<(), End>(SILENT.into()),
            };
            let mut room = Room::default();
            match &packet {
                Packet::Publish(publish) if publish.message.qos > 0 => {
                    open.begin(publish.id).await;
                    room = inflow.take(publish.message.size()).await;
                }
                Packet::Subscribe { id, .. } => open.begin(*id).await,
                _ => {}
            }
            events.send(Event::Received(number, packet, room)).await.map_err(|_| End::Lost)?;
        }
    };
    let ended = tokio::select! {
        _ = &mut writer => return,
        ended = reader => ended,
    };
    let Err(End::Refused(why)) = ended else { return };
    // Clients fall silent each time that they lose power.
    if why != SILENT {
        refusals.record(from, Some(&client), &packets.explain(why));
    }
    // By way of the gateway, so that the reason follows the answers to earlier packets.
    if events.send(Event::Refused(number, why.code)).await.is_ok() {
        let _ = timeout(GOODBYE, writer).await;
    }
}

/// Messages of a client with QoS 1 or 2, and subscriptions, that the gateway has not acknowledged. A
/// client that
/// publishes faster than the path carries is not read further: TCP slows it down.
#[derive(Debug)]
struct Unacknowledged {
    places: Semaphore,
    ids: Mutex<HashSet<u16>>,
}

impl Default for Unacknowledged {
    fn default() -> Self {
        Self { places: Semaphore::new(MAX_OPEN), ids: Mutex::default() }
    }
}

impl Unacknowledged {
    /// Waits until there is a place for the message. A message that the client sends again takes no
    /// second one: both get one acknowledgement.
    async fn begin(&self, id: u16) {
        let is_new = self.ids.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        if is_new {
            // The semaphore is never closed.
            if let Ok(place) = self.places.acquire().await {
                place.forget();
            }
        }
    }

    /// Frees the place of the message that `packet` acknowledges.
    fn end(&self, packet: &Packet) {
        let (Packet::PubAck(Ack { id, .. })
        | Packet::PubRec(Ack { id, .. })
        | Packet::SubAck { id, .. }) = packet
        else {
            return;
        };
        if self.ids.lock().unwrap_or_else(PoisonError::into_inner).remove(id) {
            self.places.add_permits(1);
        }
    }
}

/// Writes what the gateway sends, until it closes the connection or a DISCONNECT is written.
async fn write_all(
    mut stream: OwnedWriteHalf,
    mut packets: mpsc::Receiver<Queued>,
    open: Arc<Unacknowledged>,
    level: u8,
) -> io::Result<()> {
    let mut is_over = false;
    while !is_over && let Some(packet) = packets.recv().await {
        let (mut next, mut bytes) = (Some(packet), Vec::new());
        // What waits as well goes in the same segment.
        while let Some(Queued { packet, .. }) = next {
            open.end(&packet);
            bytes.extend(packet.encode(level));
            is_over = matches!(packet, Packet::Disconnect { .. });
            let has_room = bytes.len() < READ && !is_over;
            next = has_room.then(|| packets.try_recv().ok()).flatten();
        }
        stream.write_all(&bytes).await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{MOST, OVERHEAD};
    use crate::message::Message;
    use crate::packet::{MQTT_5, Publish};

    #[test]
    fn a_message_that_is_sent_again_takes_no_second_place() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let open = Unacknowledged::default();
            // Would wait for ever for a second place.
            for _ in 0..2 * MAX_OPEN {
                open.begin(7).await;
            }
            assert_eq!(open.places.available_permits(), MAX_OPEN - 1);
            open.end(&Packet::PubAck(Ack::new(8)));
            assert_eq!(open.places.available_permits(), MAX_OPEN - 1);
            for kind in [Packet::PubRec, Packet::PubAck, Packet::PubComp] {
                open.end(&kind(Ack::new(7)));
                assert_eq!(open.places.available_permits(), MAX_OPEN);
            }
            open.begin(7).await;
            assert_eq!(open.places.available_permits(), MAX_OPEN - 1);
        });
    }

    /// What failed before: each connection could have 256 MB of messages on their way.
    #[test]
    fn messages_of_all_connections_are_limited_in_bytes() {
        const BYTES: usize = 200_000;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut server = Server::new(listener);
            let (topic, payload) = ("t".to_owned(), vec![0; BYTES].into());
            let message = Message { topic, payload, qos: 1, ..Message::default() };
            for level in [4, MQTT_5] {
                let client = level.to_string();
                let connect = Connect { level, client, clean: true, ..Connect::default() };
                let mut stream = TcpStream::connect(address).await.unwrap();
                let first = Packet::Connect(Box::new(connect));
                stream.write_all(&first.encode(level)).await.unwrap();
                let message = message.clone();
                tokio::spawn(async move {
                    for id in 1..=250 {
                        let message = message.clone();
                        let packet = Packet::Publish(Publish { id, message, ..Publish::default() });
                        stream.write_all(&packet.encode(level)).await.unwrap();
                    }
                    std::future::pending::<()>().await;
                });
            }
            let mut rooms = Vec::new();
            let fit = MOST / (message.size() + OVERHEAD);
            while rooms.len() < fit {
                if let Some(Event::Received(_, _, room)) = server.next().await {
                    rooms.push(room);
                }
            }
            let reports = server.report();
            assert!(reports.len() == 1 && reports[0].contains("have to wait"), "{reports:?}");
            assert_eq!(server.report(), Vec::<String>::new(), "reported once");
            let further = timeout(Duration::from_millis(300), server.next()).await;
            assert!(further.is_err(), "{further:?}");
            // Delivered messages make room for the others.
            rooms.clear();
            let mut rest = 500 - fit;
            while rest > 0 {
                rest -= usize::from(matches!(server.next().await, Some(Event::Received(..))));
            }
            assert_eq!((server.inflow.used(), server.report()), (0, Vec::new()));
        });
    }

    /// What failed before: clients could not connect, and nothing said so.
    #[test]
    fn a_connection_that_cannot_be_accepted_is_reported_once_a_minute() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut server = Server::new(TcpListener::bind("127.0.0.1:0").await.unwrap());
            let fail = |server: &mut Server| {
                let error = io::Error::other("too many open files");
                *server.unaccepted.lock().unwrap() = Some(error);
                server.report()
            };
            assert_eq!(server.report(), Vec::<String>::new());
            let reports = fail(&mut server);
            assert!(
                reports.len() == 1 && reports[0].contains("too many open files"),
                "{reports:?}"
            );
            assert_eq!(fail(&mut server), Vec::<String>::new());
            server.report_at = server.report_at.map(|at| at - REPORT_EVERY);
            assert_eq!(fail(&mut server).len(), 1);
        });
    }

    /// What failed before: 4,096 messages of 256 KiB could wait for a client that does not read.
    #[test]
    fn packets_for_a_slow_client_are_limited_in_bytes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut server = Server::new(listener);
            let (sender, mut receiver) = mpsc::channel(MAX_PACKETS);
            let connection = Connection { packets: sender, memory: Outflow::of(MAX_BYTES) };
            server.connections.insert(1, connection);
            let payload: Arc<[u8]> = vec![0; 200_000].into();
            let publish = |qos| {
                let message = Message { payload: payload.clone(), qos, ..Message::default() };
                Packet::Publish(Publish { message, ..Publish::default() })
            };
            (0..100).for_each(|_| server.send(1, publish(0)));
            let mut waiting = 0;
            while receiver.try_recv().is_ok() {
                waiting += 1;
            }
            assert_eq!(waiting, MAX_BYTES / (200_000 + OVERHEAD));
            let reports = server.report();
            let dropped = format!("{} messages of QoS 0", 100 - waiting);
            assert!(reports.len() == 1 && reports[0].starts_with(&dropped), "{reports:?}");
            // What the client has read makes room; a message that it must not miss ends the connection.
            (0..100).for_each(|_| server.send(1, publish(1)));
            let reports = server.report();
            assert!(reports[0].starts_with("1 slow clients were disconnected"), "{reports:?}");
            assert!(!server.connections.contains_key(&1));
        });
    }
}
