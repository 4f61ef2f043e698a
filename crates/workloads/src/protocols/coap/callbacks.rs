//! libcoap callbacks: client events, and requests to a server.

use super::ffi::{self, ShimAddress, shim};
use coap::{Block, number};
use std::ffi::c_int;
use std::net::SocketAddr;
use std::ptr;
use units::Instant;

/// An event at a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// A response arrived.
    Response { from: SocketAddr, response: Response, at: Instant },
    /// A request failed, with libcoap's reason.
    Nack(c_int),
    /// A connection changed state.
    Event(c_int),
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub token: Vec<u8>,
    /// Response code, such as 0x45 for 2.05.
    pub code: u8,
    pub payload: Vec<u8>,
    pub block1: Option<Block>,
    pub block2: Option<Block>,
    pub observe: bool,
}

/// A request at a server.
#[derive(Debug, Clone)]
pub struct Request {
    pub from: SocketAddr,
    /// 1 GET, 2 POST, 3 PUT, 4 DELETE.
    pub method: u8,
    /// First segment of the path.
    pub path: String,
    pub payload: Vec<u8>,
    pub block1: Option<Block>,
    pub block2: Option<Block>,
}

/// A server's response.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub code: u8,
    pub payload: Vec<u8>,
    pub block1: Option<Block>,
    pub block2: Option<Block>,
}

/// Request handler.
pub type Respond = Box<dyn FnMut(&Request) -> Answer>;

/// State that callbacks read and write; it outlives the context.
#[derive(Default)]
pub(super) struct Inbox {
    pub events: Vec<SessionEvent>,
    pub respond: Option<Respond>,
    /// Times of a server's sessions.
    pub times: Option<ServerTimes>,
}

/// Leisure, ACK_TIMEOUT (both in ms) and MAX_RETRANSMIT of a server's sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerTimes {
    pub leisure_ms: u32,
    pub ack_timeout_ms: u32,
    pub max_retransmit: u16,
}

/// Peer address of a session; 0.0.0.0 if it is unknown.
///
/// # Safety
/// `session` must be a valid libcoap session.
unsafe fn remote(session: *const ffi::Session) -> SocketAddr {
    let mut found = ShimAddress::default();
    // SAFETY: the session is valid; the output is local.
    unsafe { shim::thingbed_coap_peer(session, &raw mut found) };
    found.into()
}

/// Calls `then` with the inbox of a callback's session. The reference ends before libcoap or a
/// request handler runs again, so that there is never a second one.
///
/// # Safety
/// `session` must be a valid libcoap session of a context that was given an inbox; `then` must not
/// call libcoap.
unsafe fn with_inbox<R>(session: *const ffi::Session, then: impl FnOnce(&mut Inbox) -> R) -> R {
    // SAFETY: the session points to its context, and the context to the inbox it was given, which
    // outlives it; callbacks of a context run in one thread, and `then` does not lead to another.
    unsafe {
        let inbox = ffi::coap_get_app_data(ffi::coap_session_get_context(session));
        then(&mut *inbox.cast::<Inbox>())
    }
}

/// Value of an option.
///
/// # Safety
/// `pdu` must be a valid libcoap message.
unsafe fn option(pdu: *const ffi::Pdu, number: u16) -> Option<Vec<u8>> {
    let (mut value, mut length) = (ptr::null(), 0);
    // SAFETY: the message is valid; both outputs are local; libcoap gives the length of the value.
    unsafe {
        match shim::thingbed_coap_option(pdu, number, &raw mut value, &raw mut length) {
            0 => None,
            _ => Some(copy(value, length)),
        }
    }
}

/// A block option, of a message over UDP or TCP.
///
/// # Safety
/// `pdu` must be a valid libcoap message.
unsafe fn block_option(pdu: *const ffi::Pdu, number: u16) -> Option<Block> {
    // SAFETY: the message is valid.
    unsafe { option(pdu, number) }.and_then(|value| Block::decode_reliable(&value))
}

/// # Safety
/// `start` points to `length` bytes, or is null.
unsafe fn copy(start: *const u8, length: usize) -> Vec<u8> {
    if start.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: the caller guarantees `length` bytes.
    unsafe { std::slice::from_raw_parts(start, length).to_vec() }
}

