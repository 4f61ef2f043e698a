//! Safe bindings of protocol stacks that are C libraries of the system, each once: libmosquitto
//! ([`mqtt`]) and libzmq ([`zeromq`]). Each is a feature.

#[cfg(feature = "mqtt")]
pub mod mqtt;
#[cfg(feature = "zeromq")]
pub mod zeromq;
