//! Bindings for the subset of libmosquitto used here (mosquitto.h, 2.0).

use std::ffi::{c_char, c_int, c_void};

/// A client, opaque outside libmosquitto.
#[repr(C)]
pub struct Mosquitto {
    _private: [u8; 0],
}

/// A list of MQTT 5 properties, opaque outside libmosquitto.
#[repr(C)]
pub struct Property {
    _private: [u8; 0],
}

/// A received message, as passed to the callback.
#[repr(C)]
pub struct Message {
    pub mid: c_int,
    pub topic: *mut c_char,
    pub payload: *mut c_void,
    pub payloadlen: c_int,
    pub qos: c_int,
    pub retain: bool,
}

pub const SUCCESS: c_int = 0;
pub const NO_CONN: c_int = 4;
pub const TLS: c_int = 8;
pub const ERRNO: c_int = 14;
pub const LOG_ERR: c_int = 1 << 3;
pub const OPT_PROTOCOL_VERSION: c_int = 1;
pub const OPT_RECEIVE_MAXIMUM: c_int = 4;
pub const OPT_TCP_NODELAY: c_int = 11;
/// `MQTT_PROP_SESSION_EXPIRY_INTERVAL` (mqtt_protocol.h).
pub const SESSION_EXPIRY: c_int = 17;

type Client = *mut Mosquitto;
pub type OnConnect = unsafe extern "C" fn(Client, *mut c_void, c_int, c_int);
pub type OnResult = unsafe extern "C" fn(Client, *mut c_void, c_int);
pub type OnPublish = unsafe extern "C" fn(Client, *mut c_void, c_int, c_int, *const Property);
pub type OnSubscribe = unsafe extern "C" fn(Client, *mut c_void, c_int, c_int, *const c_int);
pub type OnMessage = unsafe extern "C" fn(Client, *mut c_void, *const Message);
pub type OnLog = unsafe extern "C" fn(Client, *mut c_void, c_int, *const c_char);

#[link(name = "mosquitto")]
unsafe extern "C" {
    pub fn mosquitto_lib_init() -> c_int;
    pub fn mosquitto_new(id: *const c_char, clean: bool, user: *mut c_void) -> Client;
    pub fn mosquitto_destroy(client: Client);
    pub fn mosquitto_int_option(client: Client, option: c_int, value: c_int) -> c_int;
    pub fn mosquitto_tls_set(
        client: Client,
        cafile: *const c_char,
        capath: *const c_char,
        certfile: *const c_char,
        keyfile: *const c_char,
        password: Option<unsafe extern "C" fn(*mut c_char, c_int, c_int, *mut c_void) -> c_int>,
    ) -> c_int;
    pub fn mosquitto_username_pw_set(
        client: Client,
        name: *const c_char,
        password: *const c_char,
    ) -> c_int;
    pub fn mosquitto_connect_bind_v5(
        client: Client,
        host: *const c_char,
        port: c_int,
        keepalive: c_int,
        bind_address: *const c_char,
        properties: *const Property,
    ) -> c_int;
    pub fn mosquitto_connect_async(
        client: Client,
        host: *const c_char,
        port: c_int,
        keepalive: c_int,
    ) -> c_int;
    pub fn mosquitto_disconnect(client: Client) -> c_int;
    pub fn mosquitto_publish(
        client: Client,
        mid: *mut c_int,
        topic: *const c_char,
        payloadlen: c_int,
        payload: *const c_void,
        qos: c_int,
        retain: bool,
    ) -> c_int;
    pub fn mosquitto_subscribe(
        client: Client,
        mid: *mut c_int,
        topic: *const c_char,
        qos: c_int,
    ) -> c_int;
    pub fn mosquitto_socket(client: Client) -> c_int;
    pub fn mosquitto_want_write(client: Client) -> bool;
    pub fn mosquitto_loop_read(client: Client, max_packets: c_int) -> c_int;
    pub fn mosquitto_loop_write(client: Client, max_packets: c_int) -> c_int;
    pub fn mosquitto_loop_misc(client: Client) -> c_int;
    pub fn mosquitto_strerror(code: c_int) -> *const c_char;
    pub fn mosquitto_connack_string(code: c_int) -> *const c_char;
    pub fn mosquitto_reason_string(code: c_int) -> *const c_char;
    pub fn mosquitto_property_add_int32(
        list: *mut *mut Property,
        identifier: c_int,
        value: u32,
    ) -> c_int;
    pub fn mosquitto_property_free_all(list: *mut *mut Property);
    pub fn mosquitto_connect_with_flags_callback_set(client: Client, on: OnConnect);
    pub fn mosquitto_disconnect_callback_set(client: Client, on: OnResult);
    pub fn mosquitto_publish_v5_callback_set(client: Client, on: OnPublish);
    pub fn mosquitto_subscribe_callback_set(client: Client, on: OnSubscribe);
    pub fn mosquitto_message_callback_set(client: Client, on: OnMessage);
    pub fn mosquitto_log_callback_set(client: Client, on: OnLog);
}
