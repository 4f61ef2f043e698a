//! The sink, which drives: one Read per exchange.

use super::client::{Client, poll};
use super::events::Events;
use crate::error::Error;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::outcome::Outcome;
use crate::exchange::protocol::{Connecting, Driver, Protocol, Turn};
use crate::exchange::sections::Section;
use crate::exchange::watch::Watch;
use record::spec::ExchangeSpec;
use record::{Connection, Opcua};
use std::ffi::CString;
use std::net::SocketAddr;
use units::Instant;

/// Maximum time of the final disconnect, in ms.
const DISCONNECT_TIMEOUT_MS: u32 = 500;

pub(in crate::protocols) fn driver(
    spec: &ExchangeSpec,
    options: &Opcua,
) -> Result<Box<dyn Driver>, Error> {
    let url = format!("opc.tcp://{}", SocketAddr::from((spec.peers[0].address, spec.port)));
    let url = CString::new(url).map_err(|error| Error::protocol("name the server", error))?;
    let (sizes, options) = (spec.sizes.clone(), options.clone());
    let sink = Sink { events: Events::start()?, url, sizes, options };
    Ok(Box::new(Connecting::new(sink, spec.connection == Connection::Kept)))
}

struct Sink {
    events: Events,
    url: CString,
    sizes: Vec<usize>,
    options: Opcua,
}

impl Protocol for Sink {
    type Connection = Client;

    fn connect(&mut self, turn: &mut Turn<'_, '_>) -> Result<Client, Failure> {
        Client::connect(&self.events, &self.url, turn)
    }

    fn exchange(
        &mut self,
        turn: &mut Turn<'_, '_>,
        client: &mut Client,
    ) -> Result<Outcome, Failure> {
        // The server has the same list, and numbers its variables by it.
        let place = self.sizes.iter().position(|size| *size == turn.size);
        let place = place.ok_or_else(|| Failure::of(Reason::Other, "an unknown size"))?;
        turn.enter(Section::Payload);
        let reading = client.read(&self.events, place, &self.options, turn)?;
        turn.check(&reading.payload)?;
        Ok(Outcome { received: Some(reading.at) })
    }

    fn close(&mut self, turn: &mut Turn<'_, '_>, client: Client) -> Result<(), Failure> {
        client.disconnect(&self.events, turn)
    }

    fn is_open(&self, client: &Client) -> bool {
        client.is_connected()
    }

    fn rest(
        &mut self,
        kept: &mut Option<Client>,
        watch: &mut Watch<'_>,
        until: Instant,
    ) -> Result<(), Failure> {
        // A kept session must renew its channel.
        while kept.is_some() {
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
            if clock::now() >= until {
                break;
            }
        }
        watch.sleep(until)
    }

    fn tear_down(&mut self, client: Client) {
        client.disconnect_blocking(DISCONNECT_TIMEOUT_MS);
    }
}
