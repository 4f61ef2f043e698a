//! What can be asked of loads and devices.

use super::trace::Shape;
use clap::Args;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use trace::{Distribution, Mode};
use units::{Bytes, Ratio, Span};

#[derive(Debug, Args)]
pub struct Load {
    /// The trace to send; - is the standard input. Without one, requests are made as
    /// --target, --arrivals and so on say
    #[arg(conflicts_with_all = ["target", "arrivals", "service", "path", "method", "size"])]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub shape: Shape,
    /// A closed loop: so many users, each of whom waits for the answer before the next
    /// request. The schedule's times are not used then
    #[arg(long, value_name = "USERS", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub closed: Option<u32>,
    /// How long users of a closed loop wait after an answer
    #[arg(long, value_name = "DISTRIBUTION", requires = "closed")]
    pub think: Option<Distribution>,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "2 s")]
    pub timeout: Span,
    /// CoAP requests are confirmable; they are not sent again
    #[arg(long)]
    pub confirmable: bool,
    /// Do not wait for answers: plain UDP and TCP
    #[arg(long)]
    pub no_answer: bool,
    /// The quality of service of MQTT messages
    #[arg(long, default_value_t = 0, value_name = "QOS",
        value_parser = clap::value_parser!(u8).range(0..=1))]
    pub qos: u8,
    /// HTTP connections to one target at most
    #[arg(long, default_value_t = 16, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Threads that send, each to a part of the devices
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=256))]
    pub senders: u32,
    /// The cores that senders stay on, in turn, e.g. 1,3
    #[arg(long, value_name = "CORE,...", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// Look at the clock all the time, and never sleep: sharper, and a core is busy
    #[arg(long)]
    pub spin: bool,
    /// How far behind the schedule it goes on; what is left then stays unsent
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    pub patience: Span,
    /// The address to send from
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<IpAddr>,
    /// Where results go: summary.json and latency.hlog
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Also keep each operation's times, in operations.csv
    #[arg(long, requires = "out")]
    pub operations: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct Device {
    /// Where it serves CoAP; 0.0.0.0:5683 if nothing else is asked for
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub coap: Option<SocketAddr>,
    /// Where it serves HTTP/1.1
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<SocketAddr>,
    /// Where it returns datagrams
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub udp: Option<SocketAddr>,
    /// Where it returns the bytes of connections
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub tcp: Option<SocketAddr>,
    /// A resource and its service time, e.g. temperature=exponential:5ms, or measured:FILE
    /// to replay times; without a time it is answered at once
    #[arg(long, value_name = "PATH[=DISTRIBUTION]")]
    pub resource: Vec<String>,
    /// How the time of --resource is spent: sleep or busy
    #[arg(long, default_value = "sleep", value_name = "MODE")]
    pub mode: Mode,
    /// Resources from a file, as `thingbed trace generate --resources-out` writes it
    #[arg(long, value_name = "FILE")]
    pub resources: Option<PathBuf>,
    /// Which device of that file it is
    #[arg(long, default_value_t = 0, value_name = "N", requires = "resources")]
    pub number: u32,
    /// Threads that serve
    #[arg(long, default_value_t = 1, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub threads: u32,
    /// So many requests may wait; further ones are refused (5.03, 503)
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub queue: usize,
    /// How much an answer carries
    #[arg(long, default_value = "4 B", value_name = "SIZE")]
    pub payload: Bytes,
    /// The core that it stays on
    #[arg(long, value_name = "CORE")]
    pub core: Option<usize>,
    /// Look for requests all the time, and never sleep
    #[arg(long)]
    pub spin: bool,
    /// Do not try at the start how well service times are kept
    #[arg(long)]
    pub no_check: bool,
    /// Answer this share of requests by bytes that are no message
    #[arg(long, value_name = "SHARE")]
    pub garbage: Option<Ratio>,
    /// Answer this share twice
    #[arg(long, value_name = "SHARE")]
    pub twice: Option<Ratio>,
    /// Answer this share late
    #[arg(long, value_name = "SHARE")]
    pub late: Option<Ratio>,
    /// How late that is
    #[arg(long, default_value = "3 s", value_name = "TIME")]
    pub late_by: Span,
    /// Do not answer this share
    #[arg(long, value_name = "SHARE")]
    pub silent: Option<Ratio>,
    /// The seed of service times and of what is done wrong
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
