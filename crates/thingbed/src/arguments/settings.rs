//! Options that change an experiment for one command.

use clap::Args;
use experiment::{Experiment, Overrides};
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Debug, Clone, Default, Args)]
pub struct Settings {
    /// Value of an axis or a key, e.g. loss='5 %', loss='1 %|5 %', nodes.meter.count=20;
    /// repeatable. Values of an axis with `|` need double quotes, e.g. 'command="a|b"|c'
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Environment variables for the file, in place of this process's.
    #[arg(skip)]
    pub environment: Option<BTreeMap<String, String>>,
}

impl Settings {
    /// Reads and checks an experiment with these settings.
    ///
    /// # Errors
    /// As for `Experiment::read`.
    pub fn read(&self, file: &Path) -> Result<Experiment, experiment::Errors> {
        let environment = |name: &str| match &self.environment {
            Some(recorded) => recorded.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        Experiment::read_with(file, Overrides { set: &self.set, environment: &environment })
    }
}
