//! Each error points at the value that is wrong and names a fix.

use crate::file;
use experiment::Experiment;

/// Lines for [`file`] in which `«` and `»` are around what the only error points at; the message and
/// the fix, or parts of them.
type Case = [&'static str; 3];

const ALL: &[&[Case]] = &[
    MATRIX,
    FIXED,
    GROUPS,
    ADDRESSES,
    SERVICES,
    LINKS,
    BETWEEN,
    MACHINES,
    TIMES,
    TOP,
    ROUTES,
    PROGRAMS,
    METRICS,
    MESSAGES,
    EXCHANGES,
    LOADS,
    WITHOUT_EFFECT,
    EXPECTATIONS,
];

const MATRIX: &[Case] = &[
    ["repeats: «0»", "0 repeats: no run would start", "use 1 or more"],
    ["experiment: «a/b»", "`a/b` cannot be the name of a folder", "use letters, digits"],
    ["experiment: «.a»", "`.a` cannot be the name of a folder", "not starting with `.`"],
    [
        "experiment: «an-experiment-whose-name-has-more-than-one-hundred-characters-and-that-does-not-say-it-in-fewer-ones1»",
        "one-hundred-characters-and-that-does-not-say-it-in-fewer-ones1` cannot be the name of a folder",
        "at most 100 characters",
    ],
    ["duration: '${x} s'\nmatrix: {x: «1»}", "expected a list, found `1`", "write a list: `[1]`"],
    ["matrix: «[1]»", "expected axes such as `loss: [1 %, 5 %]`, found a list", ""],
    ["duration: '${x} s'\nmatrix: {x: [1, 2, «1»]}", "the axis `x` has the value `1` twice", ""],
    [
        "nodes: {a: {run: [x, '${x}']}, b: {}}\nmatrix: «{x: [1.0 s, 1_0 s, '1/0 s']}»",
        "the cells x=1_0 s and x=1/0 s would share one results folder",
        "use values that differ in letters or digits",
    ],
    [
        "experiment: «'e-${x}'»\nduration: '${x} s'\nmatrix: {x: [1, 2]}",
        "`experiment` cannot contain an axis",
        "it applies to all cells of the matrix",
    ],
    ["duration: «'${x'»", "`${` without `}`", "write `${axis}`, or `$${`"],
    ["duration: «'${y}'»", "the matrix has no axis `y`", ""],
];

const FIXED: &[Case] = &[
    [
        "repeats: «'${x}'»\nduration: '${x} s'\nmatrix: {x: [1, 2]}",
        "`repeats` cannot contain an axis",
        "",
    ],
    [
        "seed: «'${x}'»\nduration: '${x} s'\nmatrix: {x: [1, 2]}",
        "`seed` cannot contain an axis",
        "",
    ],
];

const GROUPS: &[Case] = &[
    ["nodes: {a: {count: «0»}, b: {}}", "the group `a` has no nodes", "use 1 or more"],
    [
        "nodes: {a: {}, b: {}, «localhost»: {}}",
        "a node cannot have the name `localhost`",
        "each node already has it",
    ],
    [
        "nodes: {a: {limits: {cpus: «200 MHz»}}, b: {}}",
        "expected a number of CPUs, found `200 MHz`",
        "the key is `cpu`: `cpu: 200 MHz`",
    ],
    [
        "nodes: {a: {capabilities: «SYS_TIMES»}, b: {}}",
        "`SYS_TIMES` is not a capability",
        "did you mean `SYS_TIME`?",
    ],
    [
        "nodes: {a: {limits: {storage: «5 MiB»}}, b: {}}",
        "`storage` without `root`",
        "a node without a root writes to the host's files",
    ],
    [
        "nodes: {a: {limits: {output: «1 KiB»}}, b: {}}",
        "a limit of 1 KiB of output",
        "use 64 KiB or more",
    ],
    ["nodes: {a: {platform: «linux/arm64»}, b: {}}", "`platform` without `root`", "add the image"],
    [
        "nodes: {a: {root: /, platform: «arm64»}, b: {}}",
        "`arm64` is not a platform of Linux",
        "write for example `linux/arm64`",
    ],
    ["nodes: {a: {root_limit: «1 MiB»}, b: {}}", "`root_limit` without `root`", ""],
    [
        "nodes: {a: {run: [x], ready: {tcp: «65536»}}, b: {}}",
        "65536 is not a port number",
        "use 1 to 65535",
    ],
    [
        "nodes: {a: {mac: «2:0:0:0:0:1»}, b: {}}",
        "`2:0:0:0:0:1` is not an Ethernet address",
        "write six bytes, such as `52:54:00:12:34:56`",
    ],
    [
        "nodes: {a: {mac: «00:00:00:00:00:00»}, b: {}}",
        "`00:00:00:00:00:00` is no address of an interface",
        "write six bytes, such as `52:54:00:12:34:56`",
    ],
    [
        "nodes: {a: {}, b: {mac: «'02:00:0a:00:00:01'»}}",
        "`a` has the same Ethernet address on `n`",
        "use another one, such as `52:54:00:12:34:56`",
    ],
    ["capture: {networks: «m»}", "unknown network `m`", "did you mean `n`?"],
    [
        "capture: {snap: «13 B»}",
        "a snapshot length of 13 B",
        "use 14 B, an Ethernet header, or more",
    ],
];

const ADDRESSES: &[Case] = &[
    ["networks: {n: {attach: [a, b], subnet: «[]»}}", "the network has no subnet", "`10.0.0.0/24`"],
    [
        "networks: {n: {attach: [a, b], subnet: [10.0.0.0/24, «10.1.0.0/24»]}}",
        "a network has at most one subnet of IPv4 and one of IPv6",
        "make another network of it",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: [fd00::/64, 10.0.0.0/24, «10.1.0.0/24»]}}",
        "a network has at most one subnet of IPv4 and one of IPv6",
        "remove it",
    ],
    [
        "networks: {n: {attach: [a, b], mtu: 1279 B, subnet: [10.0.0.0/24, «'fd00::/64'»]}}",
        "IPv6 on a network with an MTU of 1279 B",
        "use `mtu: 1280 B`",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: [«10.0.0.0/24», 'fd00::/64'], channel: {csma: {carries: lowpan}}}}",
        "10.0.0.0/24 on `n`, whose channel carries 6LoWPAN",
        "6LoWPAN carries only IPv6: use for example `subnet: fd00::/64`",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 'fd00::/64', mtu: «1281 B», channel: {csma: {carries: lowpan}}}}",
        "an MTU of 1281 B on `n`, whose channel carries 6LoWPAN",
        "has an MTU of 1280 B (RFC 4944): remove `mtu`",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 'fd00::/64', channel: {csma: «{mac_addresses: short}»}}}",
        "`mac_addresses` needs `carries: lowpan`",
        "add that",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 'fd00::/64', channel: {csma: «{contexts: []}»}}}",
        "`contexts` needs `carries: lowpan`",
        "add that",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 'fd00::/64', channel: {csma: {carries: lowpan, contexts: [«'fd00::1/64'»]}}}}",
        "is an address behind a prefix; write `fd00::/64`",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 'fd00::/64', channel: {csma: {carries: lowpan, contexts: «'fd00::/64, fd01::/64'»}}}}",
        "are several prefixes; write `[fd00::/64, fd01::/64]`",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: «10.0.0.0/31»}}",
        "use a prefix length between",
        "expected a subnet",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: «10.0.0.0/+24»}}",
        "use a prefix length between 8 and 30",
        "expected a subnet",
    ],
    [
        "nodes: {a: {routes: {«10.1.0.0/+16»: b}}, b: {}}",
        "a route to `10.1.0.0/+16`",
        "use a prefix length between 0 and 32",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: «10.0.0.9/24»}}",
        "`10.0.0.9/24` is an address inside a subnet; write `10.0.0.0/24`",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: «10.0.0.0»}}",
        "`10.0.0.0` has no prefix length; write for example `10.0.0.0/24`",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: «127.0.0.0/24»}}",
        "nodes cannot use addresses of",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: «224.0.0.0/24»}}",
        "nodes cannot use addresses of",
        "",
    ],
    ["networks: {n: {attach: [a, b], subnet: «'fe80::/64'»}}", "link-local", ""],
    ["networks: {n: {attach: [a, b], subnet: «'ff02::/64'»}}", "multicast", ""],
    [
        "networks: {n: {attach: [a, b], subnet: «'::ffff:10.0.0.0/120'»}}",
        "write the IPv4 subnet",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, mtu: «65522 B»}}",
        "is above 65521 B, the maximum of a TAP",
        "",
    ],
];

