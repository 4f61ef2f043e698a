"""A subscriber by paho: logs the length of each payload."""

import sys
import time
from typing import Any

import paho.mqtt.client as mqtt

broker, topic, log = sys.argv[1:]
client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)


def received(_client: mqtt.Client, _user: Any, message: mqtt.MQTTMessage) -> None:
    """Logs the length of a message."""
    with open(log, "a", encoding="ascii") as file:
        print(len(message.payload), file=file)


def subscribed(*_: Any) -> None:
    """Prints that the subscription is active."""
    print("subscribed", flush=True)


client.on_message = received
client.on_subscribe = subscribed
while True:
    try:
        client.connect(broker)
        break
    except OSError:
        time.sleep(0.1)
client.subscribe(topic)
client.loop_forever()
