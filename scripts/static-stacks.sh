#!/usr/bin/env bash
# Builds static C libraries for `make dist` in target/static/lib, from the distribution's source packages: libmosquitto
# and libzmq with PGM. Debian has no static libmosquitto, and its static libzmq needs Kerberos. libcoap, libpgm and
# OpenSSL are those of the -dev packages. target/static/sources lists all of them. Two minutes on two cores.
# Needs a Debian or Ubuntu, and root or sudo for missing packages.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/static lib=$PWD/target/static/lib
stamp=$({ cat "$0"; . /etc/os-release; echo "${ID:-} ${VERSION_ID:-}"; } | sha256sum | cut -d' ' -f1)
[ "$(cat "$out/stamp" 2>/dev/null)" != "$stamp" ] || exit 0
command -v apt-get >/dev/null || {
    echo "error: \`make dist\` builds the C libraries from source packages of Debian or Ubuntu; this system has no apt-get
  \`make build\` builds programs that use the libraries of this system" >&2
    exit 1
}

sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
needed=()
for package in dpkg-dev g++ make pkg-config libpgm-dev libssl-dev libcoap3-dev autoconf automake libtool; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || needed+=("$package")
done
if [ ${#needed[@]} -gt 0 ]; then
    echo "installing, for static libraries: ${needed[*]}"
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y --no-install-recommends "${needed[@]}"
fi

# Lists of source packages, apart from the system's.
rm -rf "$out"; mkdir -p "$lib" "$out/apt/parts" "$out/apt/lists/partial" "$out/src"
for list in /etc/apt/sources.list.d/*.sources; do
    [ -e "$list" ] && sed 's/^Types:.*/Types: deb-src/' "$list" >"$out/apt/parts/$(basename "$list")"
done
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -e "$list" ] && sed -n 's/^deb /deb-src /p' "$list" >"$out/apt/parts/$(basename "$list" .list).list"
done
# Only those of the distribution: others have no source packages of these libraries.
grep -LE 'debian\.org|ubuntu\.com' "$out"/apt/parts/* | xargs -r rm --
apt() {
    apt-get -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$out/apt/parts" \
        -o Dir::State::Lists="$out/apt/lists" -o APT::Sandbox::User= "$@"
}
apt update -q >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
# Unpacks the source of a package, with the distribution's patches, and enters it.
source_of() {
    cd "$out/src"
    apt source -q "$1" >>"$out/log" 2>&1 || { tail -5 "$out/log" >&2; exit 1; }
    sed -n '/^Source:/s/.*: //p; /^Version:/s/.*: /  /p' "$1"_*.dsc | paste -sd' ' >>"$out/sources"
    mkdir -p "$out/copyright"
    cp "$out/src/$1"-*/debian/copyright "$out/copyright/$1"
    local folders=("$out/src/$1"-*/)
    cd "${folders[0]}"
}
quietly() { "$@" >>"$out/log" 2>&1 || { tail -20 "$out/log" >&2; echo "error: $* failed in $PWD, see $out/log" >&2; exit 1; }; }

export CFLAGS="-O2 -fPIC" CXXFLAGS="-O2 -fPIC" MAKEFLAGS="-j$(nproc)"
echo "building static libraries: libmosquitto, libzmq"
(
    source_of mosquitto
    quietly make -C lib WITH_STATIC_LIBRARIES=yes WITH_SHARED_LIBRARIES=no WITH_SRV=no libmosquitto.a
    cp lib/libmosquitto.a "$lib/libmosquitto_objects.a"
)
(
    source_of zeromq3
    [ -x configure ] || quietly autoreconf -fi
    quietly ./configure --disable-shared --enable-static --with-pgm --without-norm --without-libsodium \
        --without-libgssapi_krb5 --disable-libbsd --without-docs --disable-perf --disable-curve --disable-curve-keygen --disable-Werror
    quietly make src/libzmq.la
    cp src/.libs/libzmq.a "$lib/libzmq_objects.a"
)
# rustc asks for libraries by name and one by one. These texts, which the linker reads as a library, name the archives
# behind them.
of() { cc -print-file-name="$1"; }
ssl="$(of libssl.a) $(of libcrypto.a)"
echo "GROUP ( $lib/libmosquitto_objects.a $ssl )" >"$lib/libmosquitto.so"
echo "GROUP ( $(of libcoap-3-openssl.a) $ssl )" >"$lib/libcoap-3-openssl.so"
echo "GROUP ( $lib/libzmq_objects.a $(of libpgm.a) $(of libstdc++.a) $(of libm.so) )" >"$lib/libzmq.so"
for package in libcoap3-dev libpgm-dev libssl-dev; do
    dpkg-query -W -f '${source:Package}   ${source:Version}\n' "$package" >>"$out/sources"
    cp "/usr/share/doc/$package/copyright" "$out/copyright/$(dpkg-query -W -f '${source:Package}' "$package")"
done
rm -rf "$out/src" "$out/apt"
echo "$stamp" >"$out/stamp"
