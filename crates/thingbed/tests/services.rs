//! Network services that take one line in the file: NAT, DHCP and DNS. The outside is a namespace
//! of the test; the internet is not used.

mod common;

use common::live::{Live, until};
use common::{Bed, CommandOutput, figure, has, is_root, json};
use std::fs;
use std::process::Command;

/// Runs Thingbed in a network namespace that acts as the outside: it has the addresses 203.0.113.1 and
/// 2001:db8:ff::1, where a web server has one file, and another server at its loopback addresses.
fn run_outside(bed: &Bed) -> CommandOutput {
    run_outside_by(bed, "true", "")
}

/// The same after the command `before`, by the command `by`.
fn run_outside_by(bed: &Bed, before: &str, by: &str) -> CommandOutput {
    let tool = env!("CARGO_BIN_EXE_thingbed");
    let line = format!(
        "busybox ip link set lo up; busybox ip addr add 203.0.113.1/32 dev lo; \
         mkdir -p www; echo from-outside > www/hello; \
         busybox ip addr add 2001:db8:ff::1/128 dev lo; \
         busybox httpd -p 203.0.113.1:80 -h www; busybox httpd -p 127.0.0.1:81 -h www; \
         until busybox httpd -p '[2001:db8:ff::1]:80' -h www; do sleep 0.1; done; \
         busybox httpd -p '[::1]:81' -h www; \
         {before}; {by} {tool} run e.yaml -q"
    );
    // As process 1 of a PID namespace, it takes the servers with it when it ends.
    let mut command = Command::new("unshare");
    command
        .args(["-m", "-n", "-p", "-f", "--mount-proc", "sh", "-c", &line])
        .current_dir(bed.path());
    CommandOutput::of(command.output().unwrap())
}

fn missing(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !has(program));
    missing.is_some_and(|program| {
        eprintln!("NOT RUN: needs {program}");
        true
    })
}

