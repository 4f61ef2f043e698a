//! OPC UA client: connect, read and close, as separate steps.

use super::events::{self, Events};
use super::{LIFETIME_MS, NAMESPACE, identifier, status};
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::protocol::Turn;
use crate::exchange::sections::Section;
use open62541_sys::*;
use record::{Opcua, Timestamps};
use std::cell::RefCell;
use std::ffi::{CString, c_void};
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;
use units::Instant;

/// Security policy of a connection without security.
const NONE: &std::ffi::CStr = c"http://opcfoundation.org/UA/SecurityPolicy#None";
const ATTRIBUTE_VALUE: u32 = 13;
/// Connections until a session is open: the server may give other addresses in its discovery
/// response and in its endpoint.
const CONNECTIONS: u32 = 3;
/// Added to open62541's timeout, so that the exchange's timeout expires first.
const TIMEOUT_MARGIN_MS: u64 = 1_000;

/// Result of a Read.
pub(super) struct Reading {
    pub(super) payload: Vec<u8>,
    pub(super) at: Instant,
}

/// Results of open62541's callbacks.
#[derive(Default)]
struct Results {
    /// Completed Reads; the first is open62541's Read of the namespaces.
    reads: u32,
    answer: Option<Result<Reading, Failure>>,
}

/// An open62541 client.
pub(super) struct Client {
    raw: *mut UA_Client,
    socket: RawFd,
    /// open62541 keeps its address as long as the client lives. Not in a `Box`: moving that would make
    /// pointers to what it holds invalid.
    results: Rc<RefCell<Results>>,
}

impl Client {
    /// Connects, and opens a channel and a session.
    pub(super) fn connect(
        events: &Events,
        url: &CString,
        turn: &mut Turn<'_, '_>,
    ) -> Result<Self, Failure> {
        let mut client = Self::make(events)?;
        turn.enter(Section::TransportConnect);
        client.set_exchange_timeout(turn);
        events::allow(CONNECTIONS);
        // SAFETY: the client and the string outlive the call.
        let begun = unsafe { UA_Client_connectAsync(client.raw, url.as_ptr()) };
        let operation = format!("connect to {}", url.to_string_lossy());
        match events::take_socket() {
            Some(socket) => client.socket = socket,
            None => {
                return Err(Failure::of(
                    Reason::Unreachable,
                    format!("{operation}: {}", status::name(begun)),
                ));
            }
        }
        turn.wait(client.socket, libc::POLLOUT)?;
        if let Some(error) = error_of(client.socket) {
            return Err(Failure::io(&operation)(error));
        }
        turn.enter(Section::ProtocolConnect);
        client.until(events, turn, |client| {
            let (session, status) = client.state();
            if status != UA_STATUSCODE_GOOD {
                return Err(status::unopened(status));
            }
            // open62541 first reads the server's namespaces.
            let activated = session == UA_SessionState::UA_SESSIONSTATE_ACTIVATED;
            Ok(activated && client.results.borrow().reads > 0)
        })?;
        // From here on, a lost channel is a failure.
        // SAFETY: the configuration belongs to the client and lives as long.
        unsafe { (*UA_Client_getConfig(client.raw)).noReconnect = true };
        Ok(client)
    }

    /// Creates a client that accepts an endpoint without security.
    fn make(events: &Events) -> Result<Self, Failure> {
        let results = Rc::<RefCell<Results>>::default();
        // SAFETY: open62541 expects an all-zero configuration as the start; each value set is
        // created by open62541 or outlives the client, which takes over the configuration.
        let raw = unsafe {
            let mut config: UA_ClientConfig = std::mem::zeroed();
            config.clientContext = Rc::as_ptr(&results).cast_mut().cast();
            config.logging = events::log();
            config.eventLoop = events.raw();
            // Otherwise the client would free the loop, which all connections share.
            config.externalEventLoop = true;
            config.secureChannelLifeTime = LIFETIME_MS;
            config.requestedSessionTimeout = LIFETIME_MS;
            config.serviceNotificationCallback = Some(on_service);
            config.securityMode = UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_NONE;
            config.securityPolicyUri = UA_String_fromChars(NONE.as_ptr());
            let status = UA_ClientConfig_setDefault(&raw mut config);
            if status != UA_STATUSCODE_GOOD {
                return Err(status::failure("create a client", status));
            }
            UA_Client_newWithConfig(&raw const config)
        };
        match raw.is_null() {
            true => Err(Failure::of(Reason::Other, "create a client: no memory")),
            false => Ok(Self { raw, socket: -1, results }),
        }
    }

