//! Options of `compare`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Options of `compare`.
#[derive(Debug, Clone, Args)]
pub struct Compare {
    /// Two builds: folders of their runs, or with --run two programs. Or folders of exchanges
    #[arg(required = true, value_name = "A B")]
    pub paths: Vec<PathBuf>,
    /// Run this experiment with each of two programs; its value ${env:PROGRAM} is the program
    #[arg(long, value_name = "EXPERIMENT", conflicts_with_all = ["by", "figure"])]
    pub run: Option<PathBuf>,
    /// Clock of the runs of --run: virtual, or real, in which the programs take turns [default: virtual]
    #[arg(long, value_name = "CLOCK", requires = "run")]
    pub clock: Option<experiment::Clock>,
    /// CPU of the runs of --run in virtual time; a number gives figures of CPU time
    #[arg(long, value_name = "CPU", requires = "run")]
    pub cpu: Option<experiment::Cpu>,
    /// Repeats per cell of --run [default: the experiment's `repeats`]
    #[arg(long, value_name = "N", requires = "run")]
    pub repeat: Option<u32>,
    /// Exit status 4 if a main figure changes by more than this, e.g. '5 %'; its whole 95 % interval counts
    #[arg(long, value_name = "SHARE", value_parser = percent, conflicts_with_all = ["by", "figure"])]
    pub max_change: Option<f64>,
    /// Show all figures that differ, not only the main ones
    #[arg(long, conflicts_with_all = ["by", "figure"])]
    pub all: bool,
    /// Output format of a comparison of builds
    #[arg(long, default_value = "text", conflicts_with_all = ["by", "figure"])]
    pub format: Format,
    /// Compare exchanges by this axis: the best value per payload size, as Markdown [default: protocol]
    #[arg(long, value_name = "AXIS")]
    pub by: Option<String>,
    /// Compare exchanges by this metric [default: time]
    #[arg(long)]
    pub figure: Option<CompareMetric>,
}

/// Metric of exchanges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompareMetric {
    /// Time of an exchange, from connecting to closing
    Time,
    /// Time until the payload has arrived
    Received,
    /// Bytes on the wire
    Bytes,
}

/// Format of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people
    #[default]
    Text,
    /// One JSON object
    Json,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>();
    let valid = number.ok().filter(|n| n.is_finite() && *n >= 0.0);
    valid.ok_or_else(|| "not a share; write for example '5 %'".to_owned())
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_share_has_an_optional_unit() {
        assert_eq!((percent("5 %"), percent("0.5"), percent("0%")), (Ok(5.0), Ok(0.5), Ok(0.0)));
        for wrong in ["", "%", "five", "-1 %", "inf", "nan"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
    }
}