fn out(bed: &Bed, experiment: &str, name: &str) -> String {
    let path = bed.sweep(experiment).join("programs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn nat_is_a_way_out_and_not_a_way_in() {
    if !is_root() || missing(&["slirp4netns", "busybox", "unshare"]) {
        return;
    }
    let bed = Bed::new();
    bed.write(
        "fetch.sh",
        "printf 'GET /hello HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 3 $1 $2 | \
         busybox grep from-outside || echo nothing\n",
    );
    let all = "sh fetch.sh 203.0.113.1 80; sh fetch.sh 100.127.255.2 81; sh fetch.sh 127.0.0.1 81";
    bed.write(
        "e.yaml",
        &format!(
            "experiment: out
nodes:
  meter: {{count: 2}}
  island: {{}}
networks:
  field: {{attach: meter, subnet: 10.4.0.0/24, nat: true}}
  shut: {{attach: island, subnet: 10.5.0.0/24}}
workloads:
  - command: {{on: meter, run: [sh, -c, '{all}']}}
  - command: {{on: island, run: [sh, fetch.sh, 203.0.113.1, '80']}}
duration: 1 s
drain: 20 s
"
        ),
    );
    run_outside(&bed).ran(&["report: "]);
    for meter in ["meter-1", "meter-2"] {
        let answer = out(&bed, "out", &format!("{meter}.0.out"));
        assert_eq!(answer, "from-outside\nnothing\nnothing\n");
    }
    assert_eq!(out(&bed, "out", "island.1.out"), "nothing\n");
    let summary = json(&bed.sweep("out").join("summary.json"));
    assert!(figure(&summary, ".groups.field-services.tx_frames") > 4.0, "{summary:#}");
}

/// IPv6 alone, IPv6 next to IPv4, and behind a router; and IPv4 stays as it is.
#[test]
fn nat_is_a_way_out_and_not_a_way_in_over_ipv6() {
    if !is_root() || missing(&["slirp4netns", "busybox", "dnsmasq", "unshare"]) {
        return;
    }
    let bed = Bed::new();
    bed.write(
        "fetch.sh",
        "printf 'GET /hello HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 6 $1 $2 | \
         busybox grep from-outside || echo nothing\n",
    );
    let fetch = "sh fetch.sh 2001:db8:ff::1 80; sh fetch.sh fd00::2 81; sh fetch.sh ::1 81; \
                 sh fetch.sh 2001:db8:1::1 80; sh fetch.sh 203.0.113.1 80";
    bed.write(
        "e.yaml",
        &format!(
            "experiment: out
nodes: {{six: {{}}, asks: {{address: dhcp}}, both: {{}}, router: {{forward: true}}, far: {{}}, island: {{}}}}
networks:
  lan: {{attach: [six, asks], subnet: 'fd00::/64', nat: true, dhcp: true}}
  dual: {{attach: [both, router], subnet: [10.4.0.0/24, 'fd01::/64'], nat: true}}
  behind: {{attach: [router, far], subnet: 'fd02::/64'}}
  shut: {{attach: island, subnet: 'fd03::/64'}}
workloads:
  - command: {{on: [six, asks, both, far, island], run: [sh, -c, '{fetch}']}}
duration: 1 s
drain: 60 s
"
        ),
    );
    let warning = "warning: the nodes of `lan` reach no IPv6 addresses outside this machine";
    run_outside(&bed).ran(&["report: ", warning]);
    let nothing = "nothing\nnothing\nnothing\n";
    for (node, last) in
        [("six", "nothing"), ("asks", "nothing"), ("both", "from-outside"), ("far", "nothing")]
    {
        let answer = out(&bed, "out", &format!("{node}.0.out"));
        assert_eq!(answer, format!("from-outside\n{nothing}{last}\n"), "{node}");
    }
    assert_eq!(out(&bed, "out", "island.0.out"), format!("nothing\n{nothing}nothing\n"));
}

/// A user whom the device of TAPs belongs to.
#[test]
fn a_user_has_a_way_out_in_both_families() {
    if !is_root() || missing(&["slirp4netns", "busybox", "setpriv", "unshare"]) {
        return;
    }
    let bed = Bed::new();
    bed.write(
        "fetch.sh",
        "printf 'GET /hello HTTP/1.0\\r\\n\\r\\n' | busybox nc -w 20 $1 80 | busybox grep from-outside\n",
    );
    let all = "sh fetch.sh 203.0.113.1; sh fetch.sh 2001:db8:ff::1";
    bed.write(
        "e.yaml",
        &format!(
            "experiment: user
nodes: {{a: {{}}}}
networks: {{lan: {{attach: a, subnet: [10.4.0.0/24, 'fd00::/64'], nat: true}}}}
workloads: [{{command: {{on: a, run: [sh, -c, '{all}']}}}}]
duration: 1 s
drain: 60 s
"
        ),
    );
    bed.write(
        "user.sh",
        "exec setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=\"$PWD\" \"$@\"\n",
    );
    let device = "mknod tun c 10 200 && chmod 666 tun && mount --bind tun /dev/net/tun && \
                  chown -R 65534:65534 .";
    let output = run_outside_by(&bed, &format!("{device} || exit 77"), "sh user.sh");
    if output.status == 77 || output.err.contains("open /dev/net/tun") {
        return eprintln!("NOT RUN: {}", output.err);
    }
    output.ran(&[]);
    assert_eq!(out(&bed, "user", "a.0.out"), "from-outside\nfrom-outside\n");
}

#[test]
fn addresses_are_asked_for_and_names_are_known() {
    if missing(&["dnsmasq", "busybox"]) {
        return;
    }
    let bed = Bed::new();
    let look = "busybox ip -4 addr show dev eth0; busybox ip route; busybox nslookup gateway; \
                cat /etc/resolv.conf";
    bed.write(
        "e.yaml",
        "experiment: names
nodes:
  gateway: {}
  meter: {count: 3, address: dhcp}
networks:
  field:
    attach: [gateway, meter]
    subnet: 10.4.0.0/24
    dhcp: true
    dns: true
    links: {meter: {up: {loss: 100 %}}}
models:
  udp-rr: {down: udp/request-response, up: udp/request-response, every: 0.1 s, drain: 1 s}
workloads:
  - interaction: {source: gateway, sinks: meter, model: udp-rr, payload: payload.xml}
duration: 1 s
",
    );
    // Impairments start after all nodes have their addresses.
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["report: "]);
    let summary = json(&bed.sweep("names").join("summary.json"));
    assert_eq!(figure(&summary, ".messages.delivered"), 10.0, "{summary:#}");
    assert_eq!(figure(&summary, ".messages.replies"), 0.0, "{summary:#}");
    let text = fs::read_to_string(bed.path().join("e.yaml")).unwrap();
    let text = text.replace("    links: {meter: {up: {loss: 100 %}}}\n", "");
    bed.write(
        "e.yaml",
        &format!("{text}drain: 10 s\n").replace(
            "workloads:\n",
            &format!("workloads:\n  - command: {{on: meter-2, run: [sh, -c, '{look}']}}\n"),
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&["report: "]);
    let seen = out(&bed, "names", "meter-2.0.out");
    assert!(seen.contains("inet 10.4.0.3/24"), "as planned: {seen}");
    assert!(!seen.contains("default"), "nothing leads out: {seen}");
    assert!(seen.contains("10.4.0.254") && seen.contains("10.4.0.1"), "{seen}");
    assert!(seen.ends_with("nameserver 10.4.0.254\n"), "{seen}");
    let given = out(&bed, "names", "field-services.err");
    assert_eq!(given.matches("DHCPACK").count(), 3, "{given}");
}

/// Leases do not expire, and their names would outlive the nodes.
#[test]
fn a_destroyed_node_is_unknown_to_the_name_server_also_with_dhcp() {
    if missing(&["dnsmasq", "busybox"]) {
        return;
    }
    let bed = Bed::new();
    let lab = Live::up(
        &bed,
        "unknown",
        "experiment: NAME
nodes: {gateway: {}, meter: {count: 2, address: dhcp}}
networks: {field: {attach: [gateway, meter], subnet: 10.4.0.0/24, dhcp: true, dns: true}}
",
    );
    let words = ["exec", "gateway", "--", "busybox", "nslookup", "meter-2", "10.4.0.254"];
    let known = || lab.ask(&words).out.contains("10.4.0.3");
    assert!(known());
    lab.ask(&["destroy", "meter-2"]).expect(0, &[]);
    until(|| !known(), || "meter-2 is still known".to_owned());
}

/// A client of a program, of a machine or of hardware gets its planned address if the plan knows it,
/// else one of the pool; hosts with IPv6 make their own addresses.
#[test]
fn whoever_asks_has_an_address() {
    if missing(&["dnsmasq", "busybox"]) {
        return;
    }
    let bed = Bed::new();
    bed.write("lease.sh", "#!/bin/sh\necho \"$1 $ip/$mask\"\n");
    bed.write("ask.sh", "busybox udhcpc -i eth0 -n -q -t 20 -T 1 -s ./lease.sh\n");
    bed.write(
        "stranger.sh",
        "ip link set eth0 down && ip link set eth0 address 02:99:99:99:99:99 && ip link set eth0 up\n",
    );
    bed.write(
        "listen.sh",
        "cd /proc/sys/net/ipv6/conf/eth0
for key in accept_ra autoconf; do echo 1 >$key; done; echo 3 >router_solicitations
cd - && sh stranger.sh
until ip -6 addr show dev eth0 | grep dynamic; do sleep 0.2; done
until ping -c 1 fd00:1::1; do sleep 0.2; done
ip -6 route
",
    );
    std::process::Command::new("chmod")
        .arg("+x")
        .arg(bed.path().join("lease.sh"))
        .status()
        .unwrap();
    bed.write(
        "e.yaml",
        "experiment: leases
nodes: {host: {}, guest: {}, listener: {}}
networks:
  lan: {attach: [host, guest], subnet: 10.4.0.0/24, dhcp: true}
  six: {attach: [host, listener], subnet: 'fd00:1::/64', dhcp: true}
workloads:
  - command: {on: host, run: [sh, ask.sh], expect: {output: bound 10.4.0.1/24}}
  - command: {on: guest, run: [sh, -c, sh stranger.sh && sh ask.sh], expect: {output: {matches: '10\\.4\\.0\\.(12[89]|1[3-9].|2..)/24'}}}
  - command: {on: listener, run: [sh, listen.sh], expect: {output: 'fd00:1::99:99ff:fe99:9999'}}
duration: 20 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
    // The server is no router.
    let routes = out(&bed, "leases", "listener.2.out");
    assert!(!routes.contains("default"), "{routes}");
}

/// In subnets with and without SLAAC, alone and next to IPv4: nodes have their planned addresses, and
/// their names, neighbours and bytes are those of other nodes.
#[test]
fn addresses_of_ipv6_come_by_dhcp() {
    if missing(&["dnsmasq", "busybox"]) {
        return;
    }
    let bed = Bed::new();
    bed.write("payload.xml", &format!("##########{}", " ".repeat(90)));
    let run = |subnet: &str| {
        bed.write(
            "e.yaml",
            &format!(
                "experiment: six
nodes: {{hub: {{}}, phone: {{count: 2, address: dhcp}}}}
networks: {{lan: {{attach: [hub, phone], subnet: {subnet}, dhcp: true}}}}
models:
  udp: {{down: udp/request-response, up: udp/request-response, every: 20 ms, count: 60}}
workloads:
  - interaction: {{source: hub, sinks: phone, model: udp, payload: payload.xml}}
  - command: {{name: look, on: phone-2, run: [sh, -c, 'ip -6 addr show dev eth0; ip -6 route; ip -6 neigh; getent ahosts phone-1']}}
duration: 2 s
drain: 3 s
"
            ),
        );
        bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
        let summary = json(&bed.sweep("six").join("summary.json"));
        (summary, out(&bed, "six", "phone-2.1.out"))
    };
    for subnet in ["'fd00:6::/64'", "'fd00:6::/80'", "['fd00:6::/64', 10.6.0.0/24]"] {
        let (summary, seen) = run(subnet);
        assert_eq!(figure(&summary, ".messages.answered"), 60.0, "{summary:#}");
        // 100 B and the headers of Ethernet, IPv6 and UDP.
        let of = |key: &str| figure(&summary, &format!(".groups.hub.{key}"));
        assert_eq!(of("tx_bytes") - of("control_bytes"), 60.0 * (14.0 + 40.0 + 8.0 + 100.0));
        let addresses = seen.matches("scope global").count();
        assert!(seen.contains("inet6 fd00:6::3/128 scope global") && addresses == 1, "{seen}");
        assert!(seen.contains("fd00:6::1 dev eth0 lladdr") && seen.contains("PERMANENT"), "{seen}");
        assert!(seen.contains("fd00:6::2 ") && !seen.contains("default via"), "{seen}");
    }
    let first = run("'fd00:6::/64'");
    assert_eq!(run("'fd00:6::/64'"), first, "virtual time repeats");
}

/// The router of a network advertises itself to nodes with `address: dhcp`, and to hosts of any kind
/// that make their own addresses.
#[test]
fn hosts_learn_the_default_route_from_their_router() {
    if missing(&["dnsmasq", "busybox"]) {
        return;
    }
    let bed = Bed::new();
    bed.write(
        "listen.sh",
        "ip -6 addr flush dev eth0 scope global; ip -6 route flush default; ip link set eth0 down
cd /proc/sys/net/ipv6/conf/eth0
for key in accept_ra autoconf; do echo 1 >$key; done; echo 3 >router_solicitations
ip link set eth0 address 02:99:99:99:99:99 && ip link set eth0 up
until ip -6 addr show dev eth0 | grep dynamic; do sleep 0.2; done
until ping -6 -c 1 -W 1 far; do sleep 0.2; done
ip -6 route
",
    );
    bed.write(
        "e.yaml",
        "experiment: routes
nodes: {phone: {address: dhcp}, listener: {}, r: {forward: true}, far: {}}
networks:
  lan: {attach: [phone, listener, r], subnet: ['fd00:1::/64', 10.1.0.0/24], dhcp: true}
  out: {attach: [r, far], subnet: ['fd00:2::/64', 10.2.0.0/24]}
models:
  udp: {down: udp/request-response, up: udp/request-response, every: 20 ms, count: 20}
workloads:
  - interaction: {source: phone, sinks: far, model: udp, payload: payload.xml, network: out}
  - command: {on: phone, run: [sh, -c, 'ip -6 route; ping -6 -c 1 -W 5 far; ping -4 -c 1 -W 5 far']}
  - command: {on: listener, run: [sh, listen.sh], expect: {output: 'fd00:1::99:99ff:fe99:9999'}}
duration: 20 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual"]).ran(&[]);
    let summary = json(&bed.sweep("routes").join("summary.json"));
    assert_eq!(figure(&summary, ".messages.answered"), 20.0, "{summary:#}");
    let phone = out(&bed, "routes", "phone.1.out");
    assert_eq!(phone.matches(" 1 received").count(), 2, "{phone}");
    for routes in [phone, out(&bed, "routes", "listener.2.out")] {
        let default: Vec<&str> =
            routes.lines().filter(|line| line.starts_with("default")).collect();
        // The router has the third address of 10.1.0.0/24.
        let [line] = default[..] else { panic!("{routes}") };
        assert!(line.starts_with("default via fe80::aff:fe01:3 dev eth0 proto ra"), "{routes}");
    }
}

/// A user's nodes have only one group, so the server must not change to another.
#[test]
fn a_user_has_dhcp_and_dns() {
    if !is_root() || missing(&["dnsmasq", "busybox", "setpriv", "unshare"]) {
        return;
    }
    let bed = Bed::new();
    bed.write(
        "e.yaml",
        "experiment: user
nodes: {a: {address: dhcp}, b: {}}
networks: {lan: {attach: [a, b], subnet: [10.4.0.0/24, 'fd00:4::/64'], dhcp: true, dns: true}}
workloads:
  - command: {on: a, run: [sh, -c, 'busybox nslookup b; ip -6 addr; true'], expect: {output: ['Address: 10.4.0.2', 'fd00:4::1/128']}}
duration: 1 s
",
    );
    let run = bed.command(&["run", "e.yaml", "-q"]);
    let line = "chown -R 65534:65534 . && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
                env HOME=\"$PWD\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", line, "sh"]).arg(run.get_program()).args(run.get_args());
    CommandOutput::of(command.current_dir(bed.path()).output().unwrap()).ran(&[]);
}
