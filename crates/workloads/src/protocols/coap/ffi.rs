//! Bindings for the subset of libcoap used here. Structures are filled and read by `shim.c`, which
//! also compares these declarations with the header that is installed.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Types that are opaque outside libcoap.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque!(Context, Session, Pdu, Resource, Endpoint, Text, Address);

/// `coap_dtls_cn_callback_t`.
pub type OnName = unsafe extern "C" fn(
    *const c_char,
    *const u8,
    usize,
    *mut Session,
    c_uint,
    c_int,
    *mut c_void,
) -> c_int;

pub const CON: c_int = 0;
pub const NON: c_int = 1;

pub const UDP: c_int = 1;
pub const DTLS: c_int = 2;
pub const TCP: c_int = 3;
pub const TLS: c_int = 4;

pub const NACK_TOO_MANY_RETRIES: c_int = 0;
pub const NACK_NOT_DELIVERABLE: c_int = 1;
pub const NACK_RST: c_int = 2;
pub const NACK_TLS_FAILED: c_int = 3;
pub const NACK_ICMP: c_int = 4;

pub const DTLS_CONNECTED: c_int = 0x01de;
pub const DTLS_ERROR: c_int = 0x0200;
pub const TCP_CONNECTED: c_int = 0x1001;
pub const TCP_CLOSED: c_int = 0x1002;
pub const TCP_FAILED: c_int = 0x1003;
pub const SESSION_CONNECTED: c_int = 0x2001;
pub const SESSION_CLOSED: c_int = 0x2002;
pub const SESSION_FAILED: c_int = 0x2003;

/// `COAP_IO_NO_WAIT`.
pub const NO_WAIT: u32 = u32::MAX;
/// `COAP_RESPONSE_OK`.
pub const RESPONSE_OK: c_int = 1;
pub const NOTIFY_CON: c_int = 0x2;
pub const NOTIFY_NON_ALWAYS: c_int = 0x4;
pub const HAS_MULTICAST: c_int = 0x8;
/// Log level `LOG_ERR`.
pub const LOG_ERRORS: c_int = 3;

pub type OnResponse = unsafe extern "C" fn(*mut Session, *const Pdu, *const Pdu, c_int) -> c_int;
pub type OnNack = unsafe extern "C" fn(*mut Session, *const Pdu, c_int, c_int);
pub type OnEvent = unsafe extern "C" fn(*mut Session, c_int) -> c_int;
pub type OnRequest =
    unsafe extern "C" fn(*mut Resource, *mut Session, *const Pdu, *const Text, *mut Pdu);

#[link(name = "coap-3-openssl")]
unsafe extern "C" {
    pub fn coap_startup();
    pub fn coap_package_version() -> *const c_char;
    pub fn coap_set_log_level(level: c_int);
    pub fn coap_dtls_set_log_level(level: c_int);
    pub fn coap_new_context(listen: *const Address) -> *mut Context;
    pub fn coap_free_context(context: *mut Context);
    pub fn coap_set_app_data(context: *mut Context, data: *mut c_void);
    pub fn coap_get_app_data(context: *const Context) -> *mut c_void;
    pub fn coap_context_get_coap_fd(context: *const Context) -> c_int;
    pub fn coap_io_process(context: *mut Context, timeout_ms: u32) -> c_int;
    pub fn coap_can_exit(context: *mut Context) -> c_int;
    pub fn coap_join_mcast_group_intf(
        context: *mut Context,
        group: *const c_char,
        interface: *const c_char,
    ) -> c_int;
    pub fn coap_session_release(session: *mut Session);
    pub fn coap_session_get_context(session: *const Session) -> *mut Context;
    pub fn coap_new_pdu(kind: c_int, code: c_int, session: *mut Session) -> *mut Pdu;
    pub fn coap_delete_pdu(pdu: *mut Pdu);
    pub fn coap_add_token(pdu: *mut Pdu, length: usize, token: *const u8) -> c_int;
    pub fn coap_add_option(pdu: *mut Pdu, number: u16, length: usize, value: *const u8) -> usize;
    pub fn coap_add_data(pdu: *mut Pdu, length: usize, data: *const u8) -> c_int;
    pub fn coap_get_data(pdu: *const Pdu, length: *mut usize, data: *mut *const u8) -> c_int;
    pub fn coap_send(session: *mut Session, pdu: *mut Pdu) -> c_int;
    pub fn coap_pdu_get_code(pdu: *const Pdu) -> c_int;
    pub fn coap_pdu_set_code(pdu: *mut Pdu, code: c_int);
    pub fn coap_resource_unknown_init2(on_put: OnRequest, flags: c_int) -> *mut Resource;
    pub fn coap_register_request_handler(resource: *mut Resource, method: c_int, on: OnRequest);
    pub fn coap_resource_set_get_observable(resource: *mut Resource, mode: c_int);
    pub fn coap_resource_notify_observers(resource: *mut Resource, query: *const Text) -> c_int;
    pub fn coap_add_resource(context: *mut Context, resource: *mut Resource);
}