const SERVICES: &[Case] = &[
    [
        "networks: {n.1: {attach: [a], subnet: 10.0.0.0/24, dns: true}, «n_1»: {attach: [b], subnet: 10.1.0.0/24, dns: true}}",
        "the services of `n_1` and `n.1` would both run on `n-1-services`",
        "rename this network",
    ],
    [
        "nodes: {a: {}, b: {}, n-services: {}}\nnetworks: {«n»: {attach: [a, b], subnet: 10.0.0.0/24, dns: true}}",
        "the group `n-services` has the name of the node that runs the services of `n`",
        "rename this group",
    ],
    [
        "nodes: {a: {address: «dhcp»}, b: {}}",
        "`a` has no DHCP server",
        "add `dhcp: true` to a network that it is attached to",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: «100.127.255.0/24», nat: true}}",
        "`n` overlaps 100.127.255.0/24",
        "use another subnet",
    ],
    // Two nodes and that of services do not fit.
    [
        "networks: {n: {attach: [a, b], subnet: «10.0.0.0/30», dns: true}}",
        "3 nodes do not fit into 10.0.0.0/30, which has 2 addresses",
        "10.0.0.0/29 has 6",
    ],
];

const LINKS: &[Case] = &[
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, query_interval: «0.5 s»}}",
        "a query interval of",
        "use 1 s or more, or `0 s` to turn queries off",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {«c»: {up: {delay: 1 ms}}}}}",
        "unknown group `c`",
        "",
    ],
    ["networks: {n: {attach: [a, «c»], subnet: 10.0.0.0/24}}", "unknown group `c`", ""],
    [
        "networks: {n: {attach: [a, b, «a»], subnet: 10.0.0.0/24}}",
        "`a` is attached to `n` twice",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {loss: «101 %»}}}}}",
        "`101 %` is out of range: a share must be between 0 % and 100 %",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {loss: «0.05»}}}}}",
        "`0.05` has no unit",
        "a share of 0.05 is `5 %`",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {delay: «5 msec»}}}}}",
        "`msec` is not a unit of a time",
        "did you mean `ms`?",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {rate: «1 Mbps»}}}}}",
        "`Mbps` is not a unit of a data rate",
        "did you mean `Mbit/s`?",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {«dely»: 5 ms}}}}}",
        "unknown key `dely`",
        "did you mean `delay`?",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {delay: 9 ms, reorder: 5 %, gap: «0»}}}}}",
        "a gap of 0 frames",
        "use 1 or more; 1 reorders any frame",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {reorder: «5 %»}}}}}",
        "`reorder` needs a `delay`",
        "add a `delay`",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24}, m: {attach: [a, b], subnet: «10.0.0.128/25»}}",
        "overlap",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, backend: «ntem»}}",
        "`ntem` is not",
        "did you mean `netem`?",
    ],
];

