//! The platform of a node's programs.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A platform of Linux in the terms of container images, such as `linux/arm64` or `linux/arm/v7`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlannedPlatform {
    /// The architecture (GOARCH).
    pub architecture: String,
    /// Its variant, such as `v7`; empty for any.
    pub variant: String,
}

impl fmt::Display for PlannedPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.variant.is_empty() { "" } else { "/" };
        write!(f, "linux/{}{slash}{}", self.architecture, self.variant)
    }
}

impl From<PlannedPlatform> for String {
    fn from(platform: PlannedPlatform) -> Self {
        platform.to_string()
    }
}

impl TryFrom<String> for PlannedPlatform {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The longest part of a platform's name, in bytes; GOARCH's longest name has 11.
const LONGEST: usize = 16;

impl FromStr for PlannedPlatform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_word = |part: &&str| {
            (1..=LONGEST).contains(&part.len())
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            ["linux", architecture] if is_word(&architecture) => {
                Ok(Self { architecture: architecture.to_owned(), variant: String::new() })
            }
            ["linux", architecture, variant] if is_word(&architecture) && is_word(&variant) => {
                Ok(Self { architecture: architecture.to_owned(), variant: variant.to_owned() })
            }
            _ => Err(format!("`{text}` is not a platform of Linux")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn platforms_are_read_and_written_alike() {
        for text in ["linux/arm64", "linux/arm/v7", "linux/386"] {
            assert_eq!(text.parse::<PlannedPlatform>().unwrap().to_string(), text);
        }
        for text in ["arm64", "windows/amd64", "linux/", "linux/arm/v7/x", "linux/../x", "", "/"] {
            assert!(text.parse::<PlannedPlatform>().is_err(), "{text}");
        }
    }
}
