//! Bindings for the subset of libcoap used here (coap3/coap.h, 4.3.1).

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Types that are opaque outside libcoap.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}
opaque!(Context, Session, Pdu, Resource, Endpoint, Text);

/// `coap_address_t`: sized for IPv6; only IPv4 is used.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Address {
    pub size: libc::socklen_t,
    pub sin: libc::sockaddr_in,
    pub rest: [u8; 12],
}

/// `coap_bin_const_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    pub length: usize,
    pub start: *const u8,
}

/// `coap_fixed_point_t`: integer part and thousandths.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Fixed {
    pub whole: u16,
    pub thousandths: u16,
}

/// `coap_opt_iterator_t`, with spare room.
#[repr(C)]
pub struct Iterator(pub [u64; 16]);

/// `coap_dtls_cpsk_t` and `coap_dtls_spsk_t`, which have the same member order: unused callbacks,
/// then two byte strings.
#[repr(C)]
pub struct SharedKeyOfClient {
    pub version: u8,
    pub reserved: [u8; 7],
    pub on_hint: *const c_void,
    pub on_hint_data: *mut c_void,
    pub server_name: *const c_char,
    pub identity: Bytes,
    pub key: Bytes,
}

#[repr(C)]
pub struct SharedKeyOfServer {
    pub version: u8,
    pub reserved: [u8; 7],
    pub on_identity: *const c_void,
    pub on_identity_data: *mut c_void,
    pub on_name: *const c_void,
    pub on_name_data: *mut c_void,
    pub hint: Bytes,
    pub key: Bytes,
}

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

/// `coap_dtls_pki_t` with keys in PEM files.
#[repr(C)]
pub struct Certificates {
    pub version: u8,
    pub verify_peer: u8,
    pub check_common_ca: u8,
    pub allow_self_signed: u8,
    pub allow_expired: u8,
    pub validate_chain: u8,
    pub chain_depth: u8,
    pub check_revocation: u8,
    pub allow_no_crl: u8,
    pub allow_expired_crl: u8,
    pub allow_bad_hash: u8,
    pub allow_short_rsa: u8,
    pub is_raw_key: u8,
    pub reserved: [u8; 3],
    pub on_common_name: Option<OnName>,
    pub on_common_name_data: *mut c_void,
    pub on_name: *const c_void,
    pub on_name_data: *mut c_void,
    pub on_setup: *const c_void,
    pub server_name: *const c_char,
    /// `COAP_PKI_KEY_PEM`, which is 0.
    pub key_type: c_int,
    pub ca: *const c_char,
    pub cert: *const c_char,
    pub key: *const c_char,
    /// Remainder of a union.
    pub rest: [usize; 4],
}

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
    pub fn coap_context_set_block_mode(context: *mut Context, mode: u8);
    pub fn coap_context_set_psk2(context: *mut Context, setup: *mut SharedKeyOfServer) -> c_int;
    pub fn coap_context_set_pki(context: *mut Context, setup: *const Certificates) -> c_int;
    pub fn coap_register_response_handler(context: *mut Context, on: OnResponse);
    pub fn coap_register_nack_handler(context: *mut Context, on: OnNack);
    pub fn coap_register_event_handler(context: *mut Context, on: OnEvent);
    pub fn coap_io_process(context: *mut Context, timeout_ms: u32) -> c_int;
    pub fn coap_can_exit(context: *mut Context) -> c_int;
    pub fn coap_join_mcast_group_intf(
        context: *mut Context,
        group: *const c_char,
        interface: *const c_char,
    ) -> c_int;
    pub fn coap_new_endpoint(
        context: *mut Context,
        listen: *const Address,
        proto: c_int,
    ) -> *mut Endpoint;
    pub fn coap_new_client_session(
        context: *mut Context,
        local: *const Address,
        server: *const Address,
        proto: c_int,
    ) -> *mut Session;
    pub fn coap_new_client_session_psk2(
        context: *mut Context,
        local: *const Address,
        server: *const Address,
        proto: c_int,
        setup: *mut SharedKeyOfClient,
    ) -> *mut Session;
    pub fn coap_new_client_session_pki(
        context: *mut Context,
        local: *const Address,
        server: *const Address,
        proto: c_int,
        setup: *mut Certificates,
    ) -> *mut Session;
    pub fn coap_session_release(session: *mut Session);
    pub fn coap_session_get_context(session: *const Session) -> *mut Context;
    pub fn coap_session_get_addr_remote(session: *const Session) -> *const Address;
    pub fn coap_session_set_ack_timeout(session: *mut Session, value: Fixed);
    pub fn coap_session_set_max_retransmit(session: *mut Session, value: u16);
    pub fn coap_session_set_default_leisure(session: *mut Session, value: Fixed);
    pub fn coap_new_pdu(kind: c_int, code: c_int, session: *mut Session) -> *mut Pdu;
    pub fn coap_delete_pdu(pdu: *mut Pdu);
    pub fn coap_add_token(pdu: *mut Pdu, length: usize, token: *const u8) -> c_int;
    pub fn coap_add_option(pdu: *mut Pdu, number: u16, length: usize, value: *const u8) -> usize;
    pub fn coap_add_data(pdu: *mut Pdu, length: usize, data: *const u8) -> c_int;
    pub fn coap_get_data(pdu: *const Pdu, length: *mut usize, data: *mut *const u8) -> c_int;
    pub fn coap_send(session: *mut Session, pdu: *mut Pdu) -> c_int;
    pub fn coap_pdu_get_code(pdu: *const Pdu) -> c_int;
    pub fn coap_pdu_set_code(pdu: *mut Pdu, code: c_int);
    pub fn coap_pdu_get_token(pdu: *const Pdu) -> Bytes;
    pub fn coap_check_option(pdu: *const Pdu, number: u16, room: *mut Iterator) -> *const u8;
    pub fn coap_opt_length(option: *const u8) -> u32;
    pub fn coap_opt_value(option: *const u8) -> *const u8;
    pub fn coap_resource_init(path: *mut Bytes, flags: c_int) -> *mut Resource;
    pub fn coap_resource_unknown_init2(on_put: OnRequest, flags: c_int) -> *mut Resource;
    pub fn coap_register_request_handler(resource: *mut Resource, method: c_int, on: OnRequest);
    pub fn coap_resource_set_get_observable(resource: *mut Resource, mode: c_int);
    pub fn coap_resource_notify_observers(resource: *mut Resource, query: *const Text) -> c_int;
    pub fn coap_add_resource(context: *mut Context, resource: *mut Resource);
}