/// Workloads and their networks.
const BETWEEN: &[Case] = &[
    [
        "networks: {n: {attach: a, subnet: 10.0.0.0/24}, m: {attach: b, subnet: 10.1.0.0/24}}
workloads: [{load: {on: «a», to: b, arrivals: 'constant:1s'}}]",
        "no network includes all of",
        "or connect their networks by a router (a node with `forward: true`) or a bridge",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24}, m: {attach: a, subnet: 10.1.0.0/24}}
workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', network: «m»}}]",
        "the network `m` does not include all of",
        "they have in common: n",
    ],
    [
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', network: «nn»}}]",
        "unknown network `nn`",
        "did you mean `n`?",
    ],
    [
        "workloads: [{load: {on: «[]», to: b, arrivals: 'constant:1s'}}]",
        "`on` matches no nodes",
        "",
    ],
    [
        "workloads: [{load: {on: a, to: «[]», arrivals: 'constant:1s'}}]",
        "`to` matches no nodes",
        "",
    ],
    ["workloads: [{device: {on: «[]»}}]", "`on` matches no nodes", ""],
    ["workloads: [{probe: {on: «[]»}}]", "`on` matches no nodes", ""],
    ["workloads: [{command: {on: «[]», run: [x]}}]", "`on` matches no nodes", ""],
    [
        "workloads: [{command: {on: a, run: «[]»}}]",
        "",
        "write for example `[ping, -c, 3, utility]`",
    ],
    ["workloads: [{command: {on: «c», run: [x]}}]", "unknown group `c`", ""],
    ["workloads: [{command: {on: «a-2», run: [x]}}]", "unknown group `a-2`", ""],
    [
        "workloads: [{«comand»: {on: a, run: [x]}}]",
        "unknown key `comand`",
        "did you mean `command`?",
    ],
    [
        "workloads: [{exchange: {sources: «[]», sinks: b, protocol: udp, payload: 9 B, every: 1 s}}]",
        "`sources` matches no nodes",
        "",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: «[]», protocol: udp, payload: 9 B, every: 1 s}}]",
        "`sinks` matches no nodes",
        "",
    ],
    [
        "nodes: {a: {metrics: {m: {json: x}}, run: [x]}, b: {}}
workloads: [{command: {name: «a», on: a, run: [x], metrics: {m: {json: x}}}}]",
        "the command and the group `a` both have metrics",
        "give the command another `name`",
    ],
    [
        "workloads: [{command: {name: «c.d», on: a, run: [x], metrics: {m: {json: x}}}}]",
        "the command `c.d` has metrics and a dot in its name",
        "use `-` or `_`",
    ],
    [
        "duration: 5 s
nodes: {a: {run: [x]}, b: {}}
faults: [{at: 1 s, kill: «c»}]",
        "unknown group `c`",
        "",
    ],
    ["faults: [{at: 1 s, stop: «b»}]", "`b`", ""],
];

const MACHINES: &[Case] = &[
    [
        "nodes: {a: {metrics: {«m»: {json: x}}}, b: {}}",
        "`metrics` without `run`",
        "add the program that prints them",
    ],
    [
        "nodes: {a: {firmware: [x], console: {send: «'{eth0.adress}'»}}, b: {}}",
        "`{eth0.adress}` is no placeholder",
        "did you mean `{eth0.address}`?",
    ],
    [
        "nodes: {a: {firmware: [x], console: [{keys: x, every: «0 s»}, {wait: y}]}, b: {}}",
        "`every`",
        "a time above 0 is needed, such as `0.5 s`",
    ],
    [
        "nodes: {a: {ready: «{tcp: 1, udp: 2}», run: [x]}, b: {}}",
        "`ready` must be one of `tcp`, `udp`, `log` and `console`",
        "write for example `{tcp: 1883}`",
    ],
    ["nodes: {a: {board: «esp23»}, b: {}}", "unknown board `esp23`", "did you mean `esp32`?"],
    ["nodes: {a: {limits: {cpu: «0 Hz»}}, b: {}}", "a limit of 0", "use more than 0"],
    [
        "nodes: {a: {limits: {cpu: 200 MHz, cpus: «1»}}, b: {}}",
        "`cpu` and `cpus` set the same limit",
        "remove one of them",
    ],
    [
        "nodes: {a: {limits: {cpu: «0.5»}}, b: {}}",
        "",
        "expected a clock frequency such as `200 MHz`",
    ],
    ["nodes: {a: {limits: {memory: «1023 KiB»}}, b: {}}", "of memory", "use 1 MiB or more"],
    ["nodes: {a: {cores: «1-»}, b: {}}", "", ""],
    ["nodes: {a: {root: «nowhere»}, b: {}}", "`nowhere`", ""],
];

