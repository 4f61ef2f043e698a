#!/usr/bin/env bash
# Builds a member of the director for microcontrollers, an ARM Cortex-M4 and a RISC-V as in the
# ESP32-C3, and says how large it is. With `run`, also builds a hub with three members, and runs their
# sessions in QEMU's machines. Installs the targets of Rust if they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=$PWD/target/embedded
readonly crate=director/embedded arm=thumbv7em-none-eabihf riscv=riscv32imc-unknown-none-elf

for target in $arm $riscv; do
    if ! rustc --print sysroot --print target-libdir --target $target 2>/dev/null | tail -1 | xargs test -d &&
        ! rustup target add $target >/dev/null 2>&1; then
        echo "NOT RUN: the director for microcontrollers, because rustup cannot install the target $target"
        exit 0
    fi
done

# build TARGET FOLDER [ARGUMENT...]: a release build in this folder.
build() {
    local target=$1 folder=$2
    shift 2
    (cd $crate && CARGO_TARGET_DIR=$CARGO_TARGET_DIR/$folder cargo build --quiet --locked --release --target "$target" "$@")
}

# section FILE NAME: its size in bytes.
section() {
    local size
    size=$(readelf -SW "$1" | sed -n "s/^ *\[[ 0-9]*\] $2 *[A-Z]* *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p" | head -1)
    echo $((16#$size))
}

for target in $arm $riscv; do
    build $target member --no-default-features
    file=$CARGO_TARGET_DIR/member/$target/release/director-embedded
    echo "a member for $target: $(section "$file" .text) B of code, $(section "$file" .rodata) B of constants"
done
[ "${1:-}" = run ] || exit 0

for target in $arm $riscv; do
    build $target session
done
qemu() {
    local kind=$1
    shift
    command -v "qemu-system-$kind" >/dev/null || { echo "qemu-system-$kind is missing" >&2; exit 2; }
    timeout 300 "qemu-system-$kind" "$@" -nographic -semihosting-config enable=on,target=native
}
echo "Cortex-M4: $(qemu arm -machine mps2-an386 -kernel "$CARGO_TARGET_DIR/session/$arm/release/director-embedded")"
echo "RISC-V: $(qemu riscv32 -machine virt -bios none -kernel "$CARGO_TARGET_DIR/session/$riscv/release/director-embedded")"
