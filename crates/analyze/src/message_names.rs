//! Names of the messages that are counted, by protocol.

/// The packet types by number.
pub(crate) const MQTT: [&str; 16] = [
    "reserved",
    "CONNECT",
    "CONNACK",
    "PUBLISH",
    "PUBACK",
    "PUBREC",
    "PUBREL",
    "PUBCOMP",
    "SUBSCRIBE",
    "SUBACK",
    "UNSUBSCRIBE",
    "UNSUBACK",
    "PINGREQ",
    "PINGRESP",
    "DISCONNECT",
    "AUTH",
];

/// The counted items. A message consists of all frames up to the one without the MORE flag.
pub(crate) const ZMTP: [&str; 14] = [
    "greeting",
    "message",
    "frame",
    "READY",
    "ERROR",
    "SUBSCRIBE",
    "CANCEL",
    "PING",
    "PONG",
    "HELLO",
    "WELCOME",
    "INITIATE",
    "MESSAGE",
    "other command",
];

/// The counted items: chunks by type, and complete and aborted messages.
pub(crate) const OPCUA: [&str; 9] =
    ["HEL", "ACK", "ERR", "RHE", "OPN", "CLO", "MSG", "message", "aborted message"];

/// Message types by number.
pub(crate) const COAP: [&str; 4] = ["CON", "NON", "ACK", "RST"];

/// A code in the RFC's notation, with the name of a request method.
pub(crate) fn coap_code(code: u8) -> String {
    let number = format!("{}.{:02}", code >> 5, code & 31);
    let name = match code {
        0 => "empty",
        1 => "GET",
        2 => "POST",
        3 => "PUT",
        4 => "DELETE",
        5 => "FETCH",
        6 => "PATCH",
        7 => "iPATCH",
        _ => return number,
    };
    format!("{number} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_notation_of_the_standard() {
        let found = [0x45, 1, 0].map(coap_code);
        assert_eq!(found, ["2.05", "0.01 GET", "0.00 empty"]);
    }
}
