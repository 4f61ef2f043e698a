//! Interaction patterns in experiment files.

use crate::read::{Read, Sink};
use crate::scalar::{Word, word};
use crate::tree::Node;
use record::{DirectorModel, InteractionPattern};

/// A model of another protocol stack, which the director uses only if the file lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutsideModel(pub DirectorModel);

impl Word for OutsideModel {
    const WHAT: &'static str = "an external protocol stack";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("tcp-router-dealer", Self(DirectorModel::TcpRouterDealer)),
        ("tcp-publish-subscribe", Self(DirectorModel::TcpPublishSubscribe)),
        ("pgm-publish-subscribe", Self(DirectorModel::PgmPublishSubscribe)),
        ("mqtt", Self(DirectorModel::Mqtt)),
    ];
}

impl Read for OutsideModel {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

impl Read for InteractionPattern {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        word(node, sink)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_list_the_models_of_other_stacks_by_their_names() {
        assert!(OutsideModel::WORDS.iter().all(|(text, model)| model.0.text() == *text));
        let listed = OutsideModel::WORDS.iter().map(|(_, model)| model.0);
        assert!(listed.eq(DirectorModel::OUTSIDE));
    }
}