    /// Reads all variables of the payload with the size at index `place`.
    pub(super) fn read(
        &mut self,
        events: &Events,
        place: usize,
        options: &Opcua,
        turn: &mut Turn<'_, '_>,
    ) -> Result<Reading, Failure> {
        self.set_exchange_timeout(turn);
        self.results.borrow_mut().answer = None;
        let count = options.variables;
        // SAFETY: all-zero structures are empty ones; the request borrows the list of nodes during
        // the call only, and the result is stored in `results`, which outlives this call.
        let sent = unsafe {
            let mut nodes: Vec<UA_ReadValueId> = (0..count)
                .map(|part| UA_ReadValueId {
                    nodeId: UA_NODEID_NUMERIC(NAMESPACE, identifier(place, count, part)),
                    attributeId: ATTRIBUTE_VALUE,
                    ..std::mem::zeroed()
                })
                .collect();
            let mut request: UA_ReadRequest = std::mem::zeroed();
            request.timestampsToReturn = match options.timestamps {
                Timestamps::Source => UA_TimestampsToReturn::UA_TIMESTAMPSTORETURN_SOURCE,
                Timestamps::Server => UA_TimestampsToReturn::UA_TIMESTAMPSTORETURN_SERVER,
                Timestamps::Both => UA_TimestampsToReturn::UA_TIMESTAMPSTORETURN_BOTH,
                Timestamps::Neither => UA_TimestampsToReturn::UA_TIMESTAMPSTORETURN_NEITHER,
            };
            request.nodesToRead = nodes.as_mut_ptr();
            request.nodesToReadSize = nodes.len();
            let results = Rc::as_ptr(&self.results).cast_mut().cast();
            let (raw, number) = (self.raw, std::ptr::null_mut());
            UA_Client_sendAsyncReadRequest(raw, &raw mut request, Some(on_read), results, number)
        };
        if sent != UA_STATUSCODE_GOOD {
            return Err(status::failure("read", sent));
        }
        self.until(events, turn, |client| Ok(client.results.borrow().answer.is_some()))?;
        let answer = self.results.borrow_mut().answer.take();
        answer.unwrap_or_else(|| Err(Failure::of(Reason::Other, "empty response")))
    }

    /// Closes session, channel and connection, in this order. The server does not answer
    /// CloseSecureChannel, so it is sent with CloseSession.
    pub(super) fn disconnect(
        mut self,
        events: &Events,
        turn: &mut Turn<'_, '_>,
    ) -> Result<(), Failure> {
        turn.enter(Section::ProtocolClose);
        self.set_exchange_timeout(turn);
        events::hold(true);
        // SAFETY: the client outlives the call.
        unsafe { UA_Client_disconnectAsync(self.raw) };
        self.until(events, turn, |_| Ok(events::is_holding()))?;
        turn.enter(Section::TransportClose);
        // SAFETY: plain calls on a descriptor that open62541 leaves open until `release`; received
        // data goes to a local buffer of the given length.
        unsafe {
            // The server closes in return, and the section ends with its FIN.
            libc::shutdown(self.socket, libc::SHUT_WR);
            let mut rest = [0u8; 1024];
            loop {
                turn.wait(self.socket, libc::POLLIN)?;
                if libc::recv(self.socket, rest.as_mut_ptr().cast(), rest.len(), 0) <= 0 {
                    break;
                }
            }
        }
        turn.leave();
        Ok(())
    }

