//! Shells with completion.

use clap::ValueEnum;

/// A shell with completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompletedShell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl CompletedShell {
    /// Its name in the protocol of completion.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}
