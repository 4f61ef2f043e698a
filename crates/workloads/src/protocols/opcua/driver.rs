//! The sink, which drives: one Read per exchange.

use super::client::{Client, poll};
use super::events::Events;
use crate::clock::{Nanos, monotonic_now};
use crate::error::Error;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::protocol::{Driver, Outcome, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use record::spec::ExchangeSpec;
use record::{Connection, Opcua};
use std::ffi::CString;

/// Maximum time of the final disconnect, in ms.
const DISCONNECT_TIMEOUT_MS: u32 = 500;

pub(in crate::protocols) fn driver(
    spec: &ExchangeSpec,
    options: &Opcua,
) -> Result<Box<dyn Driver>, Error> {
    let url = format!("opc.tcp://{}:{}", spec.peers[0].address, spec.port);
    let url = CString::new(url).map_err(|error| Error::protocol("name the server", error))?;
    let (sizes, persistent) = (spec.sizes.clone(), spec.connection == Connection::Kept);
    Ok(Box::new(Sink {
        client: None,
        events: Events::start()?,
        url,
        sizes,
        options: options.clone(),
        persistent,
    }))
}

struct Sink {
    /// Declared before `events`, because fields are dropped in this order.
    client: Option<Client>,
    events: Events,
    url: CString,
    sizes: Vec<usize>,
    options: Opcua,
    persistent: bool,
}

impl Driver for Sink {
    fn set_up(&mut self, turn: &mut Turn<'_, '_>) -> Result<(), Failure> {
        if self.persistent {
            self.client = Some(Client::connect(&self.events, &self.url, turn)?);
        }
        Ok(())
    }

    fn exchange(&mut self, turn: &mut Turn<'_, '_>) -> Result<Outcome, Failure> {
        let place = self.sizes.iter().position(|size| *size == turn.size);
        let place = place.ok_or_else(|| Failure::of(Reason::Other, "an unknown size"))?;
        let mut client = match self.client.take().filter(Client::is_connected) {
            Some(client) => client,
            None => Client::connect(&self.events, &self.url, turn)?,
        };
        turn.enter(Section::Payload);
        let reading = client.read(&self.events, place, &self.options, turn)?;
        turn.check(&reading.payload)?;
        if self.persistent {
            self.client = Some(client);
        } else {
            client.disconnect(&self.events, turn)?;
        }
        Ok(Outcome { received: Some(reading.at) })
    }

    fn rest(&mut self, watch: &mut Watch<'_>, until: Nanos) -> Result<(), Failure> {
        // A kept session must renew its channel.
        while self.client.is_some() {
            self.events.turn();
            let mut set = [poll(self.events.descriptor())];
            let due = self.events.next();
            if due >= until {
                watch.wait(&mut set, Some(until))?;
                if set[0].revents == 0 {
                    break;
                }
            } else {
                watch.wait(&mut set, Some(due))?;
            }
            if monotonic_now() >= until {
                break;
            }
        }
        watch.sleep(until)
    }

    fn tear_down(&mut self) {
        if let Some(client) = &self.client {
            client.disconnect_blocking(DISCONNECT_TIMEOUT_MS);
        }
        self.client = None;
    }
}
