//! Networks of a running lab: links changed by hand, bridges in nodes, multicast.

mod common;

use common::live::{Live, until};
use common::{Bed, has, is_root};

const LAB: &str = "experiment: NAME
nodes: {server: {}, meter: {count: 2}}
networks:
  lan:
    attach: [server, meter]
    subnet: 10.1.0.0/24
    links: {meter: {up: {gilbert_elliott: {p: 1 %, r: 90 %}}}}
";

fn link(lab: &Live<'_>, words: &[&str]) -> common::CommandOutput {
    lab.bed.thingbed(&[&["link", words[0], "--lab", &lab.name], &words[1..]].concat())
}

/// The current delay of a link during a ramp, in ms.
fn delay_ms(lab: &Live<'_>) -> f64 {
    let shown = link(lab, &["show", "server"]).expect(0, &[]).out;
    let line = shown.lines().find(|line| line.contains("lan up")).unwrap();
    let now = line.split("->").next().unwrap().split("delay ").nth(1);
    let now = now.unwrap_or("0 ms").trim();
    now.parse::<units::Span>().unwrap_or_else(|error| panic!("{line}: {error}")).as_ms()
}

#[test]
fn a_link_that_carries_nothing_shows_what_it_is_configured_to_do_now() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "ramp", LAB);
    let output = link(&lab, &["set", "server", "--way", "up", "delay=100 s", "--over", "100 s"]);
    output.expect(0, &["server lan up", "-> delay 100 s"]);
    // No frame passes, and the delay increases by one second per second.
    let before = delay_ms(&lab);
    until(|| delay_ms(&lab) > before + 200.0, || format!("{} ms", delay_ms(&lab)));
    // Setting another key does not affect the ramp.
    let output = link(&lab, &["set", "server", "--way", "up", "loss=5%"]);
    output.expect(0, &["-> loss 5 % per frame, delay 100 s"]);
    let before = delay_ms(&lab);
    until(|| delay_ms(&lab) > before + 200.0, || format!("{} ms", delay_ms(&lab)));
    // Setting the same key ends it.
    let output = link(&lab, &["set", "server", "--way", "up", "delay=7ms"]).expect(0, &[]);
    assert!(
        output.out.contains("server lan up    loss 5 % per frame, delay 7 ms\n"),
        "{}",
        output.out
    );
}

#[test]
fn links_change_by_the_rules_of_the_file() {
    let bed = Bed::new();
    let lab = Live::up(&bed, "rules", LAB);
    let wrong = [
        (&["delay=80"][..], &["link set:2:10", "80 ms"][..]),
        (&["los=5%"], &["unknown key `los`", "did you mean `loss`?"]),
        (&["jitter=5ms"], &["a jitter of 5 ms above the delay of 0 ms", "clip: true"]),
        (&["queue=10"], &["`queue` without a `rate` has no effect"]),
        (&["loss=5%", "markov={p13: 1 %}"], &["a link has only one loss model"]),
    ];
    for (keys, words) in wrong {
        link(&lab, &[&["set", "meter-1", "--way", "up"], keys].concat()).expect(2, words);
    }
    link(&lab, &["show", "meter-1"]).expect(0, &["Gilbert-Elliott loss: p 1 %, r 90 %"]);
    // A new loss model replaces the old one and takes effect.
    link(&lab, &["set", "meter-1", "--way", "up", "loss=100%"])
        .expect(0, &["loss 100 % per frame"]);
    if has("ping") {
        let ping = |node| lab.ask(&["exec", node, "--", "ping", "-c3", "-i0.2", "-W1", "server"]);
        ping("meter-1").expect(1, &["0 received"]);
        ping("meter-2").ran(&["received"]);
    }
    link(&lab, &["down", "meter-2"]).expect(0, &["meter-2 lan up    DOWN (Gilbert-Elliott loss"]);
}

/// Reads a counter of eth0, as programs in a node see it.
fn counter(lab: &Live<'_>, node: &str, name: &str) -> u64 {
    let file = format!("/sys/class/net/eth0/statistics/{name}");
    let output = lab.bed.thingbed(&["exec", "--lab", &lab.name, node, "--", "cat", &file]);
    let output = output.expect(0, &[]).out;
    output.trim().parse().unwrap_or_else(|_| panic!("{file}: {output}"))
}

#[test]
fn interfaces_count_what_they_sent_as_sent() {
    for path in [None, Some("tap"), Some("packet")] {
        let bed = Bed::new();
        let Some(lab) = Live::by(&bed, "counted", LAB, path) else { continue };
        let before = ["tx_packets", "tx_bytes"].map(|name| counter(&lab, "server", name));
        let ping = ["ping", "-c", "20", "-i", "0.02", "-s", "100", "meter-1"];
        lab.bed.thingbed(&[&["exec", "--lab", &lab.name, "server", "--"][..], &ping].concat());
        let after = ["tx_packets", "tx_bytes"].map(|name| counter(&lab, "server", name));
        // Meanwhile the kernel may send ARP or IGMP packets.
        let [packets, bytes] = [0, 1].map(|k| after[k] - before[k]);
        assert!((20..24).contains(&packets), "{path:?} {packets}");
        let least = 20 * (100 + 8 + 20 + 14);
        assert!((least..least + 300).contains(&bytes), "{path:?} {bytes}");
        for dropped in ["tx_dropped", "tx_errors", "rx_dropped", "rx_errors"] {
            assert_eq!(counter(&lab, "server", dropped), 0, "{path:?} {dropped}");
        }
    }
}

