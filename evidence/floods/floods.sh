#!/bin/bash
# Memory of a running lab under floods from one of its nodes (docs/results/floods.md).
# Usage, as root: evidence/floods/floods.sh THINGBED SECONDS [FLOOD...]
# Floods: igmp2 igmp3 mld mac tcp arp out
set -eu
tool=$(realpath "$1") seconds=$2
shift 2
[ $# -gt 0 ] || set -- igmp2 igmp3 mld mac tcp arp out
here=$(dirname "$(realpath "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cc -O2 -o "$dir/flood" "$here/flood.c"
cd "$dir"

memory() { awk '/VmRSS|VmLck/ { printf "%s %d MB, ", $1, $2 / 1024 }' "/proc/$1/status"; }

for flood in "$@"; do
    cat > lab.yaml <<YAML
experiment: floods
nodes:
  node: {count: 3}
  printer: {run: [$([ "$flood" = out ] && echo "$dir/flood, none, out, '$seconds'" || echo "sleep, '1000'")]}
networks:
  field:
    attach: [node, printer]
    subnet: 10.77.0.0/24
    links: {node: {up: {delay: 1 ms, loss: 1 %}}}
YAML
    rm -rf runs
    "$tool" up lab.yaml --out runs > up.log 2>&1 &
    lab=$!
    until "$tool" exec --lab floods node-1 -- true 2> /dev/null; do
        kill -0 $lab
        sleep 0.2
    done
    before=$(memory $lab)
    if [ "$flood" = out ]; then
        sleep $((seconds + 2))
    else
        "$tool" exec --lab floods node-1 -- "$dir/flood" eth0 "$flood" "$seconds"
        sleep 1
    fi
    after=$(memory $lab)
    disk=$(du -sm runs | cut -f1)
    "$tool" down --lab floods > /dev/null
    wait $lab || true
    echo "$flood: before $before after $after run folder $disk MB, at the end $(du -sm runs | cut -f1) MB"
done
