//! The used part of libmosquitto's C interface (mosquitto.h, 2.0).

use std::ffi::{c_char, c_int, c_void};

/// Opaque client.
#[repr(C)]
pub struct Mosquitto {
    _private: [u8; 0],
}

/// A message, as passed to the callback.
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
pub const TCP_NODELAY: c_int = 11;

type Client = *mut Mosquitto;
pub type OnResult = unsafe extern "C" fn(Client, *mut c_void, c_int);
pub type OnMessage = unsafe extern "C" fn(Client, *mut c_void, *const Message);

#[link(name = "mosquitto")]
unsafe extern "C" {
    pub fn mosquitto_lib_init() -> c_int;
    pub fn mosquitto_new(id: *const c_char, clean: bool, user: *mut c_void) -> Client;
    pub fn mosquitto_destroy(client: Client);
    pub fn mosquitto_threaded_set(client: Client, threaded: bool) -> c_int;
    pub fn mosquitto_int_option(client: Client, option: c_int, value: c_int) -> c_int;
    pub fn mosquitto_username_pw_set(
        client: Client,
        name: *const c_char,
        password: *const c_char,
    ) -> c_int;
    pub fn mosquitto_connect_async(
        client: Client,
        host: *const c_char,
        port: c_int,
        keep_alive: c_int,
    ) -> c_int;
    pub fn mosquitto_disconnect(client: Client) -> c_int;
    pub fn mosquitto_publish(
        client: Client,
        mid: *mut c_int,
        topic: *const c_char,
        length: c_int,
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
    pub fn mosquitto_loop(client: Client, timeout_ms: c_int, most_packets: c_int) -> c_int;
    pub fn mosquitto_connect_callback_set(client: Client, on: OnResult);
    pub fn mosquitto_publish_callback_set(client: Client, on: OnResult);
    pub fn mosquitto_message_callback_set(client: Client, on: OnMessage);
}
