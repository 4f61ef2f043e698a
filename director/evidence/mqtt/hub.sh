# The hub: a broker, or the gateway of five devices.
case $1 in
mosquitto) exec mosquitto -c mosquitto.conf ;;
director) exec ./build/director-gateway hub --key build/key --local hub:5700 device-1:5700 device-2:5700 device-3:5700 device-4:5700 device-5:5700 ;;
esac
