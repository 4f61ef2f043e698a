//! Writes the experiment file of an import.

use super::imported::{Imported, Note};
use std::fmt::Write;
use std::path::Path;

/// An experiment before it is written.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub name: String,
    pub groups: Vec<Group>,
    pub networks: Vec<Network>,
    pub images: Vec<(String, String)>,
}

/// A group of nodes.
#[derive(Debug, Default, Clone)]
pub(super) struct Group {
    pub name: String,
    pub count: Option<String>,
    /// Other keys and their values as YAML.
    pub keys: Vec<(&'static str, String)>,
    /// The program and its variables.
    pub run: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Whether the program is a workload that may end, and not part of the node.
    pub ends: bool,
}

/// A network.
#[derive(Debug, Default)]
pub(super) struct Network {
    pub name: String,
    pub attach: Vec<String>,
    pub subnet: String,
    pub mtu: Option<String>,
}

impl Draft {
    /// The archive of `image`, which the experiment file names.
    pub fn archive(&mut self, image: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let archive = format!("{}.tar", image.chars().map(plain).collect::<String>());
        if !self.images.iter().any(|(known, _)| known == image) {
            self.images.push((image.to_owned(), archive.clone()));
        }
        archive
    }

    /// The experiment, with `notes` as comments.
    pub fn imported(self, file: &Path, notes: Vec<Note>) -> Imported {
        let mut text =
            format!("# Imported from {}.\n", file.display().to_string().replace('\n', " "));
        if !notes.is_empty() {
            text += "# Not carried over, or different:\n";
        }
        for note in &notes {
            let _ = writeln!(text, "#   line {}: {}", note.line, note.text.replace('\n', " "));
        }
        let _ = writeln!(text, "experiment: {}\nnodes:", scalar(&self.name));
        for group in &self.groups {
            let _ =
                writeln!(text, "  {}:{}", group.name, if group.is_empty() { " {}" } else { "" });
            if let Some(count) = &group.count {
                let _ = writeln!(text, "    count: {}", scalar(count));
            }
            for (key, value) in &group.keys {
                let _ = writeln!(text, "    {key}: {value}");
            }
            if !group.ends {
                program(&mut text, "    ", group);
            }
        }
        if !self.networks.is_empty() {
            text += "networks:\n";
        }
        for network in &self.networks {
            let _ = writeln!(text, "  {}:", network.name);
            let _ = writeln!(text, "    attach: {}", list(&network.attach));
            let _ = writeln!(text, "    subnet: {}", network.subnet);
            if let Some(mtu) = &network.mtu {
                let _ = writeln!(text, "    mtu: {mtu} B");
            }
            // So that a reader sees where impairments go.
            let first = network.attach.first().map_or("NODE", String::as_str);
            let _ = writeln!(text, "    # links: {{{first}: {{up: {{delay: 20 ms, loss: 1 %}}}}}}");
        }
        if self.groups.iter().any(|group| group.ends) {
            text += "workloads:\n";
        }
        for group in self.groups.iter().filter(|group| group.ends) {
            let _ = writeln!(text, "  - command:\n      name: {0}\n      on: {0}", group.name);
            program(&mut text, "      ", group);
        }
        text += "duration: 60 s\n";
        Imported {
            name: self.name,
            text,
            notes,
            images: self.images,
            nodes: self.groups.len(),
            networks: self.networks.len(),
        }
    }
}

impl Group {
    fn is_empty(&self) -> bool {
        let program = !(self.ends || self.run.is_empty() && self.env.is_empty());
        self.count.is_none() && self.keys.is_empty() && !program
    }
}

fn program(text: &mut String, indent: &str, group: &Group) {
    if !group.run.is_empty() {
        let _ = writeln!(text, "{indent}run: {}", list(&group.run));
    }
    if !group.env.is_empty() {
        let _ = writeln!(text, "{indent}env:");
    }
    for (name, value) in &group.env {
        let _ = writeln!(text, "{indent}  {}: {}", scalar(name), scalar(value));
    }
}

/// A list in one line.
pub(super) fn list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| scalar(item)).collect::<Vec<_>>().join(", "))
}

/// A text as YAML, quoted if it could mean something else.
pub(super) fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    let words = ["null", "~", "true", "false", "yes", "no", "on", "off"];
    let safe = text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && !words.contains(&text.to_ascii_lowercase().as_str());
    if safe { text.to_owned() } else { serde_json::to_string(text).unwrap_or_default() }
}

/// A name of another tool as a host name.
pub(super) fn host_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name: String = lower.chars().map(|c| if fits(c) { c } else { '-' }).collect();
    let name = name.trim_matches('-').chars().take(60).collect::<String>();
    match name.as_str() {
        "" => "node".to_owned(),
        "localhost" => "local-host".to_owned(),
        _ => name,
    }
}