const TIMES: &[Case] = &[
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, timetable: [{at: 1 s, links: a, set: {delay: 5 ms}, lasts: «2 s»}]}}",
        "`lasts` needs `down`, `partition` or `multicast`",
        "`set` lasts until another entry changes the value",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, timetable: [{at: 1 s, down: a, over: «2 s»}]}}",
        "`over` needs `set`",
        "remove it here",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, timetable: [{at: 1 s, down: a, way: «up»}]}}",
        "`way` needs `set`",
        "remove it here",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, timetable: [{at: 1 s, down: «c»}]}}",
        "unknown group `c`",
        "",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, timetable: [{at: 1 s, partition: «[]»}]}}",
        "a partition without parts",
        "write for example",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, timetable: [{at: 1 s, partition: «[a, [b, a]]»}]}}",
        "`a` is in two parts",
        "put each node into one part",
    ],
    [
        "networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, timetable: [{at: 1 s, links: a, set: {loss: «200 %»}}]}}",
        "`200 %` is out of range",
        "",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b], subnet: 10.0.0.0/24, timetable: [{at: 1 s, down: «c»}]}}",
        "`c` is not on the network `n`",
        "`attach` lists the nodes on it",
    ],
    [
        "faults: [{at: «1 s»}]",
        "a fault is one of `kill`, `stop`, `start`, `restart`, `pause` and `resume`",
        "keep one of them here",
    ],
    [
        "faults: [{at: «1 s», kill: a, pause: b}]",
        "a fault is one of `kill`",
        "add an entry for each other",
    ],
    [
        "faults: [{at: 1 s, kill: «a», lasts: 2 s}]",
        "the nodes of `a` have no program",
        "add `run: [PROGRAM, ...]` to `a`",
    ],
    [
        "faults: [{at: 1 s, start: «a»}]",
        "the nodes of `a` have no program",
        "add `run: [PROGRAM, ...]` to `a`",
    ],
    [
        "nodes: {a: {run: [x]}, b: {}}\nfaults: [{at: 1 s, restart: a, lasts: «2 s»}]",
        "`restart` has no duration",
        "`lasts` needs `kill`, `stop` or `pause`",
    ],
    ["faults: [{at: 1 s, pause: [a, «a»]}]", "`a` matches nodes that are already in the list", ""],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}\nworkloads: [{mqtt: {broker: a, pattern: many-to-one, payload: Cargo.toml, publishers: b, subscribers: «[b, c]», rate: 1/s}}]",
        "2 subscribers, but many-to-one has one",
        "write for example `b`",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}\nworkloads: [{mqtt: {broker: a, pattern: many-to-one, payload: Cargo.toml, publishers: «[]», subscribers: c, rate: 1/s}}]",
        "`publishers` matches no nodes",
        "",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}\nworkloads: [{mqtt: {broker: a, pattern: many-to-one, payload: Cargo.toml, publishers: b, subscribers: «[]», rate: 1/s}}]",
        "`subscribers` matches no nodes",
        "",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}\nworkloads: [{mqtt: {broker: a, pattern: many-to-one, payload: Cargo.toml, publishers: b, subscribers: c, rate: «1/s», every: 1 s}}]",
        "`rate` and `every` together",
        "",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}\nworkloads: [{mqtt: {broker: a, pattern: many-to-one, payload: Cargo.toml, publishers: b, subscribers: c, every: «0 s»}}]",
        "`every` is 0",
        "use more than 0",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}\nworkloads: [{mqtt: {broker: a, pattern: many-to-one, payload: Cargo.toml, publishers: b, subscribers: c, rate: 1/s, join: «0 s»}}]",
        "`join` is 0",
        "use more than 0",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}\nworkloads: [{mqtt: {broker: a, pattern: many-to-one, payload: Cargo.toml, publishers: b, subscribers: c, rate: 1/s, keep_alive: «5.5 s»}}]",
        "`keep_alive` is 5500 ms",
        "use whole seconds",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}\nnetworks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}\nworkloads: [{mqtt: {broker: a, pattern: many-to-one, payload: Cargo.toml, publishers: b, subscribers: c, rate: 1/s, qos: «3»}}]",
        "a quality of service of 3",
        "MQTT has 0, 1 and 2",
    ],
    [
        "nodes: {a: {cores: «'3-1'»}, b: {}}",
        "`3-1` is not a list of cores",
        "write for example `1`, `0-3` or `[0, 2-3]`",
    ],
    ["duration: «0 s»", "`duration` is 0", "use more than 0"],
    ["duration: «5»", "`5` has no unit; write for example `5 ms`", ""],
    ["setup_limit: «1 day»", "`day` is not a unit of a time", ""],
    ["repeats: «1.5»", "expected a whole number from 0 to 4294967295, found `1.5`", ""],
    ["affinity: «yes»", "expected true or false, found `yes`", ""],
];

