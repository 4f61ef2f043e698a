# A reading every two seconds for a minute, at QoS 1: its time, and padding to 100 bytes.
[ "$1" = director ] && broker=127.0.0.1 || broker=hub
n=0
while [ $n -lt 30 ]; do
    n=$((n + 1))
    printf '%s %080d\n' "$(date +%s.%N)" $n
    sleep 2
done | mosquitto_pub -h $broker -t "readings/$THINGBED_NODE" -q 1 -l