#[test]
fn a_bridge_in_a_node_carries_for_those_behind_it() {
    if !is_root() || !has("ip") || !has("nsenter") || !has("ping") {
        return;
    }
    let bed = Bed::new();
    let behind = "set -e
ip link add br0 type bridge
ip link set br0 up
ip link set eth0 master br0
ip link add v0 type veth peer name v1
ip link set v0 master br0 up
unshare -n sleep 1000 >/dev/null 2>&1 &
inside=\"nsenter -n -t $!\"
while [ $(readlink /proc/$!/ns/net) = $(readlink /proc/self/ns/net) ]; do sleep 0.05; done
ip link set v1 netns $!
$inside ip addr add 10.1.0.200/24 dev v1
$inside ip link set v1 up
$inside ping -c 3 -w 20 10.1.0.1
";
    bed.write("behind.sh", behind);
    let script = bed.path().join("behind.sh").display().to_string();
    let lab = Live::up(&bed, "bridge", LAB);
    link(&lab, &["set", "meter", "gilbert_elliott="]).expect(0, &[]);
    lab.ask(&["exec", "meter-1", "--", "sh", &script]).expect(0, &["3 received"]);
    drop(lab);
    let own = LAB.replace("    links:", "    source_addresses: own\n    links:");
    let lab = Live::up(&bed, "own", &own);
    let only = behind.replace("-c 3 -w 20", "-c 1 -w 2");
    bed.write("behind.sh", &only);
    lab.ask(&["exec", "meter-1", "--", "sh", &script]).expect(1, &["0 received"]);
    link(&lab, &["show", "meter-1"])
        .expect(0, &["rejected: too long, or source address of another node"]);
}

/// Thirty nodes join a group over links that lose 40 % of all frames. Each report is sent twice, so
/// without queries one in six nodes would never receive a message.
#[test]
fn every_member_of_a_group_is_heard_of_however_many_reports_are_lost() {
    if !has("python3") {
        return;
    }
    let bed = Bed::new();
    let join = "import os, socket
own = socket.gethostbyname(os.environ['THINGBED_NODE'])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 7000))
group = socket.inet_aton('239.1.2.3')
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
             group + socket.inet_aton(own))
s.recv(100)
print('received', flush=True)
s.recv(10**6)
while True: s.recv(100)
";
    let send = "import os, socket, time
own = socket.gethostbyname(os.environ['THINGBED_NODE'])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
while True:
    s.sendto(b'reading', ('239.1.2.3', 7000))
    time.sleep(0.2)
";
    let (join, send) = (bed.write("join.py", join), bed.write("send.py", send));
    let lab = format!(
        "experiment: NAME
nodes:
  source: {{run: [python3, {}]}}
  member: {{count: 30, run: [python3, {}]}}
networks:
  lan:
    attach: [source, member]
    subnet: 10.1.0.0/24
    query_interval: 1 s
    links: {{member: {{up: {{loss: 40 %}}, down: {{loss: 40 %}}}}}}
",
        send.display(),
        join.display()
    );
    let lab = Live::up(&bed, "igmp", &lab);
    let received = || {
        let logs = lab.ask(&["logs", "member"]).expect(0, &[]).out;
        logs.matches("received").count()
    };
    for _ in 0..6 {
        // Twenty seconds each, as long as new nodes receive messages.
        let before = received();
        if before == 30 {
            return;
        }
        until(|| received() > before, || format!("{before} of 30 were received, and no more"));
    }
    until(|| received() == 30, || format!("{} of 30 were received", received()));
}

/// A router in a star of edges has many interfaces, whose descriptors it passes in one message.
#[test]
fn a_node_has_forty_interfaces() {
    if !has("ping") {
        return;
    }
    const COUNT: usize = 40;
    let each = |text: &dyn Fn(usize) -> String| (0..COUNT).map(text).collect::<String>();
    let text = format!(
        "experiment: star\nnodes:\n  hub: {{}}\n{}networks:\n{}workloads:\n  - command: {{name: ping, \
         on: hub, run: [ping, -c, '1', -W, '20', m{}], expect: {{output: ' 0% packet loss'}}}}\n\
         duration: 30 s\n",
        each(&|n| format!("  m{n}: {{}}\n")),
        each(&|n| format!("  n{n}: {{attach: [hub, m{n}], subnet: 10.{n}.0.0/24}}\n")),
        COUNT - 1
    );
    let bed = Bed::new();
    bed.write("star.yaml", &text);
    bed.thingbed(&["run", "star.yaml"]).ran(&["1 run"]);
}
