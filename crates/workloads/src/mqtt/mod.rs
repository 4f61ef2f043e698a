//! An MQTT client over libmosquitto, that publishes by a schedule, takes what it
//! has subscribed to, and writes down what became of each message.

mod client;
mod ffi;
mod retry;
mod session;
mod spec;

pub use client::run;
pub use spec::{MqttSpec, Tls, Version};
