//! Specs of workload programs: the runner writes one JSON file for each program, which the
//! program reads and checks.

mod collector;
mod console;
mod dhcp;
mod exchange;
mod gateway;
mod interaction;
mod load;
mod mqtt;

pub use collector::{CollectorSpec, OtlpSpec, PageSpec, StatsdSpec};
pub use console::{
    CONSOLE_ATTACH, CONSOLE_DONE, CONSOLE_FOLLOW, CONSOLE_PREFIX, CONSOLE_SOCKET, ConsoleSpec,
    ConsoleStep,
};
pub use dhcp::DhcpSpec;
pub use exchange::{ExchangeSpec, Side};
pub use gateway::{GATEWAY_PORT, GatewaySpec};
pub use interaction::{InteractionSpec, Role};
pub use load::{DeviceSpec, LoadSpec, ProbeSpec};
pub use mqtt::MqttSpec;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// The largest message number: payloads have ten digits for it.
pub const MAX_MESSAGE: u64 = 9_999_999_999;

/// The spec of a program.
pub trait Spec: Serialize + DeserializeOwned + JsonSchema {
    /// The program's name on the command line.
    const PROGRAM: &'static str;

    /// Checks values that the type permits.
    ///
    /// # Errors
    /// What is wrong, and what is valid.
    fn check(&self) -> Result<(), String>;

    /// Parses and checks a spec.
    ///
    /// # Errors
    /// What is wrong, and where.
    fn parse(text: &str) -> Result<Self, String> {
        let spec: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        spec.check()?;
        Ok(spec)
    }
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Node name.
    pub name: String,
    /// Address of the node.
    pub address: IpAddr,
}

/// TLS files of one side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Certificate of the authority (CA) that signed the other side's certificate.
    pub ca: PathBuf,
    /// This side's certificate, if the other requires one.
    #[serde(default)]
    pub cert: Option<PathBuf>,
    /// Private key of this side's certificate.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

/// For tests: the error of `spec` with another value for `key`.
#[cfg(test)]
fn error_with<S: Spec>(mut spec: serde_json::Value, key: &str, value: serde_json::Value) -> String {
    spec[key] = value;
    match S::parse(&spec.to_string()) {
        Ok(_) => panic!("{key} is accepted"),
        Err(error) => error,
    }
}
