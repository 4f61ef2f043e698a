"""Publishes a reading every two seconds for a minute with paho, at QoS 1."""

import os
import sys
import time

import paho.mqtt.client as mqtt

args = (mqtt.CallbackAPIVersion.VERSION2,) if hasattr(mqtt, "CallbackAPIVersion") else ()
client = mqtt.Client(*args)
client.connect("127.0.0.1" if sys.argv[1] == "director" else "hub")
client.loop_start()
sent = []
for number in range(1, 31):
    text = f"{time.time():.9f} {number:080d}"
    sent.append(client.publish(f"readings/{os.environ['THINGBED_NODE']}", text, qos=1))
    time.sleep(2)
for message in sent:
    message.wait_for_publish(60)
client.disconnect()
client.loop_stop()
