//! A client: connecting, reading, closing, in steps that can be told apart.

use super::events::{self, Events};
use super::{LIFETIME_MS, NAMESPACE, Options, Timestamps, identifier, status};
use crate::clock::{Nanos, monotonic_now};
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::protocol::Turn;
use crate::exchange::sections::Section;
use open62541_sys::*;
use std::cell::RefCell;
use std::ffi::{CString, c_void};
use std::io;
use std::os::fd::RawFd;

/// The security policy of who has none.
const NONE: &std::ffi::CStr = c"http://opcfoundation.org/UA/SecurityPolicy#None";
const ATTRIBUTE_VALUE: u32 = 13;
/// Connections until a session is open: a server may name another address of its own
/// when it is asked for its addresses, and another for its endpoint.
const CONNECTIONS: u32 = 3;
/// The library's own patience is longer than ours, so that ours decides.
const MORE_MS: Nanos = 1_000;

/// What came with a Read.
pub(super) struct Got {
    pub(super) payload: Vec<u8>,
    pub(super) at: Nanos,
}

/// What the library has told since a client was made.
#[derive(Default)]
struct Told {
    /// Reads that were answered, the library's own of the namespaces first.
    reads: u32,
    answer: Option<Result<Got, Failure>>,
}

/// A client of the library's.
pub(super) struct Client {
    raw: *mut UA_Client,
    socket: RawFd,
    /// At one place for as long as the client lives, which knows it by its address.
    told: Box<RefCell<Told>>,
}

impl Client {
    /// Connects, opens a channel and a session on it.
    pub(super) fn connect(
        events: &Events,
        url: &CString,
        turn: &mut Turn<'_, '_>,
    ) -> Result<Self, Failure> {
        let mut client = Self::make(events)?;
        turn.enter(Section::TransportConnect);
        client.await_patiently(turn);
        events::allow(CONNECTIONS);
        // SAFETY: the client and the text live over the call.
        let begun = unsafe { UA_Client_connectAsync(client.raw, url.as_ptr()) };
        let tried = format!("connect to {}", url.to_string_lossy());
        match events::take_socket() {
            Some(socket) => client.socket = socket,
            None => {
                return Err(Failure::of(
                    Reason::Unreachable,
                    format!("{tried}: {}", status::name(begun)),
                ));
            }
        }
        turn.wait(client.socket, libc::POLLOUT)?;
        if let Some(error) = error_of(client.socket) {
            return Err(Failure::io(&tried)(error));
        }
        turn.enter(Section::ProtocolConnect);
        client.until(events, turn, |client| {
            let (session, status) = client.state();
            if status != UA_STATUSCODE_GOOD {
                return Err(status::unopened(status));
            }
            // The library reads the server's namespaces before anything else.
            let activated = session == UA_SessionState::UA_SESSIONSTATE_ACTIVATED;
            Ok(activated && client.told.borrow().reads > 0)
        })?;
        // From here on, a channel that is lost is a failure to be told of.
        // SAFETY: the configuration is the client's and lives with it.
        unsafe { (*UA_Client_getConfig(client.raw)).noReconnect = true };
        Ok(client)
    }

    /// Makes a client that takes an endpoint without security.
    fn make(events: &Events) -> Result<Self, Failure> {
        let told = Box::<RefCell<Told>>::default();
        // SAFETY: an all-zero configuration is what the library begins from; what is
        // put into it is made by the library or outlives the client, which takes the
        // configuration over.
        let raw = unsafe {
            let mut config: UA_ClientConfig = std::mem::zeroed();
            config.clientContext = (&raw const *told).cast_mut().cast();
            config.logging = events::log();
            config.eventLoop = events.raw();
            config.externalEventLoop = true;
            config.secureChannelLifeTime = LIFETIME_MS;
            config.requestedSessionTimeout = LIFETIME_MS;
            config.serviceNotificationCallback = Some(answered);
            config.securityMode = UA_MessageSecurityMode::UA_MESSAGESECURITYMODE_NONE;
            config.securityPolicyUri = UA_String_fromChars(NONE.as_ptr());
            let status = UA_ClientConfig_setDefault(&raw mut config);
            if status != UA_STATUSCODE_GOOD {
                return Err(status::failure("make a client", status));
            }
            UA_Client_newWithConfig(&raw const config)
        };
        match raw.is_null() {
            true => Err(Failure::of(Reason::Other, "make a client: no memory")),
            false => Ok(Self { raw, socket: -1, told }),
        }
    }