/// # Safety
/// `pdu` must be a valid libcoap message.
unsafe fn data(pdu: *const ffi::Pdu) -> Vec<u8> {
    let (mut length, mut start) = (0, ptr::null());
    // SAFETY: the message is valid; both outputs are local.
    unsafe {
        match ffi::coap_get_data(pdu, &raw mut length, &raw mut start) {
            0 => Vec::new(),
            _ => copy(start, length),
        }
    }
}

pub(super) unsafe extern "C" fn on_response(
    session: *mut ffi::Session,
    _sent: *const ffi::Pdu,
    received: *const ffi::Pdu,
    _mid: c_int,
) -> c_int {
    let at = clock::now();
    // SAFETY: libcoap calls this with a valid session and message.
    unsafe {
        let block = |number| block_option(received, number);
        let mut length = 0;
        let token = shim::thingbed_coap_token(received, &raw mut length);
        let response = Response {
            token: copy(token, length),
            code: ffi::coap_pdu_get_code(received) as u8,
            payload: data(received),
            block1: block(number::BLOCK1),
            block2: block(number::BLOCK2),
            observe: option(received, number::OBSERVE).is_some(),
        };
        let from = remote(session);
        let event = SessionEvent::Response { from, response, at };
        with_inbox(session, |inbox| inbox.events.push(event));
    }
    ffi::RESPONSE_OK
}

pub(super) unsafe extern "C" fn on_nack(
    session: *mut ffi::Session,
    _sent: *const ffi::Pdu,
    reason: c_int,
    _mid: c_int,
) {
    // SAFETY: libcoap calls this with a valid session.
    unsafe { with_inbox(session, |inbox| inbox.events.push(SessionEvent::Nack(reason))) };
}

pub(super) unsafe extern "C" fn on_event(session: *mut ffi::Session, event: c_int) -> c_int {
    // SAFETY: libcoap calls this with a valid session.
    unsafe { with_inbox(session, |inbox| inbox.events.push(SessionEvent::Event(event))) };
    0
}

pub(super) unsafe extern "C" fn on_request(
    _resource: *mut ffi::Resource,
    session: *mut ffi::Session,
    request: *const ffi::Pdu,
    _query: *const ffi::Text,
    response: *mut ffi::Pdu,
) {
    // SAFETY: libcoap calls this with a valid session and messages; the arguments stay valid
    // during the calls, which copy them.
    unsafe {
        let block = |number| block_option(request, number);
        let path = option(request, number::URI_PATH).unwrap_or_default();
        let incoming = Request {
            from: remote(session),
            method: ffi::coap_pdu_get_code(request) as u8,
            path: String::from_utf8_lossy(&path).into_owned(),
            payload: data(request),
            block1: block(number::BLOCK1),
            block2: block(number::BLOCK2),
        };
        // Taken out while it runs: nothing refers to the inbox then.
        let (times, respond) = with_inbox(session, |inbox| (inbox.times, inbox.respond.take()));
        // libcoap creates server sessions with its default times: set the configured ones.
        if let Some(times) = times {
            shim::thingbed_coap_set_leisure(session, times.leisure_ms);
            let (ack_ms, retransmit) = (times.ack_timeout_ms, times.max_retransmit);
            shim::thingbed_coap_set_times(session, ack_ms, retransmit);
        }
        let Some(mut respond) = respond else { return };
        let answer = respond(&incoming);
        with_inbox(session, |inbox| inbox.respond = Some(respond));
        ffi::coap_pdu_set_code(response, c_int::from(answer.code));
        // In the order of their numbers, 23 and 27, so that libcoap does not have to move options.
        for (number, block) in [(number::BLOCK2, answer.block2), (number::BLOCK1, answer.block1)] {
            if let Some(value) = block.map(Block::encode) {
                ffi::coap_add_option(response, number, value.len(), value.as_ptr());
            }
        }
        if !answer.payload.is_empty() {
            ffi::coap_add_data(response, answer.payload.len(), answer.payload.as_ptr());
        }
    }
}
