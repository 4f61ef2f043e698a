#!/usr/bin/env bash
# Creates the guest kernel for virtual time with a CPU of finite speed, target/thingbed-qemu, from
# Debian's package of a kernel for virtual machines, with the modules that nodes need. Takes a minute;
# needs apt-get. KERNEL_PACKAGE names another package that apt-get can download.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/thingbed-qemu work=$PWD/target/qemu-kernel
modules="nfit nd_pmem tun veth ifb dummy bridge macvlan 8021q sctp overlay tcp_bbr
    sch_netem sch_tbf sch_htb sch_fq sch_fq_codel sch_ingress cls_bpf cls_u32 act_mirred"
fail() { echo "error: could not create the kernel for QEMU: $1" >&2; exit 1; }
stamp=$(sha256sum <"$0" | cut -d' ' -f1)
[ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ] && exit
command -v apt-get >/dev/null || fail "found no apt-get, which fetches the Debian package
  put a kernel as vmlinuz and its modules, in the order to load them, into a folder, and set THINGBED_QEMU_KERNEL to it"

rm -rf "$work" "$out"; mkdir -p "$work" "$out"
package=${KERNEL_PACKAGE:-$(apt-cache depends linux-image-cloud-amd64 linux-image-kvm linux-image-virtual 2>/dev/null |
    sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -1)}
[ -n "$package" ] || fail "apt has no package linux-image-cloud-amd64; run apt-get update, or set KERNEL_PACKAGE to a package"
echo "fetching $package"
(cd "$work" && apt-get download "$package" >/dev/null) || fail "apt-get download $package failed"
dpkg-deb -x "$work"/*.deb "$work/tree"
image=$(ls "$work"/tree/boot/vmlinuz-*); version=${image##*/vmlinuz-}
lib=$(dirname "$(find "$work/tree" -type d -path "*/modules/$version" | head -1)")
depmod=$(command -v depmod || echo /sbin/depmod)
if [ -x "$depmod" ]; then "$depmod" -b "${lib%/lib/modules}" "$version"; else busybox depmod -b "${lib%/lib/modules}" "$version"; fi
cp "$image" "$out/vmlinuz"
# Prints each module after its dependencies.
order() {
    local line; line=$(grep -E "^[^:]*/$1\.ko[^:]*:" "$lib/$version/modules.dep" | head -1) || true
    [ -n "$line" ] || { echo "note: $version has no module $1, or it is built in" >&2; return; }
    echo "${line#*:}" | tr ' ' '\n' | grep . | tac || true
    echo "${line%%:*}"
}
number=100
for module in $modules; do order "$module"; done | awk '!seen[$0]++' | while read -r file; do
    name=$(basename "$file"); to=$out/$number-${name%%.ko*}.ko; number=$((number + 1))
    case $file in
    *.xz) xz -dc "$lib/$version/$file" >"$to" ;;
    *.zst) zstd -qdc "$lib/$version/$file" >"$to" ;;
    *) cp "$lib/$version/$file" "$to" ;;
    esac
done
echo "$stamp" >"$out/stamp"
rm -rf "$work"
echo "created $out: $version"