    /// Reads all variables that hold the payload of the size in this place.
    pub(super) fn read(
        &mut self,
        events: &Events,
        place: usize,
        options: &Options,
        turn: &mut Turn<'_, '_>,
    ) -> Result<Got, Failure> {
        self.await_patiently(turn);
        self.told.borrow_mut().answer = None;
        let count = options.variables;
        // SAFETY: all-zero structures are empty ones; the request borrows the list of
        // nodes over the call alone, and the answer goes to where it outlives this.
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
            let told = (&raw const *self.told).cast_mut().cast();
            let (raw, number) = (self.raw, std::ptr::null_mut());
            UA_Client_sendAsyncReadRequest(raw, &raw mut request, Some(came), told, number)
        };
        if sent != UA_STATUSCODE_GOOD {
            return Err(status::failure("read", sent));
        }
        self.until(events, turn, |client| Ok(client.told.borrow().answer.is_some()))?;
        let answer = self.told.borrow_mut().answer.take();
        answer.unwrap_or_else(|| Err(Failure::of(Reason::Other, "an empty answer")))
    }

    /// Closes session, channel and connection, in this order. Nobody answers to the
    /// closing of a channel, so it goes with the session's.
    pub(super) fn disconnect(
        mut self,
        events: &Events,
        turn: &mut Turn<'_, '_>,
    ) -> Result<(), Failure> {
        turn.enter(Section::ProtocolClose);
        self.await_patiently(turn);
        events::hold(true);
        // SAFETY: the client lives over the call.
        unsafe { UA_Client_disconnectAsync(self.raw) };
        self.until(events, turn, |_| Ok(events::is_holding()))?;
        turn.enter(Section::TransportClose);
        // SAFETY: plain calls on a descriptor that the library leaves open until it is
        // released; what comes still goes into room of ours, as long as said.
        unsafe {
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

    /// Lets the library work until `done`.
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

    /// How far the session is, and what stands in the way for good.
    fn state(&self) -> (UA_SessionState, UA_StatusCode) {
        let (mut session, mut status) = (UA_SessionState::UA_SESSIONSTATE_CLOSED, 0);
        // SAFETY: the client lives; what may be left out is.
        unsafe {
            let none = std::ptr::null_mut();
            UA_Client_getState(self.raw, none, &raw mut session, &raw mut status);
        }
        (session, status)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state() == (UA_SessionState::UA_SESSIONSTATE_ACTIVATED, UA_STATUSCODE_GOOD)
    }

    /// Lets the library wait as long as the exchange may take, and a little more.
    fn await_patiently(&self, turn: &Turn<'_, '_>) {
        let left = turn.deadline.saturating_sub(monotonic_now()) / 1_000_000 + MORE_MS;
        self.patience(u32::try_from(left).unwrap_or(u32::MAX));
    }

    fn patience(&self, ms: u32) {
        // SAFETY: the configuration is the client's and lives with it.
        unsafe { (*UA_Client_getConfig(self.raw)).timeout = ms };
    }

    /// Says goodbye, and waits for an answer for so many ms at most.
    pub(super) fn say_goodbye(&self, ms: u32) {
        self.patience(ms);
        // SAFETY: the client lives; what it calls back lives with it.
        unsafe { UA_Client_disconnect(self.raw) };
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Nobody may be there to answer a goodbye.
        self.patience(1);
        events::release();
        // SAFETY: made by the library and not freed before.
        unsafe { UA_Client_delete(self.raw) };
    }
}

/// For a wait.
pub(super) fn poll(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// Why a connection could not be made.
fn error_of(socket: RawFd) -> Option<io::Error> {
    let mut code: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is the library's and open; one number is written, to us.
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

/// Counts the Reads that were answered.
unsafe extern "C" fn answered(
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
    // SAFETY: the library lends the entries over this call; the context is ours and
    // lives as long as the client.
    unsafe {
        let service = (*payload.map.add(SERVICE)).value.data.cast::<UA_NodeId>();
        let read = &raw const UA_TYPES[UA_TYPES_READRESPONSE as usize].typeId;
        let context = (*UA_Client_getConfig(client)).clientContext.cast::<RefCell<Told>>();
        if !service.is_null() && !context.is_null() && UA_NodeId_equal(service, read) {
            (*context).borrow_mut().reads += 1;
        }
    }
}

/// Takes an answer, before the library frees it.
unsafe extern "C" fn came(
    _client: *mut UA_Client,
    told: *mut c_void,
    _request: u32,
    response: *mut UA_ReadResponse,
) {
    let at = monotonic_now();
    // SAFETY: the library lends the response over this call; `told` is ours and lives
    // as long as the client.
    unsafe {
        let payload = values(&*response);
        let told = &*told.cast::<RefCell<Told>>();
        told.borrow_mut().answer = Some(payload.map(|payload| Got { payload, at }));
    }
}

/// The values of a response, one behind the other.
///
/// # Safety
/// The response must be one of the library's.
unsafe fn values(response: &UA_ReadResponse) -> Result<Vec<u8>, Failure> {
    let service = response.responseHeader.serviceResult;
    if service != UA_STATUSCODE_GOOD {
        return Err(status::failure("read", service));
    }
    let mut payload = Vec::new();
    for place in 0..response.resultsSize {
        // SAFETY: there are as many results; a value of a type is one of that type.
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
            // An empty one has an address that is none.
            if value.length > 0 {
                payload.extend_from_slice(std::slice::from_raw_parts(value.data, value.length));
            }
        }
    }
    Ok(payload)
}
