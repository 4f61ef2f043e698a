#!/usr/bin/env bash
# Finds the seed of the bug in valve.py by a sweep in virtual time, repeats that run twenty times, and
# stops it just before it fails. Half an hour for 400 runs.
#   run.sh THINGBED OUT [RUNS]
set -eu
tool=$(realpath "$1"); mkdir -p "$2"; out=$(realpath "$2"); runs=${3:-400}
cd "$(dirname "$0")"
"$tool" run valve.yaml --clock virtual --repeat "$runs" --quiet --out "$out/sweep" || [ $? -eq 4 ]
sweep=$(ls -d "$out"/sweep/valve/* | tail -1)
failed=$(grep -l '"status": "failed"' "$sweep"/*/run.json | sed 's|.*/\([0-9]*\)/run.json|\1|' | sort -n)
echo "failed of $runs: $failed"
one=$(echo "$failed" | head -1)
for n in $(seq 20); do
    "$tool" run valve.yaml --clock virtual --only repeat="$one" --quiet --out "$out/again-$n" >/dev/null || [ $? -eq 4 ]
    (cd "$out/again-$n"/valve/*/ && grep -h "the valve is" programs/*.out && find . -type f ! -name host.json | sort | xargs sha256sum | sha256sum)
done | sort | uniq -c
# Stops before the last two steps and traces the valve's calls: the shell reads these lines.
typed='valve
strace -tt -e trace=recvfrom,sendto -p $(pgrep -f valve.py) -o /tmp/calls &
exit
go 600ms
valve
cut -c1-60 /tmp/calls
exit
go'
echo "$typed" | "$tool" run valve.yaml --clock virtual --only repeat="$one" --stop-at 1.2s --quiet --out "$out/stopped" || [ $? -eq 4 ]
