#!/usr/bin/env bash
# Runs experiment.yaml: mosquitto_sub prints the delay of each reading. Needs mosquitto and python3-paho-mqtt.
#   run.sh THINGBED GATEWAY OUT [--clock virtual]
set -eu
tool=$(realpath "$1"); gateway=$(realpath "$2"); mkdir -p "$3"; out=$(realpath "$3")
cd "$(dirname "$0")"
mkdir -p build
head -c 32 /dev/urandom >build/key
cp "$gateway" build/director-gateway
"$tool" run experiment.yaml --out "$out" "${@:4}" || [ $? -eq 4 ]
