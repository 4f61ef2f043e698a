//! Unmodified programs of MQTT 5 and 3.1.1 at gateways on loopback: Mosquitto's clients, and paho.

mod bed;
mod clients;
mod keys;
mod kills;
mod messages;
