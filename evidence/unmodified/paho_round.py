"""Publishes to itself through a broker with paho, and prints the delivery time."""

import sys
import threading
import time

import paho.mqtt.client as mqtt

arrived = threading.Event()
args = (mqtt.CallbackAPIVersion.VERSION1,) if hasattr(mqtt, "CallbackAPIVersion") else ()
client = mqtt.Client(*args)
client.on_message = lambda *_: arrived.set()
subscribed = threading.Event()
client.on_subscribe = lambda *_: subscribed.set()
client.connect(sys.argv[1])
client.loop_start()
client.subscribe("round", qos=1)
if not subscribed.wait(10):
    sys.exit("no subscription in 10 s")
began = time.monotonic()
client.publish("round", b"x" * 100, qos=1)
if not arrived.wait(10):
    sys.exit("no message in 10 s")
print(f"paho: a message to itself in {1e3 * (time.monotonic() - began):.1f} ms")
client.loop_stop()
