//! Mosquitto's clients, paho, and one that sends what none does.

use crate::bed::*;
use std::net::TcpStream;
use std::process::Command;

/// Topic, payload, content type, response topic, correlation data and user property.
const FORMAT: &str = "%t %p %C %R %D %P";

#[test]
fn mosquitto_clients_of_both_versions_exchange_messages() {
    if !has("mosquitto_sub") {
        return;
    }
    let gateways = gateways("mosquitto");
    let mut sinks = Vec::new();
    for (at, port) in [("hub", &gateways.hub.port), ("device", &gateways.device.port)] {
        for version in ["mqttv5", "mqttv311"] {
            let name = format!("{at}-{version}");
            registered(port, version, &name);
            let mut arguments = vec!["-p", port, "-V", version, "-i", &name, "-c", "-q", "2"];
            arguments.extend(["-t", "a/#", "-C", "2", "-W", "100", "-F", FORMAT]);
            if version == "mqttv5" {
                arguments.extend(["-x", "600"]);
            }
            sinks.push((name.clone(), version, start("mosquitto_sub", &arguments)));
        }
    }
    let new = "-V mqttv5 -q 2 -t a/new -m 17 -D publish content-type kWh -D publish response-topic r \
               -D publish correlation-data c7 -D publish user-property unit seven \
               -D publish message-expiry-interval 600";
    let old = "-V mqttv311 -q 1 -t a/old -m 18";
    for (port, words) in [(&gateways.device.port, new), (&gateways.hub.port, old)] {
        let arguments: Vec<&str> =
            ["-p", port].into_iter().chain(words.split_whitespace()).collect();
        let output = ended(start("mosquitto_pub", &arguments));
        assert!(output.status.success(), "{}", text(&output));
    }
    for (name, version, sink) in sinks {
        let output = text(&ended(sink));
        let lines: Vec<&str> = output.lines().map(str::trim_end).collect();
        let new = match version {
            "mqttv5" => "a/new 17 kWh r c7 unit:seven",
            _ => "a/new 17",
        };
        assert!(lines.contains(&new) && lines.contains(&"a/old 18"), "{name}: {output}");
    }
    // Shared subscriptions do not exist, and a client learns it: by 0x9E (158) in MQTT 5, before by 0x80.
    for (port, version, code) in [
        (&gateways.device.port, "mqttv5", 158),
        (&gateways.hub.port, "mqttv5", 158),
        (&gateways.device.port, "mqttv311", 128),
    ] {
        let shared = ["-d", "-p", port, "-V", version, "-t", "$share/g/a", "-W", "100"];
        let output = text(&ended(start("mosquitto_sub", &shared)));
        let expected = format!("Subscribed (mid: 1): {code}");
        assert!(output.contains(&expected) && output.contains("denied"), "{version}: {output}");
    }
    // The others of the same packet are granted, and the connection stays.
    let both =
        ["-d", "-p", &gateways.hub.port, "-V", "mqttv5", "-t", "$share/g/a", "-t", "b", "-E"];
    let output = text(&ended(start("mosquitto_sub", &both)));
    assert!(output.contains("158, 0"), "{output}");
}

/// A python3 that has paho: perhaps the system's, even if another one is first in PATH.
fn python_with_paho() -> Option<&'static str> {
    let all = ["python3", "/usr/bin/python3"];
    let found = all.into_iter().find(|python| {
        let output = Command::new(python).args(["-c", "import paho.mqtt.properties"]).output();
        output.is_ok_and(|output| output.status.success())
    });
    if found.is_none() {
        eprintln!("skipped: paho-mqtt is not installed");
    }
    found
}

/// A program of MQTT 5 at each gateway: a request and its answer, options of subscriptions, and the
/// reasons for the end of a connection. Supports versions 1 and 2 of paho.
const PAHO: &str = r#"
import queue
import sys
import time
import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

kind = getattr(paho, 'CallbackAPIVersion', None)
hub, device = int(sys.argv[1]), int(sys.argv[2])


class Client:
    def __init__(self, port, name, protocol=paho.MQTTv5):
        first = (kind.VERSION1,) if kind else ()
        self.client = paho.Client(*first, client_id=name, protocol=protocol)
        self.events = queue.Queue()
        self.messages = queue.Queue()
        put = self.events.put
        self.client.on_connect = lambda c, u, flags, code, *rest: put(('connected', code, rest))
        self.client.on_disconnect = lambda c, u, code, *rest: put(('disconnected', code, rest))
        self.client.on_subscribe = lambda c, u, mid, codes, *rest: put(('subscribed', codes, rest))
        self.client.on_message = lambda c, u, message: self.messages.put(message)
        more = {}
        if protocol == paho.MQTTv5:
            more['clean_start'] = True
        self.client.connect('127.0.0.1', port, 60, **more)
        self.client.loop_start()
        self.connected = self.event('connected')

    def event(self, name):
        while True:
            event = self.events.get(timeout=60)
            if event[0] == name:
                return event

    def subscribe(self, topic, **options):
        self.client.subscribe(topic, options=SubscribeOptions(qos=1, **options))
        return [code.value for code in self.event('subscribed')[1]]

    def publish(self, topic, payload, retain=False, **properties):
        all = Properties(PacketTypes.PUBLISH)
        for name, value in properties.items():
            setattr(all, name, value)
        self.client.publish(topic, payload, 1, retain, all).wait_for_publish()

    def message(self):
        return self.messages.get(timeout=60)