    /// Processes I/O until `done`.
    fn until(
        &mut self,
        events: &Events,
        turn: &mut Turn<'_, '_>,
        done: impl Fn(&Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        loop {
            events.turn();
            if done(self)? {
                return Ok(());
            }
            turn.wait_until(&mut [poll(events.descriptor())], events.next())?;
        }
    }

    /// State of the session, and its final error.
    fn state(&self) -> (UA_SessionState, UA_StatusCode) {
        let (mut session, mut status) = (UA_SessionState::UA_SESSIONSTATE_CLOSED, 0);
        // SAFETY: the client is alive; optional outputs are null.
        unsafe {
            let none = std::ptr::null_mut();
            UA_Client_getState(self.raw, none, &raw mut session, &raw mut status);
        }
        (session, status)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state() == (UA_SessionState::UA_SESSIONSTATE_ACTIVATED, UA_STATUSCODE_GOOD)
    }

    /// Sets open62541's timeout to the rest of the exchange's, plus `TIMEOUT_MARGIN_MS`.
    fn set_exchange_timeout(&self, turn: &Turn<'_, '_>) {
        let left = (turn.deadline - clock::now()).as_ns() / 1_000_000 + TIMEOUT_MARGIN_MS;
        self.set_timeout(u32::try_from(left).unwrap_or(u32::MAX));
    }

    fn set_timeout(&self, ms: u32) {
        // SAFETY: the configuration belongs to the client and lives as long.
        unsafe { (*UA_Client_getConfig(self.raw)).timeout = ms };
    }

    /// Disconnects, and waits at most `ms` for the response.
    pub(super) fn disconnect_blocking(&self, ms: u32) {
        self.set_timeout(ms);
        // SAFETY: the client is alive, and so is what its callbacks use.
        unsafe { UA_Client_disconnect(self.raw) };
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // The server may not answer any more.
        self.set_timeout(1);
        events::release();
        // SAFETY: created by open62541 and not freed before.
        unsafe { UA_Client_delete(self.raw) };
    }
}

/// A pollfd for reading.
pub(super) fn poll(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Error of a failed connection attempt.
fn error_of(socket: RawFd) -> Option<io::Error> {
    let mut code: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open; one number is written to a local variable.
    let failed = unsafe {
        let to = (&raw mut code).cast();
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_ERROR, to, &raw mut size)
    };
    match (failed, code) {
        (0, 0) => None,
        (0, code) => Some(io::Error::from_raw_os_error(code)),
        _ => Some(io::Error::last_os_error()),
    }
}

/// Counts completed Reads.
unsafe extern "C" fn on_service(
    client: *mut UA_Client,
    kind: UA_ApplicationNotificationType,
    payload: UA_KeyValueMap,
) {
    const SERVICE: usize = 3;
    if kind != UA_ApplicationNotificationType::UA_APPLICATIONNOTIFICATIONTYPE_SERVICE_END
        || payload.mapSize <= SERVICE
    {
        return;
    }
    // SAFETY: open62541 lends the entries during this call; the context is `results`, which lives
    // as long as the client.
    unsafe {
        let service = (*payload.map.add(SERVICE)).value.data.cast::<UA_NodeId>();
        let read = &raw const UA_TYPES[UA_TYPES_READRESPONSE as usize].typeId;
        let context = (*UA_Client_getConfig(client)).clientContext.cast::<RefCell<Results>>();
        if !service.is_null() && !context.is_null() && UA_NodeId_equal(service, read) {
            (*context).borrow_mut().reads += 1;
        }
    }
}

/// Copies a response before open62541 frees it.
unsafe extern "C" fn on_read(
    _client: *mut UA_Client,
    results: *mut c_void,
    _request: u32,
    response: *mut UA_ReadResponse,
) {
    let at = clock::now();
    // SAFETY: open62541 lends the response during this call; `results` lives as long as the client.
    unsafe {
        let payload = values(&*response);
        let results = &*results.cast::<RefCell<Results>>();
        results.borrow_mut().answer = Some(payload.map(|payload| Reading { payload, at }));
    }
}

/// Concatenates the values of a response.
///
/// # Safety
/// `response` must come from open62541.
unsafe fn values(response: &UA_ReadResponse) -> Result<Vec<u8>, Failure> {
    let service = response.responseHeader.serviceResult;
    if service != UA_STATUSCODE_GOOD {
        return Err(status::failure("read", service));
    }
    let mut payload = Vec::new();
    for place in 0..response.resultsSize {
        // SAFETY: the response has `resultsSize` results; the type of a value is checked before
        // its data is used.
        unsafe {
            let result = &*response.results.add(place);
            if result.hasStatus() && result.status & 0x8000_0000 != 0 {
                let what = format!("read variable {} of {}", place + 1, response.resultsSize);
                return Err(Failure::of(
                    Reason::Status,
                    format!("{what}: {}", status::name(result.status)),
                ));
            }
            let bytes = &raw const UA_TYPES[UA_TYPES_BYTESTRING as usize];
            let text = &raw const UA_TYPES[UA_TYPES_STRING as usize];
            let is = |kind| UA_Variant_hasScalarType(&raw const result.value, kind);
            if !is(bytes) && !is(text) {
                return Err(Failure::corrupt("a variable is not a ByteString"));
            }
            let value = &*result.value.data.cast::<UA_String>();
            // An empty string has an invalid address.
            if value.length > 0 {
                payload.extend_from_slice(std::slice::from_raw_parts(value.data, value.length));
            }
        }
    }
    Ok(payload)
}
