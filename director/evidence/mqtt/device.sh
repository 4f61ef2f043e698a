# A device: with Mosquitto, clients connect to the hub.
case $1 in
mosquitto) exec sleep 100000 ;;
director) exec ./build/director-gateway device --key build/key --local "$THINGBED_NODE:5700" --hub hub:5700 ;;
esac
