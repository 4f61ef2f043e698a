//! OPC UA server, in the source.

use super::events::{self, Events};
use super::{LIFETIME_MS, NAMESPACE, identifier, share, status};
use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::log::Receipts;
use crate::exchange::protocol::Server;
use crate::exchange::watch::Watch;
use open62541_sys::*;
use record::Opcua;
use record::spec::ExchangeSpec;
use std::ffi::c_void;
use std::net::SocketAddr;
use std::ptr;

const TYPE_BYTE_STRING: u32 = 15;
/// Maximum number of concurrent clients; open62541's limit is lower.
const MAX_CLIENTS: u16 = 10_000;

pub(in crate::protocols) fn server(
    spec: &ExchangeSpec,
    options: &Opcua,
) -> Result<Box<dyn Server>, Error> {
    let body = Body::new(spec.seed, spec.longest());
    let payloads =
        Box::new(Payloads { body, sizes: spec.sizes.clone(), variables: options.variables });
    let events = Events::start()?;
    let url = format!("opc.tcp://{}", SocketAddr::from((spec.address, spec.port)));
    let raw = make(&events, &payloads, spec.port, &url)?;
    let source = Source { raw, events, payloads };
    source.add_variables()?;
    // SAFETY: the server is complete.
    match unsafe { UA_Server_run_startup(raw) } {
        UA_STATUSCODE_GOOD => Ok(Box::new(source)),
        status => Err(Error::protocol(
            &format!("listen at {url}"),
            format!("{}; the address must be this node's, and the port free", status::name(status)),
        )),
    }
}

/// Contents of the variables.
struct Payloads {
    body: Body,
    sizes: Vec<usize>,
    variables: u32,
}

impl Payloads {
    /// Value of a variable.
    fn value(&self, identifier: u32) -> Option<Vec<u8>> {
        let number = identifier.checked_sub(1)?;
        let (place, part) = (number / self.variables, number % self.variables);
        let size = *self.sizes.get(place as usize)?;
        let mut payload = self.body.message(None, size);
        let share = share(size, self.variables, part);
        payload.truncate(share.end);
        payload.drain(..share.start);
        Some(payload)
    }
}

struct Source {
    raw: *mut UA_Server,
    events: Events,
    /// Boxed, because open62541 keeps its address as long as the server lives.
    payloads: Box<Payloads>,
}

/// Creates a server without variables.
fn make(
    events: &Events,
    payloads: &Payloads,
    port: u16,
    url: &str,
) -> Result<*mut UA_Server, Error> {
    let failed = |why: String| Error::protocol("create an OPC UA server", why);
    let mut url = url.as_bytes().to_vec();
    // SAFETY: open62541 expects an all-zero configuration as the start; each value set is created
    // by open62541 or outlives the server, which takes over the configuration.
    unsafe {
        let mut config: UA_ServerConfig = std::mem::zeroed();
        config.context = ptr::from_ref(payloads).cast_mut().cast();
        config.logging = events::log();
        config.eventLoop = events.raw();
        config.externalEventLoop = true;
        let none = ptr::null();
        // After the event loop and the logger, which it would create itself; without a certificate,
        // and with the usual buffer sizes (0).
        let status = UA_ServerConfig_setMinimalCustomBuffer(&raw mut config, port, none, 0, 0);
        if status != UA_STATUSCODE_GOOD {
            return Err(failed(status::name(status)));
        }
        if config.serverUrlsSize == 1 {
            let text = &raw const UA_TYPES[UA_TYPES_STRING as usize];
            // The default URL listens at all addresses of the node.
            UA_clear(config.serverUrls.cast(), text);
            let url = events::text(&mut url);
            UA_copy((&raw const url).cast(), config.serverUrls.cast(), text);
        }
        config.maxSecureChannels = MAX_CLIENTS;
        config.maxSessions = MAX_CLIENTS;
        // The server may shorten what the client requests.
        config.maxSecurityTokenLifetime = LIFETIME_MS;
        config.maxSessionTimeout = f64::from(LIFETIME_MS);
        let raw = UA_Server_newWithConfig(&raw mut config);
        if raw.is_null() { Err(failed("no memory".into())) } else { Ok(raw) }
    }
}