const TOP: &[Case] = &[
    [
        "expect: [{say: a, metric: messages.loss_pct, is: «over», value: 1}]",
        "`over` is not a comparison",
        "known: above, below, within",
    ],
    [
        "expect: [{say: a, metric: messages.loss_pct, is: above, value: «5 %»}]",
        "expected a number, found `5 %`",
        "",
    ],
    [
        "duration: '${x} s'\nmatrix: {x: [1, 2]}\nexpect: [{say: a, metric: messages.loss_pct, of: {x: «3»}, is: above, value: 1}]",
        "the axis `x` has no value `3`",
        "",
    ],
    [
        "duration: '${x} s'\nmatrix: {x: [1, 2]}\nexpect: [{say: a, metric: messages.loss_pct, of: {x: 1, «y»: 3}, is: above, value: 1}]",
        "the matrix has no axis `y`",
        "",
    ],
    [
        "duration: '${x} s'\nmatrix: {x: [1, 2], «y»: [1, 2]}",
        "the axis `y` is not used",
        "write `${y}` where its value belongs, or remove it",
    ],
    ["duration: '${x} s'\nmatrix: {«x»: []}", "the axis `x` has no values", "add a value"],
    ["defaults: {nodes: {«cuont»: 3}}", "unknown key `cuont`", "did you mean `count`?"],
    ["defaults: {«groups»: {}}", "unknown key `groups`", ""],
    ["edges: [«[a]»]", "", ""],
    ["edges: [[a, «c»]]", "unknown group `c`", ""],
    ["reference: «nowhere.csv»", "the reference file `nowhere.csv` does not exist", ""],
    ["«sed»: 5", "unknown key `sed`", "did you mean `seed`?"],
    ["seed: «-1»", "expected a whole number, found `-1`", ""],
    ["seed: «18446744073709551616»", "expected a whole number", ""],
];

const ROUTES: &[Case] = &[
    [
        "nodes: {a: {routes: {«10.0.0.0/24»: b}}, b: {}}",
        "a route of `a` to 10.0.0.0/24, the subnet of its network `n`",
        "remove it: its interface has this route",
    ],
    [
        "nodes: {a: {routes: {«10.1.0.1/24»: b}}, b: {}}",
        "a route to `10.1.0.1/24`",
        "has bits after its prefix; write `10.1.0.0/24`",
    ],
    [
        "nodes: {a: {routes: {«10.1.0.0/33»: b}}, b: {}}",
        "a route to `10.1.0.0/33`",
        "use a prefix length between 0 and 32",
    ],
    [
        "nodes: {a: {routes: {«elsewhere»: b}}, b: {}}",
        "a route to `elsewhere`",
        "neither `default`, an address, nor a prefix",
    ],
    [
        "nodes: {a: {routes: {«'fd01::/64'»: b}}, b: {}}",
        "a route to fd01::/64 via `b`, which has no IPv6 address there",
        "use a next hop of the same family",
    ],
    ["nodes: {a: {routes: {default: «bb»}}, b: {}}", "unknown next hop `bb`", "did you mean `b`?"],
    [
        "nodes: {a: {routes: {default: «10.0.1.1»}}, b: {}}",
        "the next hop `10.0.1.1` is on no network of `a`",
        "use a node or an address on one of its networks",
    ],
    [
        "nodes: {a: {routes: {default: «a»}}, b: {}}",
        "the next hop `a` is on no network of `a`",
        "use a node or an address on one of its networks",
    ],
    // 10.0.0.1 is the first address of the subnet: that of `a`.
    [
        "nodes: {a: {routes: {default: «10.0.0.1»}}, b: {}}",
        "the next hop `10.0.0.1` is the node `a` itself",
        "use another address on one of its networks",
    ],
    [
        "nodes: {a: {routes: {default: «10.0.0.255»}}, b: {}}",
        "the next hop `10.0.0.255` is the address of a network, or of all its nodes",
        "use the address of one node",
    ],
    [
        "nodes: {a: {count: 3, routes: {10.9.0.0/16: «10.0.0.2»}}, b: {}}",
        "the next hop `10.0.0.2` is the node `a-2` itself",
        "",
    ],
    [
        "nodes: {a: {routes: {10.9.0.7: b, «10.9.0.7/32»: 10.0.0.9}}, b: {}}",
        "two routes of `a` to 10.9.0.7/32",
        "remove one of them",
    ],
    [
        "nodes: {a: {routes: {default: b, «0.0.0.0/0»: 10.0.0.9}}, b: {}}",
        "two routes of `a` to 0.0.0.0/0",
        "remove one of them",
    ],
];

const PROGRAMS: &[Case] = &[
    [
        "workloads: [{command: {on: a, run: [x], expect: {within: «0 s»}}}]",
        "`within` must be longer than 0",
        "",
    ],
    [
        "workloads: [{command: {on: a, run: [x], expect: {exit: [0, «256»]}}}]",
        "256 is not an exit status",
        "exit statuses are 0 to 255",
    ],
    [
        "workloads: [{command: {on: a, run: [x], expect: {exit: «-1»}}}]",
        "expected a whole number from 0 to 4294967295, found `-1`",
        "",
    ],
    [
        "workloads: [{command: {on: a, run: [x], expect: {output: {contains: «''»}}}}]",
        "`contains` is a text within one line",
        "",
    ],
    [
        "workloads: [{command: {on: a, run: [x], expect: {output: {matches: «'('»}}}}]",
        "`matches` is not a regular expression",
        "write it in single quotes",
    ],
    [
        "workloads: [{command: {on: a, run: [x], expect: «{output: {from: stderr}}»}}]",
        "a condition on output needs `contains` or `matches`",
        "`output: '0 lost'`",
    ],
    [
        "workloads: [{command: {on: a, run: [x], expect: «{output: {contains: a, matches: b}}»}}]",
        "a condition on output has either `contains` or `matches`",
        "",
    ],
    [
        "workloads: [{command: {on: a, run: «ping b»}}]",
        "expected a list, found `ping b`",
        "write a list: `[ping, b]`",
    ],
    [
        "workloads: [{command: {on: a, run: «echo $HOME»}}]",
        "expected a list, found `echo $HOME`",
        "write a list: `[sh, -c, 'echo $HOME']`",
    ],
    [
        "workloads: [{command: {on: a, run: «it's»}}]",
        "expected a list, found `it's`",
        "write a list: `[sh, -c, 'it''s']`",
    ],
];

