#!/usr/bin/env bash
# Installs missing system packages, and prints each with its purpose before that. Argument: none for
# building everything, `run` for what `make run` builds, `test` for testing, `kernel` for building the
# guest kernel, `qemu` for QEMU's guest kernel, `netem` for the guest of evidence/netem, `peers` for
# the protocols of director/evidence/peers.py.
set -eu

missing=()
need() { # purpose, command that tests its presence, package name
    local purpose=$1 test=$2 package=$3
    if ! eval "$test" >/dev/null 2>&1; then
        echo "missing: $package ($purpose)"
        missing+=("$package")
    fi
}

if command -v apt-get >/dev/null; then
    mqtt=libmosquitto-dev broker=mosquitto coap=libcoap3-dev venv=python3-venv clang=libclang-dev
    qemu=qemu-system-x86 xz=xz-utils zmq=libzmq3-dev pcap=libpcap0.8 tshark=tshark ping=iputils-ping cc=gcc busybox=busybox-static dnsmasq=dnsmasq-base procps=procps
    install() { DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y --no-install-recommends "$@"; }
    refresh() { $sudo apt-get update; }
elif command -v dnf >/dev/null; then
    mqtt=mosquitto-devel broker=mosquitto coap=libcoap-devel venv=python3-pip clang=clang-devel
    qemu=qemu-system-x86-core xz=xz zmq=zeromq-devel pcap=libpcap tshark=wireshark-cli ping=iputils cc=gcc busybox=busybox dnsmasq=dnsmasq procps=procps-ng
    install() { $sudo dnf install -y "$@"; }
    refresh() { :; }
elif command -v pacman >/dev/null; then
    mqtt=mosquitto broker=mosquitto coap=libcoap venv=python clang=clang
    qemu=qemu-system-x86 xz=xz zmq=zeromq pcap=libpcap tshark=wireshark-cli ping=iputils cc=gcc busybox=busybox dnsmasq=dnsmasq procps=procps-ng
    install() { $sudo pacman -S --noconfirm --needed "$@"; }
    refresh() { :; }
else
    echo "found no apt-get, dnf or pacman. Install these by hand: libzmq (built with PGM), libmosquitto, libcoap (with OpenSSL), libpcap and libclang with their headers, and cmake"
    mqtt=libmosquitto broker=mosquitto coap=libcoap venv=python clang=libclang
    qemu=qemu-system-x86_64 xz=xz zmq=libzmq pcap=libpcap tshark=tshark ping=iputils cc=gcc busybox=busybox dnsmasq=dnsmasq procps=procps
    install() { return 1; }
    refresh() { :; }
fi
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"

