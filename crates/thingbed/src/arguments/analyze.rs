//! What can be asked of a capture.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Analyze {
    /// The capture; - is the standard input
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write a page with charts here
    #[arg(long, value_name = "PAGE")]
    pub html: Option<PathBuf>,
    /// Only what this capture point saw, e.g. broker:eth0; may be given again
    #[arg(long, value_name = "POINT")]
    pub point: Vec<String>,
    /// Loss and latency from this capture point
    #[arg(long, value_name = "POINT", requires = "to")]
    pub from: Option<String>,
    /// ... to this one
    #[arg(long, value_name = "POINT", requires = "from")]
    pub to: Option<String>,
    /// How long a packet may take from one to the other before it is lost
    #[arg(long, value_name = "TIME", default_value = "10 s")]
    pub within: units::Span,
    /// What a port carries, where the first bytes do not show it, e.g. mqtt=1884;
    /// one of mqtt, coap, zmtp, opcua
    #[arg(long, value_name = "PROTOCOL=PORT", value_parser = port)]
    pub port: Vec<(analyze::Protocol, u16)>,
    /// How many flows the table shows
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub flows: usize,
}

fn port(text: &str) -> Result<(analyze::Protocol, u16), String> {
    let (protocol, port) =
        text.split_once('=').ok_or("write a protocol and its port, as in mqtt=1884")?;
    let number = port.parse().map_err(|_| format!("`{port}` is no port: 1 to 65535"))?;
    Ok((protocol.parse()?, number))
}
