# Prints the delay of each of 150 readings from its payload's time to its arrival.
mosquitto_sub -t 'readings/#' -q 1 -C 150 -W 88 -F '%U %p' | awk '{ printf "delay %.3f ms\n", ($1 - $2) * 1000 } END { print NR " of 150 readings" }'
