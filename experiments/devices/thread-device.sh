#!/bin/sh
# An OpenThread device: thread-device.sh NUMBER COUNT GAP
# Starts its network GAP s after the device before it, prints its state for 30 s, and after
# COUNT * GAP + 35 s pings each other device, or one if there are more than 50, with a fifth of a second
# between the pings of all devices.
number=$1 count=$2 gap=$3
[ "$count" -le 50 ] && pings=$((count - 1)) || pings=1
{
    cat <<SETTINGS
dataset clear
dataset activetimestamp 1
dataset channel 15
dataset panid 0x1234
dataset extpanid 1111111122222222
dataset networkname bed
dataset meshlocalprefix fd00:db8:a0::
dataset networkkey 00112233445566778899aabbccddeeff
dataset pskc 445f2b5ca6f2a93a55ce570a70efeecb
dataset securitypolicy 672 onrc
dataset commit active
ifconfig up
ipaddr add fd00:db8:a0::1:$number
SETTINGS
    sleep "$(awk "BEGIN {print 2 + $number * $gap}")"
    echo thread start
    for pause in 1 1 1 1 1 2 3 5 5 10; do
        sleep $pause
        echo state
    done
    sleep "$(awk "BEGIN {print ($count - $number) * $gap + 3 + $number / 5}")"
    round=1
    while [ "$round" -le "$pings" ]; do
        echo "ping fd00:db8:a0::1:$(((number - 1 + round * 7919) % count + 1))"
        sleep "$(awk "BEGIN {print $count / 5}")"
        round=$((round + 1))
    done
    echo state
    echo counters mac
    sleep 600
} | exec ./ot-cli-ftd -L eth0 "$number"
