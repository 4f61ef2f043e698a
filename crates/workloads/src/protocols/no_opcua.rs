//! Stub for a build without OPC UA.

use crate::error::Error;
use crate::exchange::protocol::{Driver, Server};
use record::Opcua;
use record::spec::ExchangeSpec;

pub(super) fn driver(_: &ExchangeSpec, _: &Opcua) -> Result<Box<dyn Driver>, Error> {
    Err(missing())
}

pub(super) fn server(_: &ExchangeSpec, _: &Opcua) -> Result<Box<dyn Server>, Error> {
    Err(missing())
}

fn missing() -> Error {
    let why = "this build of Thingbed has no OPC UA, because `make run` leaves it out; \
               `make build` includes it";
    Error::protocol("use the protocol opcua", why)
}
