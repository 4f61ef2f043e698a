//! The root file systems of a plan's nodes, unpacked.

use crate::error::Error;
use experiment::{Plan, PlannedNode, PlannedPlatform, PlannedRoot};
use image::{Archive, Cache, Platform, Unpacked};
use std::collections::HashMap;

/// One root file system, shared by any number of nodes.
#[derive(Debug)]
struct Ready {
    root: lab::Root,
    /// The image's own program.
    argv: Vec<String>,
    /// Keeps it in the cache.
    _held: Option<Unpacked>,
}

/// The root file systems of a run. The cache keeps them while this exists.
#[derive(Debug, Default)]
pub(crate) struct Roots(HashMap<PlannedRoot, Ready>);

impl Roots {
    /// Unpacks the images of the nodes of `plan`, each once.
    ///
    /// # Errors
    /// The first node whose image cannot be unpacked, or has no program where one is needed.
    pub fn of(plan: &Plan) -> Result<Self, Error> {
        let mut roots = HashMap::new();
        for node in &plan.nodes {
            let Some(root) = &node.root else { continue };
            if roots.contains_key(root) {
                continue;
            }
            let name = || node.name.clone();
            let emulator =
                emulator(root).map_err(|fault| Error::Emulator { node: name(), fault })?;
            let mut made = ready(root).map_err(|fault| Error::Root { node: name(), fault })?;
            made.root.emulator = emulator;
            roots.insert(root.clone(), made);
        }
        let roots = Self(roots);
        // An experiment that says when a program is ready needs a program.
        let unnamed = |node: &&PlannedNode| {
            let is_required = node.machine.is_none()
                && node.program.as_ref().is_some_and(|program| program.run.is_empty());
            is_required && roots.program(node).is_none()
        };
        match plan.nodes.iter().find(unnamed) {
            Some(node) => Err(Error::NoProgram { node: node.name.clone() }),
            None => Ok(roots),
        }
    }

    /// The root of a node, if it has a separate one.
    pub fn root(&self, node: &PlannedNode) -> Option<lab::Root> {
        Some(self.0.get(node.root.as_ref()?)?.root.clone())
    }

    /// The default program of a node's image, if it has one and the experiment does not exclude it.
    pub fn program(&self, node: &PlannedNode) -> Option<&[String]> {
        let argv = &self.0.get(node.root.as_ref()?)?.argv;
        (!node.is_idle && !argv.is_empty()).then_some(argv)
    }
}

/// What runs the programs of a root, if they are not for this machine.
fn emulator(planned: &PlannedRoot) -> Result<Option<lab::Emulator>, lab::Error> {
    let other = planned.platform.as_ref().filter(|_| is_foreign(planned));
    other.map(|platform| lab::Emulator::find(&platform.architecture)).transpose()
}

/// Whether the programs of a root are for another architecture than this machine's.
pub fn is_foreign(planned: &PlannedRoot) -> bool {
    planned.platform.as_ref().is_some_and(|planned| !platform(planned).is_native())
}

/// A platform in the terms of images.
fn platform(planned: &PlannedPlatform) -> Platform {
    let PlannedPlatform { architecture, variant } = planned.clone();
    Platform { os: "linux".to_owned(), architecture, variant }
}

/// The number of nodes of `plan` that QEMU emulates, and their groups.
pub(crate) fn emulated(plan: &Plan) -> (usize, String) {
    let is_emulated = |node: &&PlannedNode| {
        node.root.as_ref().is_some_and(is_foreign)
            || node.machine.as_ref().is_some_and(|machine| machine.is_emulated)
    };
    let nodes: Vec<&PlannedNode> = plan.nodes.iter().filter(is_emulated).collect();
    let mut groups: Vec<&str> = nodes.iter().map(|node| node.group.as_str()).collect();
    groups.dedup();
    (nodes.len(), groups.join(", "))
}

fn ready(planned: &PlannedRoot) -> Result<Ready, image::Error> {
    if planned.path.is_dir() && !Archive::is_layout(&planned.path) {
        let cwd = "/".to_owned();
        let root = lab::Root { lower: planned.path.clone(), cwd, ..lab::Root::default() };
        return Ok(Ready { root, argv: Vec::new(), _held: None });
    }
    let platform = planned.platform.as_ref().map_or_else(Platform::this, platform);
    let archive = Archive::open_for(&planned.path, planned.image.as_deref(), &platform)?;
    // A small archive may unpack to any size (decision 59).
    let archive = archive.with_limit(planned.limit.map(units::Bytes::get));
    let unpacked = Cache::of_user().unpack(&archive)?;
    let config = archive.config().clone();
    let root = lab::Root {
        lower: unpacked.root.clone(),
        env: config.env,
        cwd: config.cwd,
        user: config.user,
        emulator: None,
    };
    Ok(Ready { root, argv: config.argv, _held: Some(unpacked) })
}
