//! A device: a server for CoAP, HTTP and echo. Its resources answer after configured
//! service times.

mod check;
mod coap;
mod echo;
mod http;
mod misbehaviour;
mod queue;
mod reading;
mod resource_server;
mod settings;
mod timers;
mod work;

#[cfg(feature = "fuzzing")]
pub(crate) use self::coap::Transfers;
pub use check::check;
#[cfg(feature = "fuzzing")]
pub(crate) use http::{Head, parse as head};
pub use misbehaviour::MisbehaviourShares;
pub use reading::is_exhausted;
pub(crate) use resource_server::spend;
pub use settings::DeviceSettings;

use self::coap::CoapServer;
use crate::scheduling;
use crate::socket::{Batch, Datagrams};
use queue::Queue;
use record::event::Served;
use resource_server::ResourceServer;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use timers::Timers;

/// Why a device cannot start.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// No server address.
    #[error("the device has no server address: add one, for example --coap 0.0.0.0:5683")]
    Nowhere,
    /// An address that cannot be bound.
    #[error("could not serve {what} at {address}: {source}{}", hint(source))]
    Address {
        /// The protocol.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// A thread that cannot start.
    #[error("could not start a device thread: {0}")]
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

/// Serves requests until `stop`. Calls `ready` with the protocols and their addresses when
/// requests can arrive. Returns the device's counts.
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
    let resource_server = ResourceServer::new(settings);
    let queue = Queue::new(settings.queue + settings.threads);
    let timers = Timers::default();
    let coap =
        coap.map(|socket| CoapServer::new(socket, settings, &resource_server, &queue, &timers));
    thread::scope(|scope| {
        let core = settings.core;
        let (resource_server, queue, timers) = (&resource_server, &queue, &timers);
        let (coap, udp) = (coap.as_ref(), udp.as_ref());
        for i in 0..settings.threads.max(1) {
            let work = move || work::work(queue, resource_server, coap);
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
            start(scope, core, "http", move || {
                http::accept(&listener, resource_server, queue, stop)
            })?;
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
    Ok(resource_server.served())
}

/// Starts a thread, pinned to the device's core if set.
fn start<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    core: Option<usize>,
    name: &str,
    run: impl FnOnce() + Send + 'scope,
) -> Result<(), DeviceError> {
    let placed = move || {
        // The self-test at the start has reported errors of pinning.
        let _ = scheduling::pin_with_priority(core);
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
    // Requests to a multicast group are not for this device.
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
