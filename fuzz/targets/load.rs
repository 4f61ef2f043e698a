//! Any bytes as what a load's targets answer, and as what a device is asked: messages of CoAP,
//! block-wise transfers, HTTP in any pieces, MQTT.
#![no_main]

use libfuzzer_sys::fuzz_target;
use load::fuzzing;

fuzz_target!(|input: (Vec<Vec<u8>>, u16, usize)| {
    let (messages, body, piece) = input;
    fuzzing::answers(&messages, usize::from(body));
    fuzzing::requests(&messages);
    let stream = messages.concat();
    fuzzing::stream(&stream, piece % 64 + 1);
});
