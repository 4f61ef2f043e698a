//! A device: a server of CoAP and HTTP whose resources take as long as they are told to.

mod check;
mod coap;
mod echo;
mod http;
mod mischief;
mod queue;
mod station;
mod timers;

pub use check::{Checked, check};
#[cfg(feature = "fuzzing")]
pub(crate) use coap::Transfers;
#[cfg(feature = "fuzzing")]
pub(crate) use http::{Head, parse as head};
pub use mischief::Mischief;
pub(crate) use station::spend;
pub use station::{Served, ServedResource};

use crate::clock;
use crate::socket::{Batch, Datagrams};
use coap::CoapServer;
use queue::Queue;
use station::Station;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use timers::Timers;
use trace::{Distribution, Resource};

/// What a device is.
#[derive(Debug, Clone)]
pub struct DeviceSettings {
    /// Where it serves CoAP over UDP.
    pub coap: Option<SocketAddr>,
    /// Where it serves HTTP/1.1.
    pub http: Option<SocketAddr>,
    /// Where it returns datagrams.
    pub udp: Option<SocketAddr>,
    /// Where it returns the bytes of connections.
    pub tcp: Option<SocketAddr>,
    /// Its resources.
    pub resources: Vec<Resource>,
    /// Threads that serve: so many requests are served at once.
    pub threads: usize,
    /// So many more may wait; further ones are refused (5.03, 503).
    pub queue: usize,
    /// Bytes of an answer.
    pub payload: usize,
    /// When the values of its resources change while they are observed over CoAP (RFC 7641):
    /// the time from one change to the next. None lets nothing be observed.
    pub notify: Option<Distribution>,
    /// What it does wrong on purpose.
    pub mischief: Mischief,
    /// The core that its threads stay on.
    pub core: Option<usize>,
    /// Look for requests all the time, and never sleep.
    pub spin: bool,
    /// The seed of service times and of what is done wrong.
    pub seed: u64,
}

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Nothing to do.
    #[error("the device has no server address: add one, for example --coap 0.0.0.0:5683")]
    Nowhere,
    /// An address that it cannot have.
    #[error("could not serve {what} at {address}: {source}{}", hint(source))]
    Address {
        /// The protocol.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A thread that does not start.
    #[error("could not start a thread of the device: {0}")]
    Thread(io::Error),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program uses this port: use another one",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need root",
        io::ErrorKind::AddrNotAvailable => "; this machine or node does not have this address",
        _ => "",
    }
}

/// Serves until `stop`; `ready` hears the protocols and their addresses as soon as
/// requests can come.
pub fn serve(
    settings: &DeviceSettings,
    stop: &AtomicBool,
    ready: impl FnOnce(&[(&'static str, SocketAddr)]),
) -> Result<Served, DeviceError> {
    let mut addresses = Vec::new();
    let coap = datagrams("coap", settings.coap, &mut addresses)?;
    let udp = datagrams("udp", settings.udp, &mut addresses)?;
    let http = listener("http", settings.http, &mut addresses)?;
    let tcp = listener("tcp", settings.tcp, &mut addresses)?;
    if addresses.is_empty() {
        return Err(DeviceError::Nowhere);
    }
    let station = Station::new(settings);
    let queue = Queue::new(settings.queue + settings.threads);
    let timers = Timers::default();
    let coap = coap.map(|socket| CoapServer::new(socket, settings, &station, &queue, &timers));
    thread::scope(|scope| {
        let core = settings.core;
        let (station, queue, timers) = (&station, &queue, &timers);
        let (coap, udp) = (coap.as_ref(), udp.as_ref());
        for i in 0..settings.threads.max(1) {
            let work = move || queue::work(queue, station, coap);
            start(scope, core, &format!("server-{i}"), work)?;
        }
        if let Some(server) = coap {
            start(scope, core, "coap", move || server.receive(settings.spin, stop))?;
            start(scope, core, "timers", move || {
                let mut out = Batch::new(2_048);
                timers.run(stop, |task| server.work(task, &mut out));
            })?;
        }
        if let Some(socket) = udp {
            start(scope, core, "udp", move || echo::datagrams(socket, settings.spin, stop))?;
        }
        if let Some(listener) = http {
            start(scope, core, "http", move || http::accept(&listener, station, queue, stop))?;
        }
        if let Some(listener) = tcp {
            start(scope, core, "tcp", move || echo::streams(&listener, stop))?;
        }
        ready(&addresses);
        while !stop.load(Relaxed) {
            thread::sleep(Duration::from_millis(20));
        }
        queue.close();
        Ok(())
    })?;
    Ok(station.served())
}

/// Starts a thread, on the device's core if it has one.
fn start<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    core: Option<usize>,
    name: &str,
    run: impl FnOnce() + Send + 'scope,
) -> Result<(), DeviceError> {
    let placed = move || {
        // What may not be, the check at the start has said.
        let _ = clock::place(core);
        run();
    };
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, placed).map(drop).map_err(DeviceError::Thread)
}

fn datagrams(
    what: &'static str,
    address: Option<SocketAddr>,
    addresses: &mut Vec<(&'static str, SocketAddr)>,
) -> Result<Option<Datagrams>, DeviceError> {
    let Some(address) = address else { return Ok(None) };
    let wrong = |source| DeviceError::Address { what, address, source };
    let socket = Datagrams::bind(address).map_err(wrong)?;
    // What others ask a group is not asked of this device.
    socket.ignore_groups(address.is_ipv4());
    addresses.push((what, socket.local().map_err(wrong)?));
    Ok(Some(socket))
}

fn listener(
    what: &'static str,
    address: Option<SocketAddr>,
    addresses: &mut Vec<(&'static str, SocketAddr)>,
) -> Result<Option<TcpListener>, DeviceError> {
    let Some(address) = address else { return Ok(None) };
    let wrong = |source| DeviceError::Address { what, address, source };
    let listener = TcpListener::bind(address).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    addresses.push((what, listener.local_addr().map_err(wrong)?));
    Ok(Some(listener))
}
