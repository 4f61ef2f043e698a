//! In place of OPC UA in a build without it.

use super::protocol::{Driver, Server};
use super::spec::ExchangeSpec;
use crate::error::Error;

pub(super) fn driver(_: &ExchangeSpec) -> Result<Box<dyn Driver>, Error> {
    Err(missing())
}

pub(super) fn server(_: &ExchangeSpec) -> Result<Box<dyn Server>, Error> {
    Err(missing())
}

fn missing() -> Error {
    let why = "this build of Thingbed has no OPC UA, since `make run` leaves it out; `make build` \
               builds it in";
    Error::protocol("exchange by opcua", why)
}