server = Client(hub, 'server')
properties = server.connected[2][0].json()
print('shared', properties['SharedSubscriptionAvailable'])
print('aliases', properties['TopicAliasMaximum'] > 0)
print(server.subscribe('requests'), server.subscribe('$share/g/requests'))
client = Client(device, '')
print('name', 'AssignedClientIdentifier' in client.connected[2][0].json())
client.subscribe('answers/#', noLocal=True)
client.publish('requests', '17', ResponseTopic='answers/7', CorrelationData=b'\0\xff',
               UserProperty=[('a', '1'), ('a', '2')], ContentType='text/plain',
               PayloadFormatIndicator=1, MessageExpiryInterval=600)
request = server.message()
seen = request.properties
print(request.payload, seen.UserProperty, seen.ContentType, seen.PayloadFormatIndicator)
print('expires', 590 <= seen.MessageExpiryInterval <= 600)
server.publish(seen.ResponseTopic, '18', CorrelationData=seen.CorrelationData)
answer = client.message()
print(answer.topic, answer.payload, answer.properties.CorrelationData)

# The client's own message does not come back; the next one does.
client.publish('answers/own', 'own')
server.publish('answers/other', 'other', retain=True)
other = client.message()
print(other.topic, bool(other.retain))
late = Client(hub, 'late')
late.subscribe('answers/#', retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)
late.subscribe('answers/+', retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB)
print('retained', bool(late.message().retain))

# An alias for a topic, by a packet of the program itself.
alias = Properties(PacketTypes.PUBLISH)
alias.TopicAlias = 1
client.client.publish('requests', 'first', 1, False, alias)
client.client.publish('', 'second', 1, False, alias)
print(server.message().payload, server.message().payload)

# Another connection with the same name: the first one learns why it ends.
again = Client(hub, 'late')
code, (properties,) = late.event('disconnected')[1:3]
print(code.value, properties.ReasonString)
"#;

const EXPECTED: &str = "shared 0
aliases True
[1] [158]
name True
b'17' [('a', '1'), ('a', '2')] text/plain 1
expires True
answers/7 b'18' b'\\x00\\xff'
answers/other False
retained True
b'first' b'second'
142 another connection uses this client identifier
";

#[test]
fn paho_of_mqtt_5() {
    let Some(python) = python_with_paho() else { return };
    let gateways = gateways("paho");
    let script = gateways.folder.join("client.py");
    std::fs::write(&script, PAHO).unwrap();
    let script = script.to_str().unwrap();
    // Version 2 warns of the callbacks of version 1.
    let ports = [&gateways.hub.port, &gateways.device.port];
    let output = ended(start(python, &["-W", "ignore", script, ports[0], ports[1]]));
    assert_eq!(text(&output), EXPECTED);
}

/// What no client sends: the gateway says why it ends the connection, and goes on.
#[test]
fn a_malformed_packet_gets_a_reason() {
    use std::io::{Read, Write};
    let gateways = gateways("malformed");
    let connect = [&[0x10, 13, 0, 4][..], b"MQTT", &[5, 2, 0, 0, 0, 0, 0]].concat();
    for (bytes, code) in [
        // A property twice, an alias above the maximum, one that is unknown, and a packet too long.
        (&[0x30, 8, 0, 1, b'a', 4, 1, 1, 1, 1][..], 0x82),
        (&[0x30, 7, 0, 1, b'a', 3, 0x23, 0, 99], 0x94),
        (&[0x30, 6, 0, 0, 3, 0x23, 0, 1], 0x82),
        (&[0x30, 0xff, 0xff, 0x7f], 0x95),
        (&[0x30, 6, 0, 1, b'a', 2, 0x0b, 1], 0x82),
    ] {
        let mut client = TcpStream::connect(format!("127.0.0.1:{}", gateways.device.port)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(&[&connect, bytes].concat()).unwrap();
        let mut answer = Vec::new();
        // The gateway may reset a connection whose bytes it has not read.
        let _ = client.read_to_end(&mut answer);
        assert!(answer.starts_with(&[0x20]), "{answer:?}");
        let goodbye = answer.iter().position(|byte| *byte == 0xe0).map(|at| &answer[at..]);
        assert!(goodbye.is_some_and(|own| own[2] == code), "{bytes:?}: {answer:?}");
    }
}
