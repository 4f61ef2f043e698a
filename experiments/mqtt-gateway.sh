# A reading every two seconds for a minute, at QoS 1: its time, and padding to 100 bytes.
n=0
while [ $n -lt 30 ]; do
    n=$((n + 1))
    printf '%s %080d\n' "$(date +%s.%N)" $n
    sleep 2
done | mosquitto_pub -h mqtt-broker -t "readings/$THINGBED_NODE" -q 1 -V "$1" -l
