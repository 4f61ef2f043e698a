#!/usr/bin/env bash
# Fuzzes each target for some seconds, or the named ones, and prints a table: scripts/fuzz.sh SECONDS
# [TARGET...]. Starts from fuzz/corpus, which stays as it is; what is found goes to fuzz/target/found. Needs
# a nightly compiler and cargo-fuzz. The pace is that of one core.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?seconds for each target}
shift
cargo +nightly fuzz --version >/dev/null 2>&1 || {
    echo "error: cargo-fuzz or the nightly compiler is missing: run rustup toolchain install nightly" \
        "&& cargo install cargo-fuzz --locked" >&2
    exit 1
}
targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <(cd fuzz/targets && ls ./*.rs | sed 's|^\./||; s|\.rs$||')
# All at once: a build for each would compile the crates they share only once, too, but link in turn.
cargo +nightly fuzz build
printf '| target | tries | tries a second | memory, MB | new inputs | |\n| --- | --- | --- | --- | --- | --- |\n'
failed=0
for target in "${targets[@]}"; do
    found=fuzz/target/found/$target log=fuzz/target/$target.log
    mkdir -p "$found"
    before=$(ls "$found" | wc -l)
    outcome=ok
    cargo +nightly fuzz run "$target" "$found" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 \
        -max_len=65536 >"$log" 2>&1 || { outcome="failed, see $log" failed=1; }
    stat() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }
    printf '| `%s` | %s | %s | %s | %s | %s |\n' "$target" "$(stat number_of_executed_units)" \
        "$(stat average_exec_per_sec)" "$(stat peak_rss_mb)" "$(($(ls "$found" | wc -l) - before))" "$outcome"
done
exit $failed
