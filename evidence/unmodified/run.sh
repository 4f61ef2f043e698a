#!/usr/bin/env bash
# Runs experiment.yaml on both engines, twice each, and shows the programs' output. Needs go,
# javac, node, mosquitto, nginx, iperf3, curl, libcoap's programs and python3-paho-mqtt.
#   run.sh THINGBED OUT
set -eu
tool=$(realpath "$1"); mkdir -p "$2"; out=$(realpath "$2")
cd "$(dirname "$0")"
mkdir -p build
CGO_ENABLED=0 go build -o build/serve serve.go
javac -d build Fetch.java
for cpu in infinite 1; do
    "$tool" run experiment.yaml --cpu "$cpu" --out "$out/$cpu" || [ $? -eq 4 ]
    folder=$(ls -d "$out/$cpu"/unmodified/* | tail -1)
    for file in "$folder"/programs/*.out; do
        echo "--- $cpu $(basename "$file")"; tail -4 "$file"
    done
    "$tool" verify "$folder" -q || true
done
