#!/usr/bin/env bash
# Installs the system packages that building (and, with `test`, testing; with
# `netem`, the guest of evidence/netem) needs and this machine lacks; says what and
# why before it does.
set -eu

wanted=()
need() { # what it is for, a test that it is there, package by package manager
    local why=$1 there=$2 package=$3
    if ! eval "$there" >/dev/null 2>&1; then
        echo "missing: $package ($why)"
        wanted+=("$package")
    fi
}

if command -v apt-get >/dev/null; then
    mqtt=libmosquitto-dev broker=mosquitto
    zmq=libzmq3-dev pcap=libpcap-dev tshark=tshark ping=iputils-ping cc=gcc busybox=busybox-static dnsmasq=dnsmasq-base
    install() { DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y --no-install-recommends "$@"; }
    refresh() { $sudo apt-get update; }
elif command -v dnf >/dev/null; then
    mqtt=mosquitto-devel broker=mosquitto
    zmq=zeromq-devel pcap=libpcap-devel tshark=wireshark-cli ping=iputils cc=gcc busybox=busybox dnsmasq=dnsmasq
    install() { $sudo dnf install -y "$@"; }
    refresh() { :; }
elif command -v pacman >/dev/null; then
    mqtt=mosquitto broker=mosquitto
    zmq=zeromq pcap=libpcap tshark=wireshark-cli ping=iputils cc=gcc busybox=busybox dnsmasq=dnsmasq
    install() { $sudo pacman -S --noconfirm --needed "$@"; }
    refresh() { :; }
else
    echo "no apt-get, dnf or pacman here: install libzmq (built with PGM), libmosquitto and libpcap with their headers by hand"
    mqtt=libmosquitto broker=mosquitto
    zmq=libzmq pcap=libpcap tshark=tshark ping=iputils cc=gcc busybox=busybox dnsmasq=dnsmasq
    install() { return 1; }
    refresh() { :; }
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"

linkable() { echo 'int main(void){return 0;}' | cc -x c - -o /dev/null "$@"; }
need "links programs" "command -v cc" "$cc"
need "ZeroMQ with PGM, for the interaction models" "linkable -lzmq" "$zmq"
need "MQTT clients" "linkable -lmosquitto" "$mqtt"
need "filters of captures" "linkable -lpcap" "$pcap"
if [ "${1:-}" = test ]; then
    need "an independent look at captures, in tests" "command -v tshark" "$tshark"
    need "an MQTT broker, in tests" "command -v mosquitto" "$broker"
    need "a program that nobody here wrote, in tests" "command -v ping" "$ping"
    if command -v apt-get >/dev/null; then
        need "clients of MQTT, in tests" "command -v mosquitto_sub" mosquitto-clients
        need "CoAP, in tests" "command -v coap-client-notls" libcoap3-bin
    fi
    need "bulk TCP, in tests" "command -v iperf3" iperf3
    need "a small system for nodes with a root of their own, in tests" "command -v busybox" "$busybox"
    need "addresses and names for nodes, in tests" "command -v dnsmasq || test -x /usr/sbin/dnsmasq" "$dnsmasq"
    need "a way out of the lab, in tests" "command -v slirp4netns" "slirp4netns"
fi
if [ "${1:-}" = netem ]; then
    command -v apt-get >/dev/null || { echo "the guest is made of Debian's packages: needs apt-get" && exit 1; }
    need "boots the guest" "command -v qemu-system-x86_64" qemu-system-x86
    need "the guest's shell and tools, and depmod" "command -v busybox" busybox-static
    need "tc, for the guest" "command -v tc" iproute2
    need "packs the guest's files" "command -v cpio" cpio
    need "compares" "python3 -c 'import venv, ensurepip'" python3-venv
fi

if [ ${#wanted[@]} -gt 0 ]; then
    echo "installing with the package manager: ${wanted[*]}"
    refresh
    install "${wanted[@]}"
fi