const METRICS: &[Case] = &[
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {json: «''»}}}}]",
        "`` is not a path",
        "such as `end.sum.bits_per_second`",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {match: «'('»}}}}]",
        "`match` is not a regular expression",
        "write it in single quotes",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {statsd: «'a:b'»}}}}]",
        "`a:b` is not a name in StatsD's format",
        "before the colon",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {prometheus: «'{'», port: 1}}}}]",
        "`{` is not a series",
        "write its name",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {prometheus: «up»}}}}]",
        "`prometheus` needs `port`",
        "`port: 8000`",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {prometheus: up, port: «0»}}}}]",
        "0 is not a port number",
        "use 1 to 65535",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {prometheus: up, port: 1, path: «metrics»}}}}]",
        "`metrics` is not the path of a page",
        "`/metrics`",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {prometheus: up, port: 1, every: «999 us»}}}}]",
        "`every` must be 1 ms or more",
        "",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {opentelemetry: «'{'»}}}}]",
        "`{` is not a metric of OpenTelemetry",
        "write its name",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {json: a, unit: «''»}}}}]",
        "a unit has 1 to 20 characters",
        "write for example `ms`",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {«m.n»: {json: a}}}}]",
        "`m.n` cannot be the name of a metric",
        "use letters, digits, `-` and `_`, at most 60",
    ],
    [
        "workloads: [{command: {on: a, run: [x], metrics: {m: {json: a, port: «1»}}}}]",
        "`port` has no effect here",
        "it belongs to",
    ],
];

const MESSAGES: &[Case] = &[
    [
        "models: {m: {down: udp/request-response, up: udp/request-response}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml, every: 1 s, count: «0»}}]",
        "`count` is 0, so no message is sent",
        "use 1 or more",
    ],
    [
        "models: {m: {down: udp/request-response, up: udp/request-response}}
workloads: [{interaction: {source: a, sinks: «[a, b]», model: m, payload: Cargo.toml, every: 1 s}}]",
        "the source `a` is also a sink",
        "",
    ],
    [
        "models: {m: {down: udp/request-response, up: udp/request-response}}
workloads: [{interaction: {source: a, sinks: b, model: «mm», payload: Cargo.toml, every: 1 s}}]",
        "unknown model `mm`",
        "did you mean `m`?",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}
networks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}
workloads: [{mqtt: {broker: a, publishers: [b, c], subscribers: «c», pattern: many-to-one, payload: Cargo.toml, rate: 1/s}}]",
        "the subscriber `c` is also a publisher",
        "",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}
networks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}
workloads: [{mqtt: {broker: a, publishers: b, subscribers: c, pattern: many-to-one, payload: Cargo.toml, rate: 1/s, keep_alive: «4 s»}}]",
        "`keep_alive` is 4 s",
        "use whole seconds, 5 s to 65535 s",
    ],
    [
        "nodes: {a: {}, b: {}, c: {}}
networks: {n: {attach: [a, b, c], subnet: 10.0.0.0/24}}
workloads: [{mqtt: {broker: a, publishers: b, subscribers: c, pattern: many-to-one, payload: Cargo.toml, rate: «'1/day'»}}]",
        "`1/day` is not a rate of events",
        "write for example `100/s` or `6/min`",
    ],
];

const EXCHANGES: &[Case] = &[
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: «sctp», payload: 9 B, every: 1 s}}]",
        "unknown protocol `sctp`",
        "",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: udp, payload: «[]», every: 1 s}}]",
        "`payload` has no size",
        "write for example `100 B`",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: udp, payload: «65504 B», every: 1 s}}]",
        "a payload of 65504 B",
        "use at most 65503 B",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: tcp, payload: «{from: 9 B, to: 1 B, step: 1 B}», every: 1 s}}]",
        "payload sizes from 9 B to 1 B in steps of 1 B",
        "use a `to` not below `from`",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: tcp, payload: «{from: 1 B, to: 9 B, step: 0 B}», every: 1 s}}]",
        "payload sizes from 1 B to 9 B in steps of 0 B",
        "a `step` above 0",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: udp, payload: 9 B, every: 1 s, repetitions: «0»}}]",
        "`repetitions` is 0, so no exchange runs",
        "use 1 or more",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: udp, payload: «9 B», every: 1 s, repetitions: 18446744073709551615, warmup: 18446744073709551615}}]",
        "exchanges, with one row in the results each",
        "fewer sizes, repetitions or warm-ups",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: {coap: {block: «48 B»}}, payload: 9 B, every: 1 s}}]",
        "a block of 48 B",
        "use 16 B, 32 B, 64 B",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: {coap: {leisure: «999 ms»}}, payload: 9 B, every: 1 s}}]",
        "`leisure` is 999 ms",
        "use 1 s to 65535 s",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: «{coap: {observe: true, method: put}}», payload: 9 B, every: 1 s}}]",
        "`observe` needs the method `get`",
        "remove `method`",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: «{coap: {group: true, confirmable: true}}», payload: 9 B, every: 1 s}}]",
        "CoAP multicast cannot be confirmable",
        "write `confirmable: false`",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: {opcua: {variables: «11»}}, payload: 99 B, every: 1 s}}]",
        "a Read of 11 variables",
        "use 1 to 10",
    ],
    [
        "workloads: [{exchange: {sources: [a, b], sinks: «b», protocol: udp, payload: 9 B, every: 1 s}}]",
        "`b` is a source and cannot have another role",
        "traffic within a node does not pass any network",
    ],
];