impl Source {
    fn add_variables(&self) -> Result<(), Error> {
        for place in 0..self.payloads.sizes.len() {
            for part in 0..self.payloads.variables {
                self.add_variable(identifier(place, self.payloads.variables, part))?;
            }
        }
        Ok(())
    }

    fn add_variable(&self, identifier: u32) -> Result<(), Error> {
        const PARENTS: (u32, u32, u32) =
            (UA_NS0ID_OBJECTSFOLDER, UA_NS0ID_ORGANIZES, UA_NS0ID_BASEDATAVARIABLETYPE);
        let mut name = identifier.to_string().into_bytes();
        // SAFETY: the attributes are a copy of open62541's defaults and own nothing; open62541
        // copies all arguments.
        let status = unsafe {
            let mut attributes = ptr::read(&raw const UA_VariableAttributes_default);
            attributes.dataType = UA_NODEID_NUMERIC(0, TYPE_BYTE_STRING);
            let name =
                UA_QualifiedName { namespaceIndex: NAMESPACE, name: events::text(&mut name) };
            UA_Server_addCallbackValueSourceVariableNode(
                self.raw,
                UA_NODEID_NUMERIC(NAMESPACE, identifier),
                UA_NODEID_NUMERIC(0, PARENTS.0),
                UA_NODEID_NUMERIC(0, PARENTS.1),
                name,
                UA_NODEID_NUMERIC(0, PARENTS.2),
                attributes,
                UA_CallbackValueSource { read: Some(read), write: None },
                identifier as usize as *mut c_void,
                ptr::null_mut(),
            )
        };
        match status {
            UA_STATUSCODE_GOOD => Ok(()),
            status => Err(Error::protocol(
                &format!("add variable {identifier} to the OPC UA server"),
                status::name(status),
            )),
        }
    }
}

impl Server for Source {
    fn serve(&mut self, watch: &mut Watch<'_>, _: &mut Receipts) -> Result<(), Error> {
        watch.ready()?;
        loop {
            self.events.turn();
            let fd = self.events.descriptor();
            let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            if watch.wait(&mut set, Some(self.events.next())).is_err() {
                return Ok(());
            }
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: created by open62541 and not freed before; both calls accept a server that was
        // never started.
        unsafe {
            UA_Server_run_shutdown(self.raw);
            UA_Server_delete(self.raw);
        }
    }
}

/// Generates the value of a variable.
unsafe extern "C" fn read(
    server: *mut UA_Server,
    _session: *const UA_NodeId,
    _session_context: *mut c_void,
    _node: *const UA_NodeId,
    identifier: *mut c_void,
    with_time: bool,
    _range: *const UA_NumericRange,
    value: *mut UA_DataValue,
) -> UA_StatusCode {
    // SAFETY: the context lives as long as the server; the value belongs to open62541 and is
    // filled with copies.
    unsafe {
        let payloads = (*UA_Server_getConfig(server)).context.cast::<Payloads>();
        let Some(mut bytes) = (*payloads).value(identifier as usize as u32) else {
            return UA_STATUSCODE_BADNODEIDUNKNOWN;
        };
        let bytes = events::text(&mut bytes);
        let kind = &raw const UA_TYPES[UA_TYPES_BYTESTRING as usize];
        let copied =
            UA_Variant_setScalarCopy(&raw mut (*value).value, (&raw const bytes).cast(), kind);
        if copied != UA_STATUSCODE_GOOD {
            return copied;
        }
        (*value).set_hasValue(true);
        if with_time {
            (*value).sourceTimestamp = UA_DateTime_now();
            (*value).set_hasSourceTimestamp(true);
        }
        UA_STATUSCODE_GOOD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_hold_a_payload_together() {
        let body = Body::new(3, 100);
        let payloads = Payloads { body: body.clone(), sizes: vec![0, 100, 7], variables: 3 };
        for (place, size) in [(0, 0), (1, 100), (2, 7)] {
            let parts = (0..3).map(|part| payloads.value(identifier(place, 3, part)).unwrap());
            assert_eq!(parts.collect::<Vec<_>>().concat(), body.message(None, size));
        }
        assert_eq!(payloads.value(0), None);
        assert_eq!(payloads.value(10), None);
    }
}
