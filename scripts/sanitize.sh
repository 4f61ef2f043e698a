#!/usr/bin/env bash
# The address sanitizer over the tests of the crates that call C, and Miri over unsafe code that needs no
# system call. Needs: rustup toolchain install nightly --component rust-src,miri
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
status=0
# Leaks are those of C libraries at exit. The sanitizer comes with the compiler, so C code of crates is
# linked with it, but is not instrumented itself; its allocations are.
export ASAN_OPTIONS=detect_leaks=0
sanitized() { # package, features, filter of tests...
    echo "== address sanitizer: $*"
    RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/sanitize \
        cargo +nightly test --quiet --target "$host" "$@" || status=1
}
sanitized -p thingbed-stacks --features mqtt,zeromq --lib
sanitized -p thingbed-director-c --lib
sanitized -p engine --lib -- io::
sanitized -p load --lib
sanitized -p workloads --no-default-features --lib
# Miri makes no calls into C and few system calls, so only this unsafe code is for it. The crates of pure
# computation (link, units, record and others) have none.
echo "== Miri: director-c"
MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=target/miri \
    cargo +nightly miri test --quiet -p thingbed-director-c --lib -- table || status=1
exit $status