const LOADS: &[Case] = &[
    [
        "workloads: [{load: {on: a, to: «[a, b]», arrivals: 'constant:1s'}}]",
        "`a` would send requests to itself",
        "traffic within a node does not pass any network",
    ],
    [
        "workloads: [{load: {on: «a», to: b}}]",
        "the load has no arrival process",
        "`arrivals: exponential:300us`",
    ],
    [
        "workloads: [{load: {on: a, to: b, users: «2»}}]",
        "a closed loop without `count`",
        "add the number of requests",
    ],
    ["workloads: [{load: {on: a, to: b, arrivals: «'constant:'»}}]", "", "see docs/load.md"],
    [
        "workloads: [{load: {on: a, to: b, arrivals: «'constant:0s'»}}]",
        "`constant:0s`: the time between requests is 0",
        "see docs/load.md",
    ],
    [
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', count: «0»}}]",
        "`count` is 0, so no request is sent",
        "use 1 or more",
    ],
    [
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', timeout: «0 s»}}]",
        "`timeout` is 0",
        "use more than 0",
    ],
    [
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', block: «65552 B»}}]",
        "`block`: use 16, 32, 64, 128, 256, 512 or 1024 B",
        "",
    ],
    [
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', ack_timeout: «1 s»}}]",
        "`ack_timeout` without `max_retransmit`",
        "`max_retransmit: 4`",
    ],
    [
        "workloads: [{device: {on: a, payload: «1000001 B»}}]",
        "answers of 1000001 B",
        "use at most 1000000 B",
    ],
];

const EXPECTATIONS: &[Case] = &[
    [
        "expect: [«»{say: a, metric: messages.loss_pct, is: above}]",
        "an expectation needs either `than` or `value`",
        "`value` a number",
    ],
    [
        "expect: [{say: a, metric: messages.loss_pct, is: above, value: 1, factor: «2»}]",
        "`factor` multiplies the figure of `than`, not a `value`",
        "",
    ],
    [
        "expect: [{say: a, metric: messages.loss_pct, is: above, value: 1, tolerance: «5 %»}]",
        "only `within` has a `tolerance`",
        "",
    ],
    [
        "expect: [{say: a, metric: messages.loss_pct, is: «within», value: 1}]",
        "`within` needs a `tolerance`",
        "write for example `tolerance: 10 %`",
    ],
];

