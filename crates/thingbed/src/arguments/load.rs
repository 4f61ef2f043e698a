//! Options of `thingbed load` and `thingbed device`.

use super::trace::Shape;
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use trace::{Distribution, Mode};
use units::{Bytes, Ratio, Span};

#[derive(Debug, Args)]
pub struct Load {
    /// Trace to replay; - reads standard input [default: generate requests]
    ///
    /// Without a trace, Thingbed generates the requests from --target, --arrivals and the
    /// other options under "Generated requests".
    #[arg(conflicts_with_all = ["target", "arrivals", "service", "path", "method", "size"])]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub shape: Shape,
    /// Closed loop (closed model) with this many virtual users
    ///
    /// Each user waits for an answer before it sends the next request. Thingbed ignores the
    /// times of the schedule.
    #[arg(help_heading = "Sending", long, value_name = "USERS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub closed: Option<u32>,
    /// Think time of a closed loop's users after each answer [default: 0]
    #[arg(help_heading = "Sending", long, value_name = "DISTRIBUTION", requires = "closed")]
    pub think: Option<Distribution>,
    /// Response timeout, counted from when the request is sent
    ///
    /// It also limits the time that a request waits for a free connection.
    #[arg(help_heading = "Sending", long, value_name = "TIME", default_value = "2 s")]
    pub timeout: Span,
    /// Do not wait for answers: UDP and TCP only
    #[arg(help_heading = "Sending", long)]
    pub no_answer: bool,
    /// Quality of service (QoS) of MQTT messages, 0 or 1
    #[arg(help_heading = "Sending", long, default_value_t = 0, value_name = "QOS",
        value_parser = clap::value_parser!(u8).range(0..=1))]
    pub qos: u8,
    /// Maximum HTTP connections per target; requests wait for a free one
    #[arg(help_heading = "Sending", long, default_value_t = 16, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    #[command(flatten)]
    pub coap: Coap,
    /// Sender threads; each serves a part of the devices
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Pacing",
        value_parser = clap::value_parser!(u32).range(1..=256))]
    pub senders: u32,
    /// Pin the sender threads to these CPU cores (affinity) in turn, e.g. 1,3
    #[arg(long, value_name = "CORE,...", value_delimiter = ',', help_heading = "Pacing")]
    pub cores: Vec<usize>,
    /// Busy-wait instead of sleeping: more exact send times, uses a core per sender
    #[arg(long, help_heading = "Pacing")]
    pub spin: bool,
    /// Stop sending when this machine is more than this behind schedule
    #[arg(long, value_name = "TIME", default_value = "10 s", help_heading = "Pacing")]
    pub patience: Span,
    /// Source address of the requests [default: the kernel's choice]
    #[arg(help_heading = "Sending", long, value_name = "ADDRESS")]
    pub from: Option<IpAddr>,
    /// Folder for the results: summary.json and latency.hlog
    #[arg(long, value_name = "FOLDER", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Also write the times of each request to operations.csv in that folder
    #[arg(long, requires = "out", help_heading = "Output")]
    pub operations: bool,
    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Send confirmable CoAP requests (CON); see --max-retransmit
    #[arg(long, help_heading = "CoAP")]
    pub confirmable: bool,
}

/// Options of CoAP, named as in the experiment file.
#[derive(Debug, Args)]
#[command(next_help_heading = "CoAP")]
pub struct Coap {
    /// CoAP block size, 16 B to 1024 B [default: 1024 B for requests above that]
    ///
    /// Block-wise transfer (RFC 7959): Thingbed sends larger requests in blocks of this size,
    /// and asks for blocks of this size in answers.
    #[arg(long, value_name = "SIZE")]
    pub block: Option<Bytes>,
    /// Retransmissions of an unacknowledged CON message; RFC 7252 uses 4
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_retransmit: u32,
    /// Shortest time to the first retransmission; it doubles each time
    #[arg(long, value_name = "TIME", default_value = "2 s", requires = "max_retransmit")]
    pub ack_timeout: Span,
    /// Longest time to the first retransmission, as a multiple of --ack-timeout
    #[arg(long, value_name = "FACTOR", default_value_t = 1.5, requires = "max_retransmit")]
    pub ack_random_factor: f64,
    /// Maximum outstanding requests per target; RFC 7252 uses 1 [default: no limit]
    ///
    /// Further requests wait.
    #[arg(long, value_name = "N")]
    pub nstart: Option<u32>,
    /// Observe each GET's resource for this time (RFC 7641), count notifications
    #[arg(long, value_name = "TIME")]
    pub observe: Option<Span>,
}