/// An address for the functions of `shim.c`, which has the same structure; an IPv4 address is in the
/// first four bytes of `ip`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct ShimAddress {
    pub ip: [u8; 16],
    pub port: u16,
    pub is_ipv6: u8,
}

const _: () = assert!(size_of::<ShimAddress>() == 20);

impl From<SocketAddr> for ShimAddress {
    fn from(of: SocketAddr) -> Self {
        match of {
            SocketAddr::V4(of) => {
                let mut ip = [0; 16];
                ip[..4].copy_from_slice(&of.ip().octets());
                Self { ip, port: of.port(), is_ipv6: 0 }
            }
            SocketAddr::V6(of) => Self { ip: of.ip().octets(), port: of.port(), is_ipv6: 1 },
        }
    }
}

impl From<ShimAddress> for SocketAddr {
    fn from(of: ShimAddress) -> Self {
        let [a, b, c, d, ..] = of.ip;
        match of.is_ipv6 {
            0 => (Ipv4Addr::new(a, b, c, d), of.port).into(),
            _ => (Ipv6Addr::from(of.ip), of.port).into(),
        }
    }
}

/// The functions of `shim.c`. Numbers are in the host's byte order.
pub mod shim {
    use super::{
        Context, Endpoint, OnEvent, OnNack, OnName, OnResponse, Pdu, Resource, Session, ShimAddress,
    };
    use std::ffi::{c_char, c_int, c_void};

    unsafe extern "C" {
        /// The version of the header that the program was compiled with.
        #[cfg(test)]
        pub fn thingbed_coap_header() -> *const c_char;
        pub fn thingbed_coap_set_up(
            context: *mut Context,
            on_response: OnResponse,
            on_nack: OnNack,
            on_event: OnEvent,
        );
        pub fn thingbed_coap_listen(
            context: *mut Context,
            of: *const ShimAddress,
            proto: c_int,
        ) -> *mut Endpoint;
        pub fn thingbed_coap_session(
            context: *mut Context,
            of: *const ShimAddress,
            proto: c_int,
        ) -> *mut Session;
        pub fn thingbed_coap_session_psk(
            context: *mut Context,
            of: *const ShimAddress,
            proto: c_int,
            identity: *const u8,
            identity_length: usize,
            key: *const u8,
            key_length: usize,
        ) -> *mut Session;
        pub fn thingbed_coap_session_pki(
            context: *mut Context,
            of: *const ShimAddress,
            proto: c_int,
            ca: *const c_char,
            cert: *const c_char,
            key: *const c_char,
            server_name: *const c_char,
            on_name: OnName,
            expected: *mut c_void,
        ) -> *mut Session;
        pub fn thingbed_coap_serve_psk(
            context: *mut Context,
            hint: *const u8,
            hint_length: usize,
            key: *const u8,
            key_length: usize,
        ) -> c_int;
        pub fn thingbed_coap_serve_pki(
            context: *mut Context,
            cert: *const c_char,
            key: *const c_char,
        ) -> c_int;
        pub fn thingbed_coap_peer(session: *const Session, found: *mut ShimAddress) -> c_int;
        pub fn thingbed_coap_set_times(session: *mut Session, ack_ms: u32, max_retransmit: u16);
        pub fn thingbed_coap_set_leisure(session: *mut Session, ms: u32);
        pub fn thingbed_coap_token(pdu: *const Pdu, length: *mut usize) -> *const u8;
        pub fn thingbed_coap_option(
            pdu: *const Pdu,
            number: u16,
            value: *mut *const u8,
            length: *mut usize,
        ) -> c_int;
        pub fn thingbed_coap_resource(
            path: *const u8,
            length: usize,
            flags: c_int,
        ) -> *mut Resource;
    }
}
