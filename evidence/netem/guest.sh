#!/bin/sh
# The guest's only process: runs each case over a veth pair with tc's qdisc, then over the
# medium, and some with `backend: netem`; writes the results to the disk as a tar archive.
set -eu
export PATH=/bin:/sbin:/usr/bin:/usr/sbin

# Busybox has built-in ip and tc commands, which would take precedence.
ip() { /bin/ip "$@"; }
tc() { /bin/tc "$@"; }
say() { echo "guest: $*"; }
finish() {
    status=$?
    [ "$status" = 0 ] || say "ended with status $status"
    poweroff -f
}
trap finish EXIT

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
for module in virtio_pci virtio_blk tun veth sch_netem sch_tbf; do modprobe "$module"; done
ip link set lo up
mkdir -p /tmp/out /run/netns
cd /tmp/out

# The addresses that the tool assigns to its nodes.
sender_mac=02:00:0a:09:00:01
receiver_mac=02:00:0a:09:00:02
port=7000

over_veth() { # name, qdisc, count, gap, size, together
    ip netns add sender
    ip netns add receiver
    for node in sender receiver; do
        ip netns exec "$node" sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6' || true
    done
    ip link add eth0 netns sender address $sender_mac type veth \
        peer name eth0 netns receiver address $receiver_mac
    ip -n sender address add 10.9.0.1/24 dev eth0
    ip -n receiver address add 10.9.0.2/24 dev eth0
    ip -n sender link set eth0 up
    ip -n receiver link set eth0 up
    ip -n sender neighbour replace 10.9.0.2 lladdr $receiver_mac dev eth0 nud permanent
    ip -n receiver neighbour replace 10.9.0.1 lladdr $sender_mac dev eth0 nud permanent
    case $2 in
    -) ;;
    netem*limit* | tbf*)
        # shellcheck disable=SC2086  # words of tc
        tc -n sender qdisc replace dev eth0 root $2
        ;;
    *)
        # shellcheck disable=SC2086
        tc -n sender qdisc replace dev eth0 root netem limit 100000 ${2#netem }
        ;;
    esac
    ip netns exec receiver probe receive $port 10.9.0.1 "$1.netem" &
    ip netns exec sender probe send $port "$3" "$4" "$5" "$6"
    wait $!
    tc -s -n sender qdisc show dev eth0 >"$1.qdisc"
    ip netns del sender
    ip netns del receiver
}

over_tool() { # name, side, keys of the network, count, gap, size, together, seed
    cat >experiment.yaml <<END
experiment: $1
nodes: {sender: {}, receiver: {}}
networks:
  wire:
    attach: [sender, receiver]
    subnet: 10.9.0.0/24
    $3
workloads:
  - command:
      on: receiver
      run: [sh, -c, '/bin/ip neighbour replace 10.9.0.1 lladdr $sender_mac dev eth0 nud permanent && exec probe receive $port 10.9.0.1 $PWD/$1.$2']
  - command:
      on: sender
      run: [sh, -c, '/bin/ip neighbour replace 10.9.0.2 lladdr $receiver_mac dev eth0 nud permanent && exec probe send $port $4 $5 $6 $7']
duration: $(($4 * $5 / $7 / 1000000 + 2)) s
drain: 1 min
seed: $8
END
    thingbed run experiment.yaml --out runs >"$1.$2.log" 2>&1 || say "thingbed exited with $? for $1 ($2)"
    mv runs/"$1"/*/run.json "$1.$2.run.json"
    mv runs/"$1"/*/summary.json "$1.$2.summary.json"
    rm -r runs
}

trim() { echo "$1" | sed 's/^ *//; s/ *$//'; }

only=$(sed -n 's/.*only=\([^ ]*\).*/\1/p' /proc/cmdline)
{
    uname -srvm
    tc -V
    thingbed --version
    cat /sys/devices/system/clocksource/clocksource0/current_clocksource
} >machine
seed=0
while IFS='|' read -r name qdisc medium probes; do
    seed=$((seed + 1))
    name=$(trim "$name")
    case $name in '#'* | '') continue ;; esac
    [ -z "$only" ] || echo ",$only," | grep -q ",$name," || continue
    # shellcheck disable=SC2086  # four numbers
    set -- $probes
    say "$name"
    over_veth "$name" "$(trim "$qdisc")" "$@"
    settings=$(trim "$medium")
    over_tool "$name" medium "links: {sender: {up: $settings}}" "$@" "$seed"
    if grep -qx "$name" /backend.txt; then
        over_tool "$name" up "backend: netem
    links: {sender: {up: $settings}}" "$@" "$seed"
        over_tool "$name" down "backend: netem
    links: {receiver: {down: $settings}}" "$@" "$seed"
    fi
    say "$(wc -l <"$name.netem") and $(wc -l <"$name.medium") of $1 arrived"
done </cases.txt
tar -cf /dev/vda ./*
sync
say "done"