#[derive(Debug, Args)]
pub struct Device {
    /// Address of the CoAP server [default: 0.0.0.0:5683 if no server is given]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Servers")]
    pub coap: Option<SocketAddr>,
    /// Address of the HTTP/1.1 server
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Servers")]
    pub http: Option<SocketAddr>,
    /// Address of the UDP echo server
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Servers")]
    pub udp: Option<SocketAddr>,
    /// Address of the TCP echo server
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Servers")]
    pub tcp: Option<SocketAddr>,
    /// Resource and its service time, e.g. temperature=exponential:5ms; repeatable
    ///
    /// measured:FILE replays service times from a file. Without a distribution the device
    /// answers immediately.
    #[arg(long, value_name = "PATH[=DISTRIBUTION]", help_heading = "Resources")]
    pub resource: Vec<String>,
    /// How the device spends the service time of --resource: sleep or busy
    #[arg(long, default_value = "sleep", value_name = "MODE", help_heading = "Resources")]
    pub mode: Mode,
    /// Read resources from a file that `trace generate --resources-out` wrote
    #[arg(long, value_name = "FILE", help_heading = "Resources")]
    pub resources: Option<PathBuf>,
    /// Number of this device in the file of --resources
    #[arg(
        long,
        default_value_t = 0,
        value_name = "N",
        requires = "resources",
        help_heading = "Resources"
    )]
    pub number: u32,
    /// Size of an answer's payload; above 1024 B CoAP sends it block-wise
    #[arg(long, default_value = "4 B", value_name = "SIZE", help_heading = "Resources")]
    pub payload: Bytes,
    /// Make CoAP resources observable; time between changes, e.g. exponential:1s
    #[arg(long, value_name = "DISTRIBUTION", help_heading = "Resources")]
    pub notify: Option<Distribution>,
    /// Worker threads
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: u32,
    /// Queue length in requests; the device refuses more with 5.03 or 503
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub queue: usize,
    /// Pin the device to this CPU core (affinity)
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,
    /// Busy-wait for requests instead of sleeping: faster, uses a core
    #[arg(long)]
    pub spin: bool,
    /// Skip the self-test of service times at the start
    #[arg(long)]
    pub no_check: bool,
    /// Fault injection: share of requests answered with a corrupt message
    #[arg(long, value_name = "SHARE", help_heading = "Faults")]
    pub corrupt: Option<Ratio>,
    /// Fault injection: share of requests answered twice
    #[arg(long, value_name = "SHARE", help_heading = "Faults")]
    pub duplicate: Option<Ratio>,
    /// The name of --corrupt in earlier versions; refused
    #[arg(long, hide = true)]
    pub garbage: Option<String>,
    /// The name of --duplicate in earlier versions; refused
    #[arg(long, hide = true)]
    pub twice: Option<String>,
    /// Fault injection: share of requests answered late
    #[arg(long, value_name = "SHARE", help_heading = "Faults")]
    pub late: Option<Ratio>,
    /// Extra delay of the answers of --late
    #[arg(long, default_value = "3 s", value_name = "TIME", help_heading = "Faults")]
    pub late_by: Span,
    /// Fault injection: share of requests without an answer
    #[arg(long, value_name = "SHARE", help_heading = "Faults")]
    pub silent: Option<Ratio>,
    /// Seed of the random service times and faults
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
}
