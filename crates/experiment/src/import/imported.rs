//! What an import results in.

/// A file of another tool as an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Name of the experiment.
    pub name: String,
    /// The experiment file.
    pub text: String,
    /// What could not be carried over, or means something else, in the order of the file.
    pub notes: Vec<Note>,
    /// Names of images, as words of a shell, and the archives in which the experiment expects them.
    pub images: Vec<(String, String)>,
    /// Number of groups of nodes.
    pub nodes: usize,
    /// Number of networks.
    pub networks: usize,
}

/// Something that could not be carried over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Line in the file, from 1.
    pub line: usize,
    /// What is missing or different.
    pub text: String,
}