/// Keys that were accepted and had no effect.
const WITHOUT_EFFECT: &[Case] = &[
    [
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', answers: «false»}}]",
        "`answers` has no effect on requests over coap",
        "it is for udp, tcp",
    ],
    [
        "workloads: [{load: {on: a, to: b, protocol: mqtt, arrivals: 'constant:1s', answers: «false»}}]",
        "`answers` has no effect on requests over mqtt",
        "",
    ],
    [
        "workloads: [{load: {on: a, to: b, protocol: http, arrivals: 'constant:1s', confirmable: «true»}}]",
        "`confirmable` has no effect on requests over http",
        "it is for coap",
    ],
    [
        "workloads: [{load: {on: a, to: b, protocol: udp, arrivals: 'constant:1s', qos: «1»}}]",
        "`qos` has no effect on requests over udp",
        "it is for mqtt",
    ],
    [
        "workloads: [{load: {on: a, to: b, protocol: tcp, arrivals: 'constant:1s', connections: «2»}}]",
        "`connections` has no effect on requests over tcp",
        "it is for http",
    ],
    [
        "workloads: [{load: {on: a, to: b, arrivals: 'constant:1s', think: «'constant:1s'»}}]",
        "`think` without `users`",
        "add `users` and `count`",
    ],
    [
        "workloads: [{load: {on: a, to: b, users: 2, count: 3, together: «true»}}]",
        "`together` without `arrivals`",
        "",
    ],
    [
        "workloads: [{device: {on: a, udp: 7000, silent: «5 %»}}]",
        "`silent` has no effect on an echo service",
        "use `coap` or `http`",
    ],
    [
        "workloads: [{device: {on: a, tcp: 7000, udp: 7000, payload: «9 B»}}]",
        "`payload` has no effect on an echo service",
        "",
    ],
    [
        "workloads: [{device: {on: a, late_by: «9 s»}}]",
        "`late_by` without `late`",
        "for example `late: 5 %`",
    ],
    [
        "workloads: [{device: {on: a, http: 80, tcp: 70, spin: «true»}}]",
        "`spin` has no effect on `http` and `tcp`",
        "",
    ],
    [
        "workloads: [{load: {on: a, to: b, protocol: udp, arrivals: 'constant:1s', path: «x»}}]",
        "`path` has no effect on requests over udp",
        "it is for coap, http, mqtt",
    ],
    [
        "workloads: [{load: {on: a, to: b, protocol: mqtt, users: «2», count: 3}}]",
        "`users` wait for answers, and these requests have none",
        "over mqtt, add `qos: 1`",
    ],
    [
        "workloads: [{load: {on: a, to: b, protocol: udp, users: «2», count: 3, answers: false}}]",
        "`users` wait for answers, and these requests have none",
        "remove `answers: false`",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: «tcp», payload: 9 B, every: 1 s, tls: generated}}]",
        "`tls` with tcp",
        "Thingbed does not support TLS here",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: «{coap: {method: put}}», payload: 9 B, every: 1 s, tls: generated}}]",
        "so nothing would be encrypted",
        "add `transport: dtls`",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: {coap: {leisure: «9 s»}}, payload: 9 B, every: 1 s}}]",
        "`leisure` without `group`",
        "",
    ],
    [
        "workloads: [{exchange: {sources: a, sinks: b, protocol: {coap: {q_block: «true», transport: tcp}}, payload: 9 B, every: 1 s}}]",
        "`q_block` needs UDP",
        "",
    ],
    ["nodes: {a: {expect: «{exit: 1}»}, b: {}}", "`expect` without `run`", "add the program"],
    ["nodes: {a: {root: src, run: [], ready: «{tcp: 5}»}, b: {}}", "`ready` without `run`", ""],
    [
        "nodes: {a: {root: src, run: []}, b: {}}
faults: [{at: 1 s, stop: «a»}]",
        "the nodes of `a` have no program",
        "",
    ],
    ["nodes: {a: {run: «[]»}, b: {}}", "`run` has no program", ""],
    ["capture: {nodes: «[]»}", "`nodes` is an empty list", "all are captured"],
    ["setup_limit: «0 s»", "`setup_limit` is 0", ""],
    [
        "models: {m: {down: udp/request-response, up: udp/request-response, every: 1 s, assume_loss: «5 %»}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml}}]",
        "`assume_loss` has no effect on `udp/request-response`",
        "only the director can use it",
    ],
    [
        "models: {m: {down: udp/request-response, up: udp/request-response, every: 1 s, lifetime: «5 s»}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml}}]",
        "`lifetime` has no effect on `udp/request-response`",
        "only the director can use it",
    ],
    [
        "models: {m: {down: director, up: director, every: 1 s, lifetime: «0 s»}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml}}]",
        "`lifetime` is 0",
        "use more than 0",
    ],
    [
        "models: {m: {down: director, up: director, every: 1 s, assume_nothing: true, multicast_rate: «1 Mbit/s»}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml}}]",
        "`multicast_rate` contradicts `assume_nothing: true`",
        "remove one of both",
    ],
    [
        "models: {m: {down: director, up: director, every: 1 s, assume_nothing: true, assume_loss: «5 %»}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml}}]",
        "`assume_loss` contradicts `assume_nothing: true`",
        "remove one of both",
    ],
    [
        "models: {m: {down: director/udp-arq, up: director/udp-arq, every: 1 s, assume_nothing: true, assume_round_trip: «5 ms»}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml}}]",
        "`assume_round_trip` contradicts `assume_nothing: true`",
        "remove one of both",
    ],
    [
        "models: {m: {down: pgm/publish-subscribe, up: tcp/request-reply, every: 1 s, assume_nothing: «true»}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml}}]",
        "`assume_nothing` has no effect on `pgm/publish-subscribe`",
        "only the director can use it",
    ],
    [
        "models: {m: {down: tcp/router-dealer, up: tcp/request-reply, every: 1 s, multicast_rate: «1 Mbit/s»}}
workloads: [{interaction: {source: a, sinks: b, model: m, payload: Cargo.toml}}]",
        "`multicast_rate` has no effect on `tcp/router-dealer`",
        "",
    ],
    ["files: [Cargo.toml, «none.txt»]", "`files` names none.txt, which does not exist", "looked for"],
    [
        "workloads: [{load: {name: web, on: a, to: b, arrivals: 'constant:1s'}}]
expect: [{say: a, metric: «loads.wed.unanswered_pct», is: below, value: 1}]",
        "the results have no metric `loads.wed.unanswered_pct`",
        "did you mean `loads.web.unanswered_pct`?",
    ],
    [
        "expect: [{say: a, metric: «exchanges.x.failed», is: below, value: 1}]",
        "the results have no metric `exchanges.x.failed`",
        "no workload is `exchange`",
    ],
];

/// What the only error of a file should look like, and what it looks like.
fn compare([text, message, fix]: Case) -> Result<(), String> {
    let marked = file(text);
    let start = marked.find('«').unwrap();
    let inside = &marked[start + '«'.len_utf8()..marked.find('»').unwrap()];
    let before = &marked[..start];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let text = marked.replace(['«', '»'], "");
    let Err(errors) = Experiment::parse(&text, "e.yaml", "") else {
        return Err(format!("accepted:\n{text}"));
    };
    let (shown, problem) = (errors.to_string(), &errors.problems()[0]);
    // The marks of a list or map end with its last value.
    let marks = inside.trim_end_matches([']', '}']).chars().count().max(1);
    let marked = shown.lines().find_map(|line| {
        let after = line.split_once(" | ")?.1.trim_start();
        Some(after.chars().take_while(|c| *c == '^').count()).filter(|count| *count > 0)
    });
    let is_right = errors.problems().len() == 1
        && errors.position(problem) == Some((line, column))
        && marked == Some(marks)
        && problem.message().contains(message)
        && problem.notes().any(|note| note.contains(fix)) | fix.is_empty();
    match is_right {
        true => Ok(()),
        false => Err(format!(
            "expected `{message}` at {line}:{column}, {marks} characters, `{fix}`:\n{shown}\n"
        )),
    }
}

#[test]
fn each_error_points_at_the_wrong_value_and_names_the_fix() {
    let cases = ALL.iter().copied().flatten();
    let wrong: Vec<String> = cases.filter_map(|case| compare(*case).err()).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
