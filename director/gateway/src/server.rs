//! The MQTT port: connections of clients.

use crate::budget::{Inflow, Room};
use crate::packet::{Connect, MAX_PACKET, Packet};
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// Maximum number of messages and subscriptions of a connection that are not acknowledged; then it is not read.
const MAX_OPEN: usize = 1_000;
/// Maximum number of packets that wait for a slow client; then it is disconnected.
const MAX_PACKETS: usize = 4_096;
/// Maximum number of events that wait for the gateway.
const MAX_EVENTS: usize = 256;
/// Time for the first packet.
const FIRST: Duration = Duration::from_secs(10);
/// Size of a read, in bytes.
const READ: usize = 4_096;

/// An event of a connection.
#[derive(Debug)]
pub enum Event {
    /// A client has connected; its packets go here.
    Opened(u64, Connect, mpsc::Sender<Packet>),
    /// It has sent a packet, with the room of a message of QoS 1 or 2.
    Received(u64, Packet, Room),
    /// The connection is over.
    Closed(u64),
}

/// The port, and its connections.
pub struct Server {
    events: mpsc::Receiver<Event>,
    connections: HashMap<u64, mpsc::Sender<Packet>>,
    /// Memory for messages of QoS 1 and 2 of all clients.
    inflow: Inflow,
    /// Whether the last report said that it is full.
    is_full: bool,
}

impl Server {
    /// Serves clients of this port.
    pub fn new(listener: TcpListener) -> Self {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let inflow = Inflow::default();
        tokio::spawn(accept(listener, sender, inflow.clone()));
        Self { events, connections: HashMap::new(), inflow, is_full: false }
    }

    /// What to report, once each time that the memory for messages of clients gets full.
    pub fn report(&mut self) -> Option<String> {
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
                self.connections.insert(*connection, packets.clone());
            }
            Event::Closed(connection) => drop(self.connections.remove(connection)),
            Event::Received(..) => {}
        }
        Some(event)
    }

    /// Sends a packet. Of a client that does not read, the connection ends, except for QoS 0, which
    /// it misses.
    pub fn send(&mut self, connection: u64, packet: Packet) {
        let Some(packets) = self.connections.get(&connection) else { return };
        let unsure = matches!(&packet, Packet::Publish { message, .. } if message.qos == 0);
        if packets.try_send(packet).is_err() && !unsure {
            self.close(connection);
        }
    }

    /// Closes a connection after what was sent on it.
    pub fn close(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }
}

async fn accept(listener: TcpListener, events: mpsc::Sender<Event>, inflow: Inflow) {
    for number in 1.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files: others may close some.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (events, inflow) = (events.clone(), inflow.clone());
        tokio::spawn(async move {
            // The gateway learns why by the end of the connection.
            let _ = serve(stream, number, &events, &inflow).await;
            let _ = events.send(Event::Closed(number)).await;
        });
    }
}

/// Packets from a client.
struct Packets {
    stream: OwnedReadHalf,
    buffer: Vec<u8>,
}

impl Packets {
    async fn next(&mut self) -> io::Result<Packet> {
        loop {
            let decoded = Packet::decode(&self.buffer);
            let malformed = |error: crate::packet::Malformed| io::Error::other(error.0);
            if let Some((packet, length)) = decoded.map_err(malformed)? {
                self.buffer.drain(..length);
                return Ok(packet);
            }
            let mut more = [0; READ];
            let length = self.stream.read(&mut more).await?;
            if length == 0 || self.buffer.len() > MAX_PACKET + READ {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.buffer.extend(&more[..length]);
        }
    }
}

async fn serve(
    stream: TcpStream,
    number: u64,
    events: &mpsc::Sender<Event>,
    inflow: &Inflow,
) -> io::Result<()> {
    let (read, write) = stream.into_split();
    let mut packets = Packets { stream: read, buffer: Vec::new() };
    let first = timeout(FIRST, packets.next()).await??;
    let Packet::Connect(connect) = first else {
        return Err(io::Error::other("the first packet is not CONNECT"));
    };
    // One and a half times the keep alive (3.1.2.10).
    let silence = Duration::from_millis(u64::from(connect.keep_alive) * 1_500);
    let silence = if silence.is_zero() { Duration::MAX } else { silence };
    let open = Arc::new(Unacknowledged::default());
    let (sender, receiver) = mpsc::channel(MAX_PACKETS);
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    events.send(Event::Opened(number, connect, sender)).await.map_err(|_| gone())?;
    let writer = write_all(write, receiver, open.clone());
    let reader = async {
        loop {
            let packet = timeout(silence, packets.next()).await??;
            let room = match &packet {
                Packet::Publish { id, message, .. } if message.qos > 0 => {
                    open.begin(*id).await;
                    inflow.take(message.size()).await
                }
                Packet::Subscribe { id, .. } => {
                    open.begin(*id).await;
                    Room::default()
                }
                _ => Room::default(),
            };
            events.send(Event::Received(number, packet, room)).await.map_err(|_| gone())?;
        }
    };
    tokio::select! {
        ended = writer => ended,
        ended = reader => ended,
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
        let (Packet::PubAck(id) | Packet::PubRec(id) | Packet::SubAck { id, .. }) = packet else {
            return;
        };
        if self.ids.lock().unwrap_or_else(PoisonError::into_inner).remove(id) {
            self.places.add_permits(1);
        }
    }
}

/// Writes what the gateway sends, until it closes the connection.
async fn write_all(
    mut stream: OwnedWriteHalf,
    mut packets: mpsc::Receiver<Packet>,
    open: Arc<Unacknowledged>,
) -> io::Result<()> {
    while let Some(packet) = packets.recv().await {
        open.end(&packet);
        let mut bytes = packet.encode();
        // What waits as well goes in the same segment.
        while bytes.len() < READ
            && let Ok(packet) = packets.try_recv()
        {
            open.end(&packet);
            bytes.extend(packet.encode());
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
            open.end(&Packet::PubAck(8));
            assert_eq!(open.places.available_permits(), MAX_OPEN - 1);
            for packet in [Packet::PubRec(7), Packet::PubAck(7), Packet::PubComp(7)] {
                open.end(&packet);
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
            let message = |bytes: usize| Message {
                topic: "t".to_owned(),
                payload: vec![0; bytes].into(),
                qos: 1,
                retain: false,
            };
            for name in ["a", "b"] {
                let client = name.to_owned();
                let connect = Connect { level: 4, client, clean: true, keep_alive: 0, will: None };
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(&Packet::Connect(connect).encode()).await.unwrap();
                tokio::spawn(async move {
                    for id in 1..=250 {
                        let packet =
                            Packet::Publish { duplicate: false, id, message: message(BYTES) };
                        stream.write_all(&packet.encode()).await.unwrap();
                    }
                    std::future::pending::<()>().await;
                });
            }
            let mut rooms = Vec::new();
            let fit = MOST / (message(BYTES).size() + OVERHEAD);
            while rooms.len() < fit {
                if let Some(Event::Received(_, _, room)) = server.next().await {
                    rooms.push(room);
                }
            }
            assert_eq!(server.report().map(|text| text.contains("have to wait")), Some(true));
            assert_eq!(server.report(), None, "reported once");
            let further = timeout(Duration::from_millis(300), server.next()).await;
            assert!(further.is_err(), "{further:?}");
            // Delivered messages make room for the others.
            rooms.clear();
            let mut rest = 500 - fit;
            while rest > 0 {
                rest -= usize::from(matches!(server.next().await, Some(Event::Received(..))));
            }
            assert_eq!((server.inflow.used(), server.report()), (0, None));
        });
    }
}
