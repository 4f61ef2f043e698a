//! Options of `thingbed analyze`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Analyze {
    /// Packet capture in pcap or pcapng format; - reads standard input
    pub file: PathBuf,
    /// Print the analysis as JSON
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page with charts to this file
    #[arg(long, value_name = "PAGE")]
    pub html: Option<PathBuf>,
    /// Analyze only packets of this capture point, e.g. broker:eth0; repeatable
    #[arg(long, value_name = "POINT")]
    pub point: Vec<String>,
    /// Measure loss and latency from this capture point to the one of --to
    #[arg(long, value_name = "POINT", requires = "to")]
    pub from: Option<String>,
    /// Measure loss and latency from the capture point of --from to this one
    #[arg(long, value_name = "POINT", requires = "from")]
    pub to: Option<String>,
    /// Timeout after which a packet between two capture points counts as lost
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    pub within: units::Span,
    /// Decode a port as mqtt, coap, zmtp or opcua, e.g. mqtt=1884; repeatable
    ///
    /// Needed only where the first bytes of a stream do not identify its protocol.
    #[arg(long, value_name = "PROTOCOL=PORT", value_parser = port)]
    pub port: Vec<(analyze::Protocol, u16)>,
    /// Maximum number of rows in each table of flows, nodes and paths
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub flows: usize,
}

fn port(text: &str) -> Result<(analyze::Protocol, u16), String> {
    let (protocol, port) =
        text.split_once('=').ok_or("write PROTOCOL=PORT, for example mqtt=1884")?;
    let number =
        port.parse().map_err(|_| format!("`{port}` is not a port number; write 1 to 65535"))?;
    Ok((protocol.parse()?, number))
}
