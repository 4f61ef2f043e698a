# Runs FRR's OSPF with the configuration $1 in a node: with separate folders for sockets and states.
for folder in /run/frr /var/tmp/frr; do
    mkdir -p $folder && mount -t tmpfs -o mode=777 frr $folder || exit
done
/usr/lib/frr/zebra -d -f /dev/null && exec /usr/lib/frr/ospfd -f "$1"
