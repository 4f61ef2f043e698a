//! The beginning of an epoch.

use super::{Hub, Stage};
use crate::carrier::{self, Params};
use crate::envelope;
use crate::keys::Root;
use crate::model::ModelId;
use crate::rng::Seed;

impl Hub {
    /// Begins an epoch with a model.
    pub(super) fn open(&mut self, model: ModelId, epoch: u32) {
        // Also for the same model: new keys cost nothing more than another epoch (decision 63).
        let (seed, secret) = (self.rng.seed(), self.rng.bytes());
        let root = match self.psks.is_secure() {
            true => Root::new(&secret, self.session).signed(self.authority.clone()),
            false => Root::insecure(self.session),
        };
        let params = self.params(root.clone(), epoch, seed);
        if let Some(mut carrier) = carrier::hub(model, &params) {
            carrier.set_apart(self.apart.members());
            carrier.set_multicast(!self.multicast.is_blocked());
            // Until the next decision, a new model would take the time of its frames on the wire for the path's.
            carrier.adapt(&self.conditions());
            for (member, pairing) in &self.pairings {
                pairing.keys().into_iter().for_each(|(pair, _)| carrier.set_pair(*member, pair));
            }
            self.models.iter().for_each(|(member, models)| {
                carrier.set_bundles(*member, models.reads_bundles());
            });
            let (rtt, datagram) = (params.round_trip, params.datagram);
            let (first, until) = (self.next, None);
            let stage = Stage { model, secret, root, carrier, first, rtt, datagram, until };
            self.stages.insert(epoch, stage);
        }
    }

    /// What the model of an epoch needs to know.
    pub(super) fn params(&self, root: Root, epoch: u32, seed: Seed) -> Params {
        let here = self.conditions();
        // Before the first answer, assume that answers are as long as messages.
        let answer = if self.answer > 0 { self.answer } else { self.payload };
        let answer = envelope::answer_len(&root, answer);
        let targets = &self.config.targets;
        Params {
            // Members without keys have nothing to send yet.
            pair: root.clone(),
            root,
            epoch,
            members: self.members,
            datagram: self.config.datagram(),
            below: self.config.below,
            rate_bit_s: here.rate_bit_s,
            loss: here.loss,
            round_trip: here.rtt,
            wait: here.rtt.max(self.capacity.smoothed_trip().unwrap_or_default()),
            estimated: self.capacity.is_estimated(),
            answered: self.config.pattern.is_answered(),
            answer,
            efficient: targets.data_budget.is_some() || targets.energy.is_some(),
            seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PerformanceMap;
    use crate::envelope::{FromMember, seal_member};
    use crate::session::{Config, Security};
    use crate::targets::Pattern;

    #[test]
    fn answers_are_assumed_as_long_as_they_are_on_the_wire() {
        let key = Security::Key(b"a key of sixteen bytes or more".to_vec());
        for security in [key, Security::InsecureOnPurpose] {
            let mut config = Config::new(Pattern::RequestResponse, security);
            config.assumed.payload = 300.0;
            let seed = || Seed::reproducible(1);
            let mut hub = Hub::new(config, PerformanceMap::shipped(), 3, &seed()).unwrap();
            for length in [300, 80] {
                let root = hub.stages[&0].root.clone();
                let answer = FromMember::Answer(7, vec![5; length]);
                let sealed = seal_member(&root, 0, 2, &answer);
                assert_eq!(hub.params(root, 0, seed()).answer, sealed.len());
                // Of the next round: the length of the last answer.
                hub.answer = 80;
            }
        }
    }
}
