//! What a workload is resolved with.

use crate::file::File;
use crate::nearest::advice;
use crate::problem::Problem;
use crate::read::{At, Named, OneOrMore, Sink};
use crate::resolve::networks::Networks;
use crate::resolve::nodes::Nodes;
use crate::source::Place;
use std::path::Path;
use units::Span;

/// Context for resolving a workload.
pub(super) struct Context<'a, 'f> {
    pub(super) file: &'f File,
    pub(super) nodes: &'a Nodes<'f>,
    pub(super) networks: &'a Networks<'f>,
    /// The experiment's duration.
    pub(super) duration: Option<Span>,
    pub(super) base: &'a Path,
}

impl Context<'_, '_> {
    /// The network that all `groups` share, or the one in `requested`.
    pub(super) fn network(
        &self,
        requested: &Option<At<String>>,
        place: Place,
        shared: &[&str],
        groups: &[&str],
        sink: &mut Sink,
    ) -> Option<String> {
        if !self.networks.complete {
            return None;
        }
        let all = groups.join(", ");
        if let Some(name) = requested {
            if shared.contains(&name.value.as_str()) {
                return Some(name.value.clone());
            }
            let known = self.file.networks.as_ref().is_some_and(|n| n.has(&name.value));
            let (text, label) = if known {
                let text = format!("the network `{}` does not include all of {all}", name.value);
                (text, format!("they have in common: {}", crate::nearest::list(shared)))
            } else {
                let names: Vec<&String> =
                    self.file.networks.iter().flat_map(Named::names).collect();
                let label = advice(&name.value, names.iter().map(|name| name.as_str()));
                (format!("unknown network `{}`", name.value), label)
            };
            sink.add(Problem::new(text).at(name.place).label(label));
            return None;
        }
        match shared {
            [one] => Some((*one).to_owned()),
            [] => {
                let problem = Problem::new(format!("no network includes all of {all}"));
                sink.add(problem.at(place).label("attach them to the same network"));
                None
            }
            several => {
                let text = format!("{all} have several networks in common: {}", several.join(", "));
                let problem = Problem::new(text).at(place);
                sink.add(problem.label(format!("name one: `network: {}`", several[0])));
                None
            }
        }
    }

    pub(super) fn nonempty(&self, list: &At<OneOrMore<At<String>>>, text: &str, sink: &mut Sink) {
        if list.value.0.is_empty() {
            sink.add(Problem::new(text).at(list.place).label("name a group or a node"));
        }
    }
}
