"""Publishes a reading every two seconds for a minute with paho, at QoS 1: its time, and padding to 100 bytes."""

import os
import time

import paho.mqtt.client as mqtt

args = (mqtt.CallbackAPIVersion.VERSION2,) if hasattr(mqtt, "CallbackAPIVersion") else ()
client = mqtt.Client(*args)
client.connect("mqtt-broker")
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
