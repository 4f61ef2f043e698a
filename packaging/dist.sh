#!/usr/bin/env bash
# Builds what users install, in target/packages: an archive that runs on other distributions, a Debian package, a folder for
# container images, and SHA256SUMS. `make dist` calls it. The programs link only glibc and libgcc; the C stacks are static.
# LINUX=no leaves out the guest kernel for virtual time; BUILT=yes packs what was built before. Needs a Debian or Ubuntu; ten minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
machine=$(uname -m) debian=$(dpkg --print-architecture)
out=$PWD/target/packages name=thingbed-$version-linux-$machine
if [ "${BUILT:-no}" = no ]; then
    [ "${LINUX:-yes}" = no ] || scripts/kernel.sh
    scripts/static-stacks.sh
    # The linker looks for libraries here first.
    LIBRARY_PATH=$PWD/target/static/lib cargo build --profile dist --locked -p thingbed -p workloads
fi

rm -rf "$out"; mkdir -p "$out"
tree=$out/$name
mkdir -p "$tree"/{bin,lib/thingbed,share/{man/man1,bash-completion/completions,doc/thingbed/third-party}}
# The oldest glibc that has all symbols that a program uses.
glibc_of() { objdump -T "$@" | grep -o 'GLIBC_[0-9.]*' | sed s/GLIBC_// | sort -uV | tail -1; }
for program in thingbed thingbed-workload; do
    strip -o "$tree/bin/$program" "target/dist/$program"
    needed=$(readelf -d "$tree/bin/$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    others=$(grep -vE '^(libc|libm|libgcc_s|ld-linux-[a-z0-9_-]+)\.so\.[0-9]+$' <<<"$needed" || true)
    [ -z "$others" ] || {
        echo "error: $program needs $others, which other systems may lack
  remove target/static and target/dist, and run make dist again" >&2
        exit 1
    }
done
programs=("$tree"/bin/*)
if [ "${LINUX:-yes}" != no ]; then
    cp target/thingbed-linux "$tree/lib/thingbed/"
    programs+=("$tree/lib/thingbed/thingbed-linux")
fi
glibc=$(glibc_of "${programs[@]}")

"$tree/bin/thingbed" manual "$tree/share/man/man1" >/dev/null
"$tree/bin/thingbed" completions bash >"$tree/share/bash-completion/completions/thingbed"
doc=$tree/share/doc/thingbed
cp README.md CHANGELOG.md SECURITY.md LICENSE-MIT LICENSE-APACHE "$doc/"
cargo xtask sbom "$doc/sbom.json" >/dev/null
cp target/static/copyright/* "$doc/third-party/"
{
    echo "The programs contain these C libraries, statically. Their licences are in third-party/."
    echo "Source packages of $(. /etc/os-release; echo "$PRETTY_NAME"), at https://snapshot.debian.org or your archive's mirror:"
    echo
    sed 's/^/    /' target/static/sources
    echo
    echo "To link them with changed libraries, run \`make dist\` in the source of Thingbed $version after changing"
    echo "scripts/static-stacks.sh. sbom.json lists the Rust crates."
    if [ -e "$tree/lib/thingbed/thingbed-linux" ]; then
        echo
        echo "lib/thingbed/thingbed-linux:"
        cat target/thingbed-linux.source
    fi
} >"$doc/SOURCES"
if [ -e "$tree/lib/thingbed/thingbed-linux" ]; then
    # What the licence of Linux requires, except Linux itself, which SOURCES names.
    mkdir -p "$doc/linux"
    cp -r kernel/config kernel/patches scripts/kernel.sh "$doc/linux/"
    source=$(ls /usr/src/linux-source-*.tar.* target/kernel/linux-source-*.tar.* 2>/dev/null | head -1 || true)
    [ -z "$source" ] || tar xf "$source" -O --wildcards '*/COPYING' --occurrence=1 >"$doc/linux/COPYING" 2>/dev/null || rm -f "$doc/linux/COPYING"
fi
cat >"$doc/INSTALL" <<END
Thingbed $version for $machine, Linux 5.11 or later, glibc $glibc or later (Debian 12, Ubuntu 22.04, Fedora 36).

  bin/thingbed doctor      lists what this machine lacks
  bin/thingbed demo        a first result

Copy bin, lib and share to /usr/local, or add bin to PATH. Capture filters need libpcap, at run time only.
END

tar -C "$out" --owner=0 --group=0 --sort=name -czf "$out/$name.tar.gz" "$name"

package=$out/deb
mkdir -p "$package/DEBIAN" "$package/usr"
cp -r "$tree"/bin "$tree"/share "$package/usr/"
mkdir -p "$package/usr/lib"; cp -r "$tree/lib/thingbed" "$package/usr/lib/"
mv "$package/usr/share/doc/thingbed/CHANGELOG.md" "$package/usr/share/doc/thingbed/changelog"
gzip -9n "$package/usr/share/doc/thingbed/changelog" "$package"/usr/share/man/man1/*
cat LICENSE-MIT >"$package/usr/share/doc/thingbed/copyright"
printf '\nOr, at your choice, the Apache License 2.0: see /usr/share/common-licenses/Apache-2.0.\nOther parts: see SOURCES and third-party.\n' \
    >>"$package/usr/share/doc/thingbed/copyright"
rm "$package"/usr/share/doc/thingbed/{LICENSE-MIT,LICENSE-APACHE,INSTALL}
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$debian/" -e "s/@GLIBC@/$glibc/" \
    -e "s/@SIZE@/$(du -sk "$package/usr" | cut -f1)/" packaging/debian/control >"$package/DEBIAN/control"
find "$package" -type d -exec chmod 755 {} +
dpkg-deb --root-owner-group --build "$package" "$out/thingbed_${version}_$debian.deb" >/dev/null
rm -rf "$package"

if [ -x target/package/bin/pip ]; then
    mkdir "$out/wheel"
    cp "$tree"/bin/* "$out/wheel/"
    [ "${LINUX:-yes}" = no ] || cp target/thingbed-linux "$out/wheel/"
    THINGBED_WHEEL_BINARIES=$out/wheel THINGBED_WHEEL_PLATFORM=manylinux_${glibc/./_}_$machine \
        target/package/bin/pip wheel --quiet --no-deps --wheel-dir "$out" ./python
    rm -rf "$out/wheel"
fi

cp packaging/Containerfile "$out/"
(cd "$out" && sha256sum -- *.tar.gz *.deb $(ls ./*.whl 2>/dev/null || true) >SHA256SUMS)
echo "needs glibc $glibc; made:"
ls -lh "$out" | tail -n +2
