//! The server threads.

use super::coap::CoapServer;
use super::queue::{Job, Queue};
use super::resource_server::ResourceServer;
use crate::socket::Batch;

/// A server thread: one request after another.
pub(crate) fn work(queue: &Queue, resource_server: &ResourceServer, coap: Option<&CoapServer>) {
    let mut out = Batch::new(2_048);
    while let Some(job) = queue.pop() {
        match job {
            Job::Http { resource, done } => {
                resource_server.spend(resource, resource_server.time(resource));
                queue.served();
                let _ = done.send(());
            }
            Job::Coap(pending) => {
                let Some(server) = coap else { return };
                resource_server.spend(pending.resource, resource_server.time(pending.resource));
                // Before the answer: a client that sends its next request at once finds room.
                queue.served();
                server.reply(&pending, &mut out);
                server.send(&mut out);
            }
        }
    }
}
