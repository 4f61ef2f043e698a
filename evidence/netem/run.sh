#!/usr/bin/env bash
# Compares the medium with the kernel's netem: builds a guest with Debian's kernel, boots
# it, and compares the received datagrams. Arguments are names of cases; the default is
# all. UNDER is a command to run the emulator under, LIMIT a timeout.
set -euo pipefail
cd "$(dirname "$0")/../.."

here=evidence/netem
work=target/netem
root=$work/root
modules=(virtio_pci virtio_blk tun veth sch_netem sch_tbf)

fetch_kernel() {
    local package files
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
    version=${package#linux-image-}
    mkdir -p "$work/cache"
    compgen -G "$work/cache/${package}_*.deb" >/dev/null ||
        (cd "$work/cache" && apt-get download "$package")
    files=("$work/cache/${package}"_*.deb)
    echo "kernel: $(basename "${files[0]}")"
    rm -rf "$work/kernel"
    dpkg-deb -x "${files[0]}" "$work/kernel"
    busybox depmod -b "$work/kernel" "$version"
}

# Copies files to the same paths as on this machine.
take() {
    local file
    for file; do
        mkdir -p "$root$(dirname "$file")"
        cp -rL "$file" "$root$file"
    done
}

build_root() {
    local from=$work/kernel/lib/modules/$version to=$root/lib/modules/$version name applet
    rm -rf "$root"
    mkdir -p "$root"/{bin,proc,sys,dev,tmp,run,etc,var/run} "$to"
    for name in "${modules[@]}"; do
        # Lines of modules.dep: a module, a colon, and its dependencies.
        sed -n "s|^\(.*/$name.ko\):|\1|p" "$from/modules.dep"
    done | tr ' ' '\n' | sort -u | (cd "$from" && cpio -pdm --quiet "$OLDPWD/$to")
    cp "$from"/modules.{builtin,order} "$to"
    busybox depmod -b "$root" "$version"
    cp "$(command -v busybox)" "$root/bin/busybox"
    for applet in $(busybox --list | grep -vxE 'busybox|ip|tc'); do
        ln -s busybox "$root/bin/$applet"
    done
    cp "$(command -v ip)" "$(command -v tc)" target/release/thingbed{,-nursery,-workload} "$root/bin/"
    cp target/release/examples/netem-probe "$root/bin/probe"
    # Lines of ldd: a name and its path, or a path alone.
    for name in "$root"/bin/{ip,tc,probe,thingbed,thingbed-fork-server,thingbed-workload}; do
        ldd "$name" | grep -o '/[^ ]*'
    done | grep -v : | sort -u | while read -r name; do take "$name"; done
    # shellcheck disable=SC2046  # paths without spaces
    take $(dpkg -L iproute2 | grep '\.dist$')
    echo "127.0.0.1 localhost" >"$root/etc/hosts"
    cp "$here/guest.sh" "$root/init"
    cp "$here/cases.txt" "$here/backend.txt" "$root/"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initramfs.gz"
}

boot() { # names of cases
    local only under
    only=$(IFS=, && echo "$*")
    read -ra under <<<"${UNDER:-}"
    rm -f "$work/disk"
    truncate -s 1G "$work/disk"
    # With icount the guest's clock counts its instructions, and skips idle time, so the
    # host's load does not affect it.
    timeout "${LIMIT:-3h}" "${under[@]}" qemu-system-x86_64 -M pc -cpu max -smp 1 -m 2G \
        -accel tcg -icount shift=0,sleep=off -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$work/kernel/boot/vmlinuz-$version" -initrd "$work/initramfs.gz" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off ${only:+only=$only}" \
        -drive "file=$work/disk,format=raw,if=virtio" -serial stdio \
        </dev/null
    rm -rf "$work/results"
    mkdir "$work/results"
    tar -xmf "$work/disk" -C "$work/results"
    {
        qemu-system-x86_64 --version | head -1
        echo "commit $(git describe --always --dirty)"
    } >>"$work/results/machine"
}

scripts/dependencies.sh netem
fetch_kernel
cargo build --release --locked --bins
cargo build --release --locked -p bench --example netem-probe
build_root
boot "$@"
if [ ! -d "$work/python" ]; then
    python3 -m venv "$work/python"
    "$work/python/bin/pip" install --quiet scipy
fi
"$work/python/bin/python" "$here/compare.py" "$here/cases.txt" "$work/results" | tee "$work/table.md"
