//! Options of `thingbed analyze`.

use clap::Args;
use std::path::PathBuf;
use units::{Contexts, Ipv6Prefix};

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
    /// Prefix of a 6LoWPAN context that the capture does not name, e.g. 1=fd00::/64; repeatable
    ///
    /// Numbers are 0 to 15. A prefix that the capture names, as those of Thingbed do, is replaced.
    #[arg(long, value_name = "NUMBER=PREFIX", value_parser = context)]
    pub context: Vec<(u8, Ipv6Prefix)>,
    /// Maximum number of rows in each table of flows, nodes and paths
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub flows: usize,
}

impl Analyze {
    /// The number of a context with two prefixes.
    pub fn context_given_twice(&self) -> Option<u8> {
        let mut numbers: Vec<u8> = self.context.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

fn context(text: &str) -> Result<(u8, Ipv6Prefix), String> {
    let (number, prefix) =
        text.split_once('=').ok_or("write NUMBER=PREFIX, for example 1=fd00::/64")?;
    let known = number.parse().ok().filter(|known| usize::from(*known) < Contexts::MAX);
    let known =
        known.ok_or_else(|| format!("`{number}` is not the number of a context; write 0 to 15"))?;
    Ok((known, prefix.parse()?))
}

fn port(text: &str) -> Result<(analyze::Protocol, u16), String> {
    let (protocol, port) =
        text.split_once('=').ok_or("write PROTOCOL=PORT, for example mqtt=1884")?;
    let number =
        port.parse().map_err(|_| format!("`{port}` is not a port number; write 1 to 65535"))?;
    Ok((protocol.parse()?, number))
}

#[cfg(test)]
mod tests {
    use super::context;

    #[test]
    fn a_context_is_a_number_and_a_prefix() {
        assert_eq!(context("15=fd00::/64").map(|(number, _)| number), Ok(15));
        for (text, part) in [
            ("fd00::/64", "write NUMBER=PREFIX"),
            ("16=fd00::/64", "write 0 to 15"),
            ("-1=fd00::/64", "write 0 to 15"),
            ("=fd00::/64", "write 0 to 15"),
            ("1=fd00::", "no prefix length"),
            ("1=fd00::1/64", "write `fd00::/64`"),
        ] {
            let error = context(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
