# Puts the node into the VLAN $1, with an address of its number.
ip link add link eth0 name "eth0.$1" up type vlan id "$1" && exec ip addr add "192.168.0.${THINGBED_NODE#host-}/24" dev "eth0.$1"
