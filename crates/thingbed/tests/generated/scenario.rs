//! The lab file of a sequence, drawn from its seed.

use super::dice::Dice;

/// Content of the lab file.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The name of the experiment.
    pub name: String,
    pub frame_path: &'static str,
    /// Number of meters at the start.
    pub meters: usize,
    pub channel: &'static str,
    pub nat: bool,
    pub dns: bool,
    pub dhcp: bool,
    pub tls: bool,
    /// Initial limits of meters: CPUs and MiB.
    pub limits: Option<(f64, u64)>,
    /// Whether there is a node `box` with an image as root file system.
    pub image: bool,
    /// Whether there is a second, small network with only the meters.
    pub depot: bool,
}

/// The server's command, which first prints that it has started.
pub const SERVER: &str = "ls $THINGBED_TLS; echo begun; while :; do sleep 0.1; done";

/// Delay of the meters' uplinks, in ms.
pub const DELAY: f64 = 2.0;

impl Scenario {
    /// Draws a scenario. `present` tells whether a program is installed.
    pub fn draw(seed: u64, dice: &mut Dice, present: impl Fn(&str) -> bool) -> Self {
        let dnsmasq = present("dnsmasq");
        let dhcp = dice.chance(25) && dnsmasq;
        Self {
            name: format!("generated-{}-{seed}", std::process::id()),
            frame_path: dice.weighted(&[(6, "ring"), (3, "tap"), (3, "packet")]),
            meters: 2 + dice.below(2),
            channel: dice.weighted(&[
                (6, "switch"),
                (2, "{shared: 10 Mbit/s}"),
                (2, "{cell: {up: 10 Mbit/s, down: 10 Mbit/s}}"),
            ]),
            nat: dice.chance(40) && present("slirp4netns"),
            dns: dice.chance(40) && dnsmasq,
            dhcp,
            tls: dice.chance(30),
            limits: dice.chance(50).then(|| (*dice.pick(&[0.2, 0.5]), 64)),
            image: dice.chance(50),
            depot: dice.chance(50),
        }
    }

    /// Whether the network has an additional node for services.
    pub fn services(&self) -> bool {
        self.nat || self.dns || self.dhcp
    }

    /// Whether uplinks use the rate of the channel, so that links can have no separate rate.
    pub fn is_shared(&self) -> bool {
        self.channel.starts_with("{shared")
    }

    /// The lab file.
    pub fn file(&self) -> String {
        let Self { name, meters, channel, nat, dns, dhcp, .. } = self;
        let mut meter = format!("count: {meters}");
        if let Some((cpus, memory)) = self.limits {
            meter += &format!(", limits: {{cpus: {cpus}, memory: {memory} MiB}}");
        }
        if *dhcp {
            meter += ", address: dhcp";
        }
        let image = if self.image { "  box: {root: image.tar}\n" } else { "" };
        let attach = if self.image { "server, meter, box" } else { "server, meter" };
        let depot = "  depot: {attach: meter, subnet: 10.81.0.0/28}\n";
        let depot = if self.depot { depot } else { "" };
        // Generated certificates need a workload that uses them; it does not run.
        let tls = "workloads:
  - mqtt: {broker: server, publishers: meter-1, subscribers: meter-2, tls: generated,
           pattern: many-to-one, payload: payload.xml, rate: 1/s}
duration: 5 s
";
        let tls = if self.tls { tls } else { "" };
        format!(
            "experiment: {name}
nodes:
  server:
    run: [sh, -c, '{SERVER}']
    ready: {{log: begun}}
  meter: {{{meter}}}
{image}networks:
  lan:
    attach: [{attach}]
    subnet: 10.80.0.0/24
    channel: {channel}
    nat: {nat}
    dns: {dns}
    dhcp: {dhcp}
    links: {{meter: {{up: {{delay: {DELAY} ms}}}}}}
{depot}{tls}"
        )
    }
}
