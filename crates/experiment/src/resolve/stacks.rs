//! Resolves options of OPC UA, HTTP and QUIC in exchanges.

use crate::exchange::Exchange;
use crate::file::{HttpKeys, OpcuaKeys, QuicKeys};
use crate::limits::use_range;
use crate::problem::Problem;
use crate::read::{At, Sink};
use crate::source::Place;
use record::{
    CoapTransport, Connection, ExchangeProtocol, Http, HttpMethod, Opcua, Quic, Timestamps,
};

/// Minimum MTU for QUIC, B. RFC 9000 (section 14) requires 1200 B of UDP payload, which fits the
/// minimum MTU of IPv6.
const MIN_MTU: u64 = 1280;

pub(super) fn opcua(keys: &OpcuaKeys, sink: &mut Sink) -> Option<Opcua> {
    let variables = keys.variables.as_ref().map_or(1, |at| at.value);
    if let Some(at) = keys.variables.as_ref().filter(|_| !Opcua::VARIABLES.contains(&variables)) {
        let problem = Problem::new(format!("a Read of {variables} variables")).at(at.place);
        sink.add(problem.label(use_range(&Opcua::VARIABLES)));
        return None;
    }
    let timestamps = keys.timestamps.as_ref().map_or(Timestamps::Source, |at| at.value);
    Some(Opcua { variables, timestamps })
}

pub(super) fn http(keys: &HttpKeys) -> Http {
    Http { method: keys.method.as_ref().map_or(HttpMethod::Get, |at| at.value) }
}

pub(super) fn quic(keys: &QuicKeys) -> Quic {
    let is = |key: &Option<At<bool>>| key.as_ref().is_some_and(|at| at.value);
    Quic { early_data: is(&keys.early_data), mtu_discovery: is(&keys.mtu_discovery) }
}

/// Checks the options against the workload and its network.
pub(super) fn check(it: &Exchange, mtu: Option<u64>, place: Place, sink: &mut Sink) -> bool {
    let wrong = match &it.protocol {
        ExchangeProtocol::Quic(quic) if quic.early_data && it.connection == Connection::Kept => {
            Some(("`early_data` needs new connections".to_owned(), "add `connection: new`"))
        }
        ExchangeProtocol::Quic(_) => mtu.filter(|mtu| *mtu < MIN_MTU).map(|mtu| {
            let text = format!("QUIC on `{}`, whose MTU is {mtu} B", it.network);
            (text, "QUIC needs an MTU of 1280 B or more")
        }),
        ExchangeProtocol::Coap(coap)
            if it.tls.is_some()
                && matches!(coap.transport, CoapTransport::Udp | CoapTransport::Tcp) =>
        {
            let text = "`tls` with coap without DTLS and TLS, so nothing would be encrypted";
            Some((text.to_owned(), "add `transport: dtls` or `transport: tls`, or remove `tls`"))
        }
        ExchangeProtocol::Opcua(_)
        | ExchangeProtocol::Http(_)
        | ExchangeProtocol::Udp
        | ExchangeProtocol::Tcp
            if it.tls.is_some() =>
        {
            Some((
                format!("`tls` with {}", it.protocol.name()),
                "Thingbed does not support TLS here: remove `tls`",
            ))
        }
        _ => None,
    };
    let Some((text, label)) = wrong else { return true };
    sink.add(Problem::new(text).at(place).label(label));
    false
}