has_libclang() { # the library and the compiler's headers
    ls "${LIBCLANG_PATH:-/nowhere}"/libclang*.so* /usr/lib/llvm*/lib/libclang[.-][!c]*so* \
        /usr/lib*/libclang[.-][!c]*so* /usr/lib/*/libclang[.-][!c]*so* 2>/dev/null | grep -q . &&
        ls /usr/lib*/llvm*/lib*/clang/*/include/stddef.h /usr/lib*/clang/*/include/stddef.h \
            2>/dev/null | grep -q .
}
has_libpcap() { # loaded by its file name, so that its headers are not needed
    ls /usr/lib*/libpcap.so.[01]* /usr/lib/*/libpcap.so.[01]* 2>/dev/null | grep -q .
}
linkable() { echo 'int main(void){return 0;}' | cc -x c - -o /dev/null "$@"; }
static_busybox() { # a dynamic busybox does not start in nodes whose root has no libraries
    command -v busybox && ! ldd "$(command -v busybox)" | grep -q '=>'
}
need "links programs" "command -v cc" "$cc"
need "ZeroMQ with PGM, for the interaction models" "linkable -lzmq" "$zmq"
need "MQTT clients" "linkable -lmosquitto" "$mqtt"
need "CoAP" "linkable -lcoap-3-openssl" "$coap"
need "capture filters" "has_libpcap" "$pcap"
if [ "${1:-}" != run ]; then
    # open62541-sys builds the library and reads its headers.
    need "builds the OPC UA stack" "command -v cmake" cmake
    need "builds the OPC UA stack" "command -v python3" python3
    need "reads the OPC UA stack's headers" "has_libclang" "$clang"
fi
if [ "${1:-}" = test ]; then
    need "an independent capture analysis, in tests" "command -v tshark" "$tshark"
    need "an MQTT broker, in tests" "command -v mosquitto" "$broker"
    need "a third-party program, in tests" "command -v ping" "$ping"
    if command -v apt-get >/dev/null; then
        need "MQTT clients, in tests" "command -v mosquitto_sub" mosquitto-clients
        need "a third-party web server, in tests" "command -v nginx || test -x /usr/sbin/nginx" nginx
        need "an HTTP client for it, in tests" "command -v curl" curl
        need "an HTTP client that sends many requests, in tests" "command -v ab" apache2-utils
        need "MQTT from Python, in tests" "python3 -c 'import paho.mqtt' || /usr/bin/python3 -c 'import paho.mqtt'" python3-paho-mqtt
        need "programs for arm64, in tests" "command -v qemu-aarch64-static" qemu-user-static
        need "CoAP, in tests" "command -v coap-client-notls" libcoap3-bin
        need "a cluster, in tests" "command -v slurmctld || test -x /usr/sbin/slurmctld" slurmctld
        need "a cluster's nodes, in tests" "command -v slurmd || test -x /usr/sbin/slurmd" slurmd
        need "a cluster's commands, in tests" "command -v sbatch" slurm-client
        need "a cluster's keys, in tests" "command -v munged || test -x /usr/sbin/munged" munge
    fi
    need "an HTTP client, in tests" "command -v curl" curl
    need "lists of processes, in tests" "command -v pgrep" "$procps"
    need "bulk TCP, in tests" "command -v iperf3" iperf3
    need "a small system for nodes with their own root, in tests" "static_busybox" "$busybox"
    need "DHCP and DNS for nodes, in tests" "command -v dnsmasq || test -x /usr/sbin/dnsmasq" "$dnsmasq"
    need "NAT to the outside, in tests" "command -v slirp4netns" "slirp4netns"
    need "Python packages, in tests" "python3 -c 'import venv, ensurepip'" "$venv"
fi
if [ "${1:-}" = test ] || [ "${1:-}" = run ] || [ "${1:-}" = qemu ]; then
    need "virtual time with a CPU of finite speed" "command -v qemu-system-x86_64" "$qemu"
    need "sorts the modules of its kernel" "command -v depmod || test -x /sbin/depmod || command -v busybox" kmod
fi
if [ "${1:-}" = test ] || [ "${1:-}" = kernel ]; then
    need "configures the guest kernel" "command -v flex" flex
    need "configures the guest kernel" "command -v bison" bison
    need "builds the guest kernel" "command -v bc" bc
    need "builds the guest kernel" "command -v make" make
    need "builds the guest kernel" "command -v patch" patch
    need "unpacks its source" "command -v xz" "$xz"
fi
if [ "${1:-}" = netem ]; then
    command -v apt-get >/dev/null || { echo "error: found no apt-get, which fetches the Debian packages of the guest" && exit 1; }
    need "boots the guest" "command -v qemu-system-x86_64" qemu-system-x86
    need "the guest's shell and tools, and depmod" "static_busybox" busybox-static
    need "tc, for the guest" "command -v tc" iproute2
    need "packs the guest's files" "command -v cpio" cpio
    need "the comparison" "python3 -c 'import venv, ensurepip'" python3-venv
fi
if [ "${1:-}" = peers ]; then
    need "Python packages" "python3 -c 'import venv, ensurepip'" "$venv"
    need "the MQTT broker" "command -v mosquitto" "$broker"
    if command -v apt-get >/dev/null; then
        need "NORM" "python3 -c 'import ctypes; ctypes.CDLL(\"libnorm.so.1\")'" libnorm1
    fi
fi

if [ ${#missing[@]} -gt 0 ]; then
    echo "installing with the package manager: ${missing[*]}"
    refresh
    install "${missing[@]}"
fi

# Third-party protocol stacks for tests: Python packages in target/interop.
if [ "${1:-}" = test ]; then
    cd "$(dirname "$0")/.."
    list=crates/thingbed/tests/interop/requirements.txt
    if ! cmp -s "$list" target/interop/requirements.txt; then
        echo "installing into target/interop: $(grep -v '^#' "$list" | tr '\n' ' ')"
        python3 -m venv target/interop
        target/interop/bin/pip install --quiet --disable-pip-version-check -r "$list"
        cp "$list" target/interop/requirements.txt
    fi
fi
