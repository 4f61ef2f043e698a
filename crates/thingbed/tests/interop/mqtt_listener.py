"""A subscriber by paho: writes the length of each payload down."""

import sys
import time
from typing import Any

import paho.mqtt.client as mqtt

broker, topic, log = sys.argv[1:]
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)


def heard(_client: mqtt.Client, _user: Any, message: mqtt.MQTTMessage) -> None:
    """Writes down how long a message is."""
    with open(log, "a", encoding="ascii") as file:
        print(len(message.payload), file=file)


def subscribed(*_: Any) -> None:
    """Says that nothing is missed from now on."""
    print("subscribed", flush=True)


client.on_message = heard
client.on_subscribe = subscribed
while True:
    try:
        client.connect(broker)
        break
    except OSError:
        time.sleep(0.1)
client.subscribe(topic)
client.loop_forever()
