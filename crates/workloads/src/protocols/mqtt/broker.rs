//! A broker of MQTT 3.1.1 for tests: with QoS 0 for subscribers, without wildcards, and with bad
//! manners if wanted.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Types of packets, in the upper four bits of the first byte (MQTT 3.1.1, section 2.2.1).
const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const PUBREL: u8 = 6;
const SUBSCRIBE: u8 = 8;
const PINGREQ: u8 = 12;
const DISCONNECT: u8 = 14;

/// What the broker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// What the standard says.
    Good,
    /// Refuses each connection with this code (section 3.2.2.3).
    Refuses(u8),
    /// Refuses each subscription.
    RefusesSubscriptions,
    /// Closes each connection instead of accepting it.
    Closes,
    /// Answers with bytes that are no packet.
    Garbles,
    /// Accepts messages and never acknowledges them.
    NeverAcknowledges,
    /// Precedes each message with others that do not belong to the workload.
    Babbles,
    /// Precedes each message with one whose last digit is another, as of a second workload.
    Renumbers,
}

/// Topic filters, and the connections that they belong to.
type Subscribers = Arc<Mutex<Vec<(Vec<u8>, TcpStream)>>>;

/// Starts a broker on loopback; returns its port.
pub(crate) fn start(manners: Manners) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let subscribers = Subscribers::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let subscribers = Arc::clone(&subscribers);
            std::thread::spawn(move || serve(stream, manners, &subscribers));
        }
    });
    port
}

fn serve(mut stream: TcpStream, manners: Manners, subscribers: &Subscribers) -> io::Result<()> {
    loop {
        let (first, body) = packet(&mut stream)?;
        match first >> 4 {
            CONNECT => match manners {
                Manners::Refuses(code) => stream.write_all(&[0x20, 2, 0, code])?,
                Manners::Closes => return Ok(()),
                Manners::Garbles => stream.write_all(&[0xff; 40])?,
                _ => stream.write_all(&[0x20, 2, 0, 0])?,
            },
            SUBSCRIBE => {
                let length = usize::from(u16::from_be_bytes([body[2], body[3]]));
                let topic = body[4..4 + length].to_vec();
                let refuses = manners == Manners::RefusesSubscriptions;
                if !refuses {
                    subscribers.lock().unwrap().push((topic, stream.try_clone()?));
                }
                let level = if refuses { 0x80 } else { 0 };
                stream.write_all(&[0x90, 3, body[0], body[1], level])?;
            }
            PUBLISH => publish(&mut stream, manners, subscribers, first, &body)?,
            PUBREL => stream.write_all(&[0x70, 2, body[0], body[1]])?,
            PINGREQ => stream.write_all(&[0xd0, 0])?,
            DISCONNECT => return Ok(()),
            _ => {}
        }
    }
}

/// Passes a message on, and acknowledges it.
fn publish(
    stream: &mut TcpStream,
    manners: Manners,
    subscribers: &Subscribers,
    first: u8,
    body: &[u8],
) -> io::Result<()> {
    let qos = first >> 1 & 3;
    let (length, rest) = body.split_first_chunk::<2>().unwrap();
    let (topic, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)));
    let (id, payload) = rest.split_at(if qos > 0 { 2 } else { 0 });
    for (filter, to) in subscribers.lock().unwrap().iter_mut().filter(|(own, _)| own == topic) {
        if manners == Manners::Babbles {
            to.write_all(&message(filter, &vec![b'9'; payload.len()]))?;
            to.write_all(&message(filter, &[&payload[1..], b"\0"].concat()))?;
            to.write_all(&message(b"another/topic", payload))?;
        }
        if manners == Manners::Renumbers {
            let rest = &payload[..payload.len().saturating_sub(1)];
            to.write_all(&message(filter, &[rest, b"0"].concat()))?;
        }
        to.write_all(&message(filter, payload))?;
    }
    match qos {
        _ if manners == Manners::NeverAcknowledges => Ok(()),
        1 => stream.write_all(&[0x40, 2, id[0], id[1]]),
        2 => stream.write_all(&[0x50, 2, id[0], id[1]]),
        _ => Ok(()),
    }
}

/// A PUBLISH with QoS 0.
fn message(topic: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x30];
    let mut length = 2 + topic.len() + payload.len();
    // Seven bits per byte, the lowest first (section 2.2.3).
    loop {
        let more = if length >= 128 { 0x80 } else { 0 };
        packet.push((length % 128) as u8 | more);
        length /= 128;
        if length == 0 {
            break;
        }
    }
    packet.extend((topic.len() as u16).to_be_bytes());
    packet.extend([topic, payload].concat());
    packet
}

/// The first byte of the next packet, and all after its length.
fn packet(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    let first = byte[0];
    let mut length = 0;
    for place in 0..4 {
        stream.read_exact(&mut byte)?;
        length |= usize::from(byte[0] & 0x7f) << (7 * place);
        if byte[0] < 0x80 {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((first, body))
}
