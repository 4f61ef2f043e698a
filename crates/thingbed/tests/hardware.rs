//! Real hardware on a network of the lab: here the other end of a veth pair, in a namespace that is
//! independent of Thingbed.

mod common;

use common::{Bed, CommandOutput, figure, has, is_root, json};
use std::fs;
use std::process::Command;

const EXPERIMENT: &str = "experiment: plant
nodes:
  gateway: {}
  plc: {external: hw0}
networks:
  floor:
    attach: [gateway, plc]
    subnet: 10.6.0.0/24
    links: {plc: {up: {delay: 20 ms}, down: {delay: 20 ms}}}
workloads:
  - command: {on: gateway, run: [busybox, ping, -c, '5', -i, '0.2', plc]}
duration: 1 s
drain: 5 s
";

/// Prints the state of the interface, except for IPv6, which configures itself.
const LOOK: &str = "busybox ip link show hw0; busybox ip -4 addr show hw0; \
                    cd /sys/class/net/hw0; cat flags mtu address; cd - > /dev/null";

/// Waits for a condition instead of an interval, because a busy machine takes its time: the kernel
/// itself reports the carrier of a new interface up to a second late.
const AWAIT: &str = "separate() { [ $(readlink /proc/$hardware/ns/net) != \
                     $(readlink /proc/$$/ns/net) ]; }; \
                     carrier() { [ $(cat /sys/class/net/hw0/operstate) = up ]; }; \
                     pinged() { grep -q 'bytes from' runs/plant/*/programs/gateway.0.out 2> /dev/null; }; \
                     await() { tries=0; until $1; do tries=$((tries + 1)); \
                     [ $tries -lt 600 ] || { echo not within 60 s: $1 >&2; exit 99; }; \
                     busybox sleep 0.1; done; };";

/// Runs a shell line in which `hw0` is a host interface, connected to hardware with the address
/// 10.6.0.2.
fn with_hardware(bed: &Bed, line: &str) -> CommandOutput {
    let line = format!(
        "tool={}; busybox ip link add hw0 type veth; {AWAIT} \
         unshare -n sh -c 'busybox sleep 60' & hardware=$!; await separate; \
         peer=$(ls /sys/class/net | grep veth); busybox ip link set $peer netns $hardware; \
         there() {{ nsenter -t $hardware -n busybox \"$@\"; }}; \
         there ip addr add 10.6.0.2/24 dev $peer; there ip link set $peer up; \
         busybox ip link set hw0 up; await carrier; {line}",
        env!("CARGO_BIN_EXE_thingbed")
    );
    let mut command = Command::new("unshare");
    command.args(["-n", "-m", "-p", "-f", "--mount-proc", "sh", "-c"]);
    // /sys shows the namespace in which it was mounted.
    command.arg(format!("mount -t sysfs none /sys; {line}")).current_dir(bed.path());
    CommandOutput::of(command.output().unwrap())
}

fn able() -> bool {
    let able = is_root() && ["busybox", "unshare", "nsenter"].into_iter().all(has);
    if !able {
        eprintln!("NOT RUN: needs root, busybox, unshare and nsenter");
    }
    able
}

#[test]
fn hardware_takes_part_over_the_medium() {
    if !able() {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", EXPERIMENT);
    let look = LOOK;
    let line = format!(
        "{{ {look}; }} > before; $tool run e.yaml -q; status=$?; {{ {look}; }} > after; exit $status"
    );
    with_hardware(&bed, &line).ran(&["report: "]);
    let folder = bed.sweep("plant");
    let out = fs::read_to_string(folder.join("programs/gateway.0.out")).unwrap();
    assert!(out.contains("5 packets received, 0% packet loss"), "{out}");
    let least = out.split("= ").last().unwrap().split('/').next().unwrap();
    let least: f64 = least.parse().unwrap();
    assert!(least >= 40.0, "both ways of its link: {out}");
    let run = json(&folder.join("run.json"));
    assert_eq!(run["frame_path"], "packet");
    assert!(run["frame_path_reason"].as_str().unwrap().contains("hardware"), "{run:#}");
    let summary = json(&folder.join("summary.json"));
    assert!(figure(&summary, ".groups.plc.tx_frames") >= 5.0, "{summary:#}");
    let read = |name: &str| fs::read_to_string(bed.path().join(name)).unwrap();
    assert_eq!(read("before"), read("after"), "the host's interface is as it was");
}

#[test]
fn after_a_kill_the_interface_is_as_it_was() {
    if !able() {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", &EXPERIMENT.replace("'5', -i, '0.2'", "'100', -i, '0.2'"));
    let look = LOOK;
    let line = format!(
        "{{ {look}; }} > before; $tool run e.yaml -q & \
         await pinged; {{ {look}; }} > during; kill -9 $!; wait $!; \
         restored() {{ {{ {look}; }} > after; busybox cmp -s before after; }}; await restored; exit 0"
    );
    with_hardware(&bed, &line).expect(0, &[]);
    let read = |name: &str| fs::read_to_string(bed.path().join(name)).unwrap();
    assert!(read("before").contains("hw0") && read("during").contains("hw0"));
    assert_eq!(read("before"), read("after"));
}

#[test]
fn an_interface_that_cannot_be_had_is_told_with_its_mend() {
    if !able() {
        return;
    }
    let bed = Bed::new();
    bed.write("e.yaml", EXPERIMENT);
    let run = |before: &str| with_hardware(&bed, &format!("{before}; $tool run e.yaml -q"));
    run("busybox ip addr add 10.9.0.1/24 dev hw0")
        .expect(1, &["interface hw0", "10.9.0.1", "ip addr flush dev hw0"]);
    run("busybox ip link set hw0 down").expect(1, &["hw0", "it is down", "ip link set hw0 up"]);
    run("busybox ip link del hw0").expect(1, &["the interface does not exist", "interfaces: lo"]);
}
