#!/bin/bash
# An OpenThread device: thread-device.sh NUMBER COUNT GAP ROUNDS EVERY ROUTERS ADDRESS
# Starts its network GAP s after the device before it, prints its state for 30 s, and pings from COUNT * GAP + 35 s
# on: in each round each device pings one other, and all devices together send one ping each EVERY s.
# COUNT - 1 rounds are all pairs, in both directions. Both pings of most pairs are in the same round: the second
# one then needs no address query, which each router repeats to all. So about half of each round's pings need none.
# Devices become routers while there are less than ROUTERS. ADDRESS is eid, or rloc: routing locators need no queries,
# and devices learn them from files in /tmp, which all nodes share in virtual time.
# routeridrange avoids the router number 0: all of OpenThread's simulated radios acknowledge frames to its address. Only
# a reference device has this command; others print an error.
# With many devices each process of a pause would take more time than the ping, so bash waits for input that never comes.
number=$1 count=$2 gap=$3 rounds=$4 every=$5 routers=$6 address=$7
pause=$(awk "BEGIN {print $count * $every}")
exec 3<> <(:)
pause() {
    read -rt "$1" <&3
}
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
routeridrange 1 62
routerupgradethreshold $routers
ifconfig up
ipaddr add fd00:db8:a0::1:$number
SETTINGS
    pause "$(awk "BEGIN {print 2 + $number * $gap}")"
    echo thread start
    for second in 1 1 1 1 1 2 3 5 5 10; do
        pause "$second"
        echo state
    done
    echo rloc16
    pause "$(awk "BEGIN {print ($count - $number) * $gap + 3 + $number * $every}")"
    round=1
    while [ "$round" -le "$rounds" ]; do
        away=$(((round + 1) / 2))
        block=$(((number - 1) / away))
        [ $(((round + block) % 2)) -eq 1 ] || away=$((count - away))
        to=$(((number - 1 + away) % count + 1))
        target=fd00:db8:a0::1:$to
        if [ "$address" = rloc ] && read -r locator < "/tmp/thread-rloc-$to"; then
            target=fd00:db8:a0::ff:fe00:$locator
        fi
        printf '%s\n' state partitionid rloc16 "ping $target"
        pause "$pause"
        round=$((round + 1))
    done
    echo state
    echo partitionid
    echo counters mac
    pause 600
} | ./ot-cli-ftd -L eth0 "$number" | perl -ne '
    # The line that rloc16 prints: four digits and a carriage return.
    if (/^([0-9a-f]{4})\r$/) { open F, ">", "/tmp/thread-rloc-'"$number"'"; print F "$1\n"; close F; }
    BEGIN { $| = 1 }
    print;'
