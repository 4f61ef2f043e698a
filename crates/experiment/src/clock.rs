//! The key `clock` of the experiment file.

use crate::read::{Read, Sink};
use crate::scalar::word;
use crate::tree::Node;
use record::Clock;

impl Read for Clock {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}
