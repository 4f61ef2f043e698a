#!/usr/bin/env bash
# Runs the sweeps of docs/results in virtual time, one after the other, and prints the SHA-256 of all
# files of each: two machines that print the same line have the same results. Resumes after an
# interruption. Takes a night on two cores.
#   virtual.sh THINGBED OUT [EXPERIMENT...]
set -eu
tool=$(realpath "$1"); mkdir -p "$2"; out=$(realpath "$2"); shift 2
cd "$(dirname "$0")/../experiments"
all="multi-protocol-small mqtt-quick cellular-quick thousand multi-protocol mqtt mqtt-partition cellular
    cellular-loss cellular-new cellular-shared wotbench-submitted adaptive-peers"
for name in ${*:-$all}; do
    began=$SECONDS
    before=$(ls -d "$out/$name"/*/ 2>/dev/null | tail -1 || true)
    resume=(--out "$out"); [ -z "$before" ] || resume=(--resume "$before")
    status=0; "$tool" run "$name.yaml" --clock virtual "${resume[@]}" >"$out/$name.txt" 2>&1 || status=$?
    folder=$(ls -d "$out/$name"/*/ | tail -1)
    sum=$(cd "$folder" && find . -type f ! -name host.json ! -name report.html | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum)
    verdict=$(grep -m1 'in virtual time: ' "$out/$name.txt" || echo "no verdict: see $out/$name.txt")
    echo "$name: exit status $status, $((SECONDS - began)) s, ${sum%% *}, $verdict"
done | tee -a "$out/digests.txt"
