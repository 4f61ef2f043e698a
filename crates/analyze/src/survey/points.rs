//! The capture points of a capture, and their names.

use crate::error::Error;
use crate::figures::PointFigures;
use crate::options::Options;
use std::collections::HashMap;
use units::Contexts;

/// The maximum length of a point's name, in bytes. Linux limits names of interfaces to 15; pcapng
/// allows 65,535, and each flow's row repeats it.
const MAX_NAME: usize = 255;
/// The maximum length of all names together, in bytes: those of 65,536 points, the most that a capture
/// can have, of 64 B each.
const MAX_NAMES: usize = 4 << 20;

/// The capture points, by number.
#[derive(Debug, Default)]
pub(super) struct Points {
    points: Vec<Point>,
    names: Vec<String>,
    by_name: HashMap<String, usize>,
    by_node: HashMap<String, usize>,
    /// Bytes of the names from the capture.
    named_bytes: usize,
    /// Points whose name from the capture was not taken.
    unnamed: u64,
}

#[derive(Debug)]
struct Point {
    link: u16,
    /// Contexts of 6LoWPAN that the capture names.
    contexts: Contexts,
    /// Whether it is included in the results.
    is_chosen: bool,
    /// The first point of the same node.
    node: Option<usize>,
    packets: u64,
    bytes: u64,
}

impl Points {
    /// Adds a point of this link type, or finds the one of the same name and link type, which has these
    /// contexts from now on. A point without a name, or with one beyond the limits, is called by its
    /// number.
    pub fn add(
        &mut self,
        name: Option<&str>,
        link: u16,
        contexts: Contexts,
        options: &Options,
    ) -> usize {
        // A file of several sections names its interfaces in each of them.
        if let Some(known) = name.and_then(|name| self.known(name, link)) {
            self.points[known].contexts = contexts;
            return known;
        }
        let number = self.points.len();
        let has_room = |name: &&str| {
            name.len() <= MAX_NAME && self.named_bytes.saturating_add(name.len()) <= MAX_NAMES
        };
        let kept = name.filter(has_room);
        self.named_bytes += kept.map_or(0, str::len);
        self.unnamed += u64::from(name.is_some() && kept.is_none());
        let name = kept.map_or_else(|| format!("interface {number}"), str::to_owned);
        if let Some(known) = self.known(&name, link) {
            return known;
        }
        let node = name.split_once(':').map(|(node, _)| node.to_owned());
        let node = node.map(|node| *self.by_node.entry(node).or_insert(number));
        let chosen = &options.points;
        let is_end = options.between.as_ref().is_some_and(|(from, to)| [from, to].contains(&&name));
        // The ends of a path are needed even if `points` does not name them.
        let is_chosen = chosen.is_empty() || chosen.contains(&name) || is_end;
        self.points.push(Point { link, contexts, is_chosen, node, packets: 0, bytes: 0 });
        self.by_name.insert(name.clone(), number);
        self.names.push(name);
        number
    }

    fn known(&self, name: &str, link: u16) -> Option<usize> {
        self.find(name).filter(|known| self.points[*known].link == link)
    }

    /// The number of points.
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// The last point of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether packets of the point are included in the results.
    pub fn is_chosen(&self, point: usize) -> bool {
        self.points[point].is_chosen
    }

    /// The link type of the point (tcpdump.org's list).
    pub fn link(&self, point: usize) -> u16 {
        self.points[point].link
    }

    /// The contexts of 6LoWPAN at the point.
    pub fn contexts(&self, point: usize) -> &Contexts {
        &self.points[point].contexts
    }

    /// The node of the point, as its first point; `None` for a name without a node.
    pub fn node_of(&self, point: usize) -> Option<usize> {
        self.points[point].node
    }

    /// Counts a packet of this many bytes at the point.
    pub fn count(&mut self, point: usize, length: u32) {
        let point = &mut self.points[point];
        point.packets += 1;
        point.bytes += u64::from(length);
    }

    /// The error that no point has this name.
    pub fn lacks(&self, name: &str) -> Error {
        Error::NoPoint { missing: name.to_owned(), known: self.names.clone() }
    }

    /// A note on points that have a name in the capture and are called by their number.
    pub fn note(&self) -> Option<String> {
        (self.unnamed > 0).then(|| {
            format!(
                "{} capture points are called `interface` and their number: a name has at most \
                 {MAX_NAME} B, and all names together {} MiB",
                self.unnamed,
                MAX_NAMES >> 20
            )
        })
    }

    /// The figures of all points.
    pub fn figures(self) -> Vec<PointFigures> {
        let figures = |(point, name): (Point, String)| PointFigures {
            name,
            packets: point.packets,
            bytes: point.bytes,
        };
        self.points.into_iter().zip(self.names).map(figures).collect()
    }
}
