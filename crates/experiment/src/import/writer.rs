//! Writes the experiment file of an import.

use super::imported::{Imported, Note};
use super::text::{line, list, scalar, shell_word};
use super::variables::Expanded;
use crate::source::Place;
use crate::subnet::Subnet;
use indexmap::IndexMap;
use std::fmt::Write;
use std::path::Path;

/// An experiment before it is written.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub name: String,
    pub groups: Vec<Group>,
    pub networks: Vec<Network>,
    pub images: Vec<Image>,
}

/// An image and its archive.
#[derive(Debug)]
pub(super) struct Image {
    name: String,
    archive: String,
}

/// A group of nodes.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub name: String,
    pub count: Option<Expanded>,
    /// Other keys and their values as YAML.
    pub keys: Vec<(&'static str, String)>,
    /// The program and its variables.
    pub run: Vec<String>,
    pub env: IndexMap<String, String>,
    /// Whether the program is a workload that may end, and not part of the node.
    pub ends: bool,
}

/// A network.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub name: String,
    /// Where it is in the foreign file.
    pub place: Place,
    pub attach: Vec<String>,
    /// At most one of IPv4 and one of IPv6.
    pub subnets: Vec<Subnet>,
    /// MTU in bytes, or a variable.
    pub mtu: Option<String>,
}

/// Maximum length of the name of an archive, without its ending.
const MAX_ARCHIVE: usize = 200;

impl Draft {
    /// The archive of `image`, which the experiment file names.
    pub fn archive(&mut self, image: &str) -> String {
        // An argument with `-` would be an option.
        let name = image.trim_start_matches('-');
        if let Some(known) = self.images.iter().find(|known| known.name == name) {
            return known.archive.clone();
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let stem: String = name.chars().map(plain).take(MAX_ARCHIVE).collect();
        let stem = match stem.trim_start_matches('-') {
            "" => "image",
            stem => stem,
        };
        let candidates = (1..).map(|number| match number {
            1 => format!("{stem}.tar"),
            _ => format!("{stem}-{number}.tar"),
        });
        let is_free = |archive: &String| self.images.iter().all(|known| known.archive != *archive);
        let archive = candidates.into_iter().find(is_free).unwrap_or_default();
        self.images.push(Image { name: name.to_owned(), archive: archive.clone() });
        archive
    }

    /// The experiment, with `notes` as comments.
    pub fn imported(self, file: &Path, notes: Vec<Note>) -> Imported {
        let mut text = format!("# Imported from {}.\n", line(&file.display().to_string()));
        if !notes.is_empty() {
            text += "# Not carried over, or different:\n";
        }
        for note in &notes {
            let _ = writeln!(text, "#   line {}: {}", note.line, line(&note.text));
        }
        let _ = writeln!(text, "experiment: {}\nnodes:", scalar(&self.name));
        for group in &self.groups {
            group.write(&mut text);
        }
        if !self.networks.is_empty() {
            text += "networks:\n";
        }
        for network in &self.networks {
            network.write(&mut text);
        }
        if self.groups.iter().any(|group| group.ends) {
            text += "workloads:\n";
        }
        for group in self.groups.iter().filter(|group| group.ends) {
            let name = scalar(&group.name);
            let _ = writeln!(text, "  - command:\n      name: {name}\n      on: {name}");
            group.write_program(&mut text, "      ");
        }
        text += "duration: 60 s\n";
        let images = self.images.into_iter();
        Imported {
            name: self.name,
            text,
            notes,
            // The user pastes commands with these names into a shell.
            images: images.map(|image| (shell_word(&image.name), image.archive)).collect(),
            nodes: self.groups.len(),
            networks: self.networks.len(),
        }
    }
}

impl Group {
    /// Number of nodes, without variables.
    pub fn size(&self) -> u64 {
        self.count.as_ref().and_then(|count| count.plain.trim().parse().ok()).unwrap_or(1)
    }

    pub fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, _)| *known == key)
    }

    fn write(&self, text: &mut String) {
        let end = if self.is_empty() { " {}" } else { "" };
        let _ = writeln!(text, "  {}:{end}", scalar(&self.name));
        if let Some(count) = &self.count {
            let _ = writeln!(text, "    count: {}", scalar(count.text.trim()));
        }
        for (key, value) in &self.keys {
            let _ = writeln!(text, "    {key}: {value}");
        }
        if !self.ends {
            self.write_program(text, "    ");
        } else if self.has("root") {
            // The command is in place of the image's program, as in a container.
            text.push_str("    run: []\n");
        }
    }

    fn is_empty(&self) -> bool {
        let program = !(self.ends || self.run.is_empty() && self.env.is_empty());
        self.count.is_none() && self.keys.is_empty() && !program
    }

    fn write_program(&self, text: &mut String, indent: &str) {
        if !self.run.is_empty() {
            let _ = writeln!(text, "{indent}run: {}", list(&self.run));
        }
        if !self.env.is_empty() {
            let _ = writeln!(text, "{indent}env:");
        }
        for (name, value) in &self.env {
            let _ = writeln!(text, "{indent}  {}: {}", scalar(name), scalar(value));
        }
    }
}

impl Network {
    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "  {}:", scalar(&self.name));
        let _ = writeln!(text, "    attach: {}", list(&self.attach));
        let _ = match self.subnets.as_slice() {
            [one] => writeln!(text, "    subnet: {one}"),
            all => {
                let all: Vec<String> = all.iter().map(Subnet::to_string).collect();
                writeln!(text, "    subnet: {}", list(&all))
            }
        };
        if let Some(mtu) = &self.mtu {
            let _ = writeln!(text, "    mtu: {}", scalar(&format!("{mtu} B")));
        }
        // So that a reader sees where impairments go.
        let first = self.attach.first().map_or("NODE", String::as_str);
        let _ = writeln!(text, "    # links: {{{first}: {{up: {{delay: 20 ms, loss: 1 %}}}}}}");
    }
}
