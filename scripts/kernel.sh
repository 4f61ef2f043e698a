#!/usr/bin/env bash
# Builds the guest kernel for virtual time, target/thingbed-linux: User Mode Linux from the
# distribution's source package, with kernel/config and kernel/patches. Four minutes on two cores.
# KERNEL_SOURCE names an unpacked source folder or a tar archive to use instead. Tested with Linux 6.1
# and 6.12. target/thingbed-linux.source names the source, which the licence requires for redistribution.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$PWD/target/thingbed-linux work=$PWD/target/kernel
stamp=$(cat kernel/config kernel/patches/* "$0" | sha256sum | cut -d' ' -f1)
built() { [ -x "$out" ] && [ "$(cat "$work/stamp" 2>/dev/null)" = "$stamp" ]; }
built && exit

mkdir -p "$work"
# Only one process builds; others wait for it. Tests start while it builds.
exec 9>"$work/lock"
flock 9
built && exit
fail() { echo "error: could not build the guest kernel: $1" >&2; exit 1; }

source_of() { # prints the archive or folder of the kernel's source
    if [ -n "${KERNEL_SOURCE:-}" ]; then echo "$KERNEL_SOURCE"; return; fi
    local known package; known=$(ls /usr/src/linux-source-*.tar.* "$work"/linux-source-*.tar.* 2>/dev/null | head -1)
    if [ -z "$known" ] && command -v apt-get >/dev/null; then
        package=$(apt-cache depends linux-source 2>/dev/null | sed -n 's/.*Depends: \(linux-source-[0-9][^ ]*\).*/\1/p' | head -1)
        package=${package:-linux-source-6.1}
        echo "fetching the kernel's source, $package: about 140 MB" >&2
        rm -rf "$work/package"; mkdir "$work/package"
        (cd "$work/package" && apt-get download "$package" >&2 && dpkg-deb -x ./*.deb . && rm ./*.deb) ||
            fail "apt-get download $package failed
  run apt-get update first, or set KERNEL_SOURCE=FOLDER or KERNEL_SOURCE=FILE.tar.xz to the source of Linux 6.1 or 6.12"
        find "$work/package" -type f -name 'linux-source-*.tar.*' -exec mv {} "$work/" \;
        rm -rf "$work/package"
        known=$(ls "$work"/linux-source-*.tar.* 2>/dev/null | head -1)
    fi
    [ -n "$known" ] || fail "found no package of its source
  set KERNEL_SOURCE=FOLDER or KERNEL_SOURCE=FILE.tar.xz to the source of Linux 6.1 or 6.12"
    echo "$known"
}

source=$(source_of)
source=$(realpath "$source")
if [ -d "$source" ]; then
    tree=$work/tree; rm -rf "$tree"; cp -r "$source" "$tree"
else
    tree=$work/tree; rm -rf "$tree"; mkdir "$tree"
    # Leaves out files that User Mode Linux does not compile, except Kconfig files.
    tar xf "$source" -C "$tree" --strip-components=1 --wildcards --exclude='*/Documentation/*/*' \
        --exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/media/*.[ch]' --exclude='*/drivers/staging/*.[ch]' \
        --exclude='*/drivers/scsi/*.[ch]' --exclude='*/drivers/infiniband/*.[ch]' --exclude='*/drivers/net/ethernet/*.[ch]' \
        --exclude='*/drivers/net/wireless/*.[ch]' --exclude='*/sound/*.[ch]' --exclude='*/tools/testing/*' \
        --exclude='*/tools/perf/*' --exclude='*.dts*' --exclude='*/arch/a[lr]*/*.[chS]' --exclude='*/arch/mips/*.[chS]' --exclude='*/arch/powerpc/*.[chS]' \
        --exclude='*/arch/s390/*.[chS]' --exclude='*/arch/sparc/*.[chS]' --exclude='*/arch/sh/*.[chS]' --exclude='*/arch/riscv/*.[chS]'
fi
for patch in kernel/patches/*.patch; do
    patch -d "$tree" -p1 -s <"$patch" || fail "$patch does not apply to $source; it is for Linux 6.1 and 6.12"
done
# The guest's processes must end with its kernel.
traced=$tree/arch/um/os-Linux/skas/process.c
sed -i 's/(void \*) *PTRACE_O_TRACESYSGOOD)/(void *) (PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))/' "$traced"
grep -q PTRACE_O_EXITKILL "$traced" || fail "$source does not trace its processes as Linux 6.1 and 6.12 do"
config=$PWD/kernel/config
cd "$tree"
# Reproducible: the same source gives the same kernel.
export KBUILD_BUILD_TIMESTAMP=@1767225600 KBUILD_BUILD_USER=thingbed KBUILD_BUILD_HOST=thingbed
KCONFIG_ALLCONFIG=$config make -s ARCH=um allnoconfig >"$work/log" || { tail -5 "$work/log" >&2; fail "make allnoconfig failed"; }
grep '=y$' "$config" | while read -r line; do
    grep -qx "$line" .config || echo "note: this source does not support $line"
done
echo "building the guest kernel (once): four minutes on two cores"
make -s ARCH=um -j"$(nproc)" linux >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; fail "see $work/log"; }
strip -o "$out" linux
cat >"$out.source" <<TEXT
thingbed-linux is Linux $(make -s ARCH=um kernelrelease) for User Mode Linux, licensed under GPL-2.0.
Built from $(basename "$source") ($([ -f "$source" ] && echo "SHA-256 $(sha256sum <"$source" | cut -d' ' -f1)" || echo "a folder")),
with the configuration, patches and script of Thingbed, which have the same licence: kernel/config, kernel/patches, scripts/kernel.sh.
If you redistribute thingbed-linux, you must also distribute these, or offer them for three years.
TEXT
echo "$stamp" >"$work/stamp"
rm -rf "$tree"
echo "built $out"
