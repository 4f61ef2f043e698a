//! Impairments of one direction of a link, with the parameter names of tc-netem.

use crate::corrupt::Corrupt;
use crate::decisions::{Arrival, Decision};
use crate::delay::Delay;
use crate::duplicate::Duplicate;
use crate::handover::Handovers;
use crate::keys::{Contradictions, Key, Keys, Quantity};
use crate::loss::Loss;
use crate::outage::Outages;
use crate::path_mtu::PathMtu;
use crate::queue::QueueSpec;
use crate::reorder::Reorder;
use crate::server::Transmission;
use crate::slot::Slotting;
use crate::stage::{ChannelWait, Stage};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::path::Path;
use units::{Draw, Rate, Span};

/// Declares the stages of a link, in the order of their keys in the experiment file.
macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident: $kind:ty,)*) => {
        /// Impairments of one direction of a link.
        ///
        /// They apply in the order of a wire: path MTU, outage, duplication, queue, serialisation, loss,
        /// corruption, propagation, slot. A lost frame has used its share of the rate (tc-netem
        /// decides loss first). Serialises as the keys of the experiment file.
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct Impairment {
            $($(#[$doc])* pub $stage: $kind,)*
        }

        /// Makes random decisions about the frames of one flow, in their order.
        #[derive(Debug, Clone, Default)]
        pub(crate) struct Decider {
            $($stage: <$kind as Stage>::Flow,)*
        }

        impl Decider {
            pub fn new(config: &Impairment) -> Self {
                Self { $($stage: config.$stage.flow(),)* }
            }

            /// Applies the new settings instead of `before`. A model keeps its state unless it
            /// is replaced by another model.
            pub fn change(&mut self, before: &Impairment, config: &Impairment) {
                $(config.$stage.change_flow(&mut self.$stage, &before.$stage);)*
            }

            /// The decision about a frame.
            pub fn decide(&mut self, config: &Impairment, frame: &Arrival<'_>) -> Decision {
                let mut decision = Decision::default();
                $(config.$stage.decide(&mut self.$stage, frame, &mut decision);)*
                // Last, since a frame that overtakes has no delay.
                $(config.$stage.decide_delay(&mut self.$stage, frame, &mut decision);)*
                decision
            }
        }

        impl Impairment {
            /// All keys of the experiment file, in the order of its documentation.
            pub fn all_keys() -> impl Iterator<Item = &'static Key> {
                [$(<$kind>::KEYS,)*].into_iter().flatten()
            }

            /// The settings from keys of the file. Files that they name are not read; see
            /// [`Self::load`].
            ///
            /// # Errors
            /// If a key is unknown, or a value has the wrong type.
            pub fn read(keys: &Keys) -> Result<Self, String> {
                let known = |name: &&String| Self::all_keys().any(|key| key.name == *name);
                if let Some(unknown) = keys.0.keys().find(|name| !known(name)) {
                    return Err(format!("unknown key `{unknown}`"));
                }
                Ok(Self { $($stage: <$kind>::read(keys)?,)* })
            }

            /// The keys that differ from the defaults. [`Self::read`] reads them back, except
            /// for the contents of files.
            pub fn keys(&self) -> Keys {
                let mut keys = Keys::default();
                $(self.$stage.write(&mut keys);)*
                keys
            }

            /// The keys that these keys remove from a link when they change it: those of the
            /// models that they do not name, if they name another one.
            pub fn replaced(keys: &Keys) -> Vec<&'static str> {
                let mut replaced = Vec::new();
                for models in [$(<$kind>::MODELS,)*] {
                    if models.iter().any(|own| keys.has(own[0])) {
                        let others = models.iter().filter(|own| !keys.has(own[0]));
                        replaced.extend(others.flat_map(|own| own.iter().copied()));
                    }
                }
                replaced
            }

            /// Contradictions in the keys of a link, and keys without effect.
            pub fn check(keys: &Keys, wait: ChannelWait) -> Contradictions {
                let mut found = Contradictions::default();
                $(<$kind>::check(keys, wait, &mut found);)*
                found
            }

            /// Keys that do not suit frames of up to `longest` bytes, including the link header.
            pub fn check_longest(keys: &Keys, longest: u64) -> Contradictions {
                let mut found = Contradictions::default();
                $(<$kind>::check_longest(keys, longest, &mut found);)*
                found
            }

            /// What the kernel's netem lacks: the feature, and the fix.
            pub fn check_netem(keys: &Keys) -> Contradictions {
                let mut found = Contradictions::default();
                $(<$kind>::check_netem(keys, &mut found);)*
                found
            }

            /// Reads the files that the settings name, relative to `base`. Files that cannot be
            /// read are reported.
            pub fn load(&mut self, base: &Path) -> Contradictions {
                let mut found = Contradictions::default();
                $(self.$stage.load(base, &mut found);)*
                found
            }

            /// These settings with some keys changed, or reset by `null`.
            ///
            /// # Errors
            /// As [`Self::read`].
            pub fn with(&self, changes: &Keys) -> Result<Self, String> {
                let mut keys = self.keys();
                keys.0.extend(changes.0.clone());
                let mut new = Self::read(&keys)?;
                // Keys have only the names of files; their contents are not read during a run.
                $(new.$stage.keep_loaded(&self.$stage);)*
                Ok(new)
            }

            /// Text for people, with the file's terms, in the order in which a frame passes the
            /// stages.
            pub fn text(&self) -> String {
                if self.is_none() {
                    return "no impairments".to_owned();
                }
                let is_scheduled = self.transmission.scheduler.is_some();
                let mut parts = [$((<$kind>::ORDER, self.$stage.text(is_scheduled)),)*];
                parts.sort_by_key(|(order, _)| *order);
                let parts: Vec<_> = parts.into_iter().filter_map(|(_, text)| text).collect();
                parts.join(", ")
            }

            /// Whether frames pass without impairment.
            pub fn is_none(&self) -> bool {
                true $(&& self.$stage.is_none())*
            }

            /// Whether any decision about a frame is random.
            pub fn is_random(&self) -> bool {
                false $(|| self.$stage.is_random())*
            }

            /// Whether decisions depend on the flow's earlier frames.
            pub(crate) fn has_state(&self) -> bool {
                false $(|| self.$stage.has_state())*
            }

            /// The value of a key that can be ramped and rounded; `None` for other keys, and
            /// for an unlimited rate.
            pub fn quantity(&mut self, key: &str) -> Option<Quantity<'_>> {
                $(if let Some(quantity) = self.$stage.quantity(key) {
                    return Some(quantity);
                })*
                None
            }

            /// Minimum delay of any frame.
            pub(crate) fn least_delay(&self) -> Span {
                let may_undelay = false $(|| self.$stage.may_undelay())*;
                if may_undelay { Span::ZERO } else { Span::ZERO $(+ self.$stage.least_delay())* }
            }

            /// Long-term share of frames lost.
            pub fn mean_loss(&self) -> f64 {
                // One loss alone stays as configured: 1 - (1 - x) would round it.
                let passes = |lost: f64, share: f64| match (lost, share) {
                    (0.0, share) => share,
                    (lost, 0.0) => lost,
                    (lost, share) => 1.0 - (1.0 - lost) * (1.0 - share),
                };
                [$(self.$stage.mean_loss(),)*].into_iter().fold(0.0, passes)
            }

            /// The decision about the duplicate of frame `index`, independent of the original.
            pub(crate) fn decide_copy(&self, draw: Draw, index: u64) -> Decision {
                let mut decision = Decision::default();
                $(self.$stage.decide_copy(draw, index, &mut decision);)*
                decision
            }
        }
    };
}

stages! {
    /// Time from the end of serialisation to delivery, and its variation.
    delay: Delay,
    /// Loss of frames at random.
    loss: Loss,
    /// Frames with one flipped bit.
    corrupt: Corrupt,
    /// Frames that are duplicated.
    duplicate: Duplicate,
    /// Frames that overtake others.
    reorder: Reorder,
    /// When frames leave: at a rate, by a recorded trace, or by a network's grants.
    transmission: Transmission,
    /// The queue in front of it.
    queue: QueueSpec,
    /// Slots in which collected frames leave together.
    slot: Slotting,
    /// Changes of the path at fixed times.
    handover: Handovers,
    /// Times without any forwarding.
    outage: Outages,
    /// The longest packet that passes.
    path_mtu: PathMtu,
}

impl Impairment {
    /// Data rate; `None` without a rate, or if a trace or grants schedule the link.
    pub fn rate(&self) -> Option<Rate> {
        self.transmission.rate()
    }

    /// A change of keys in words, such as `loss 5 %, rate reset`, without the models that it replaces.
    pub fn change_text(change: &Keys) -> String {
        let (none, given): (Vec<_>, Vec<_>) =
            change.0.iter().partition(|(_, value)| value.is_null());
        let values = given.iter().map(|(key, value)| match value.as_str() {
            Some(text) => format!("{key} {text}"),
            None => format!("{key} {value}"),
        });
        let values: Vec<_> = values.collect();
        let given = given.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let replaced = Self::replaced(&Keys(given));
        let resets = none.into_iter().filter(|(key, _)| !replaced.contains(&&***key));
        values
            .into_iter()
            .chain(resets.map(|(key, _)| format!("{key} reset")))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Long-term mean delay in ns: includes reordering and the mean of the variation. It is
    /// higher than this if the variation is truncated at a delay of 0.
    pub fn mean_delay_ns(&self) -> f64 {
        (1.0 - self.reorder.mean_share()) * self.delay.mean_ns()
    }
}

impl Serialize for Impairment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.keys().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Impairment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(&Keys::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ratio;

    #[test]
    fn keys_are_written_as_they_are_read() {
        let all = serde_json::json!({
            "delay": "30 ms", "jitter": "45 ms", "clip": true, "correlation": "25 %",
            "distribution": "pareto", "keep_order": true, "loss": "3 %",
            "loss_correlation": "25 %", "loss_unit": "train", "corrupt": "1 %",
            "corrupt_correlation": "2 %", "duplicate": "1 %", "duplicate_correlation": "2 %",
            "reorder": "5 %", "reorder_correlation": "50 %", "gap": 5, "rate": "1 Mbit/s",
            "burst": "1600 B", "overhead": "-14 B", "cell": {"size": "48 B", "overhead": "5 B"},
            "queue": "9 kB", "codel": {"target": "5 ms", "interval": "100 ms"},
            "slot": {"min": "1 ms", "max": "2 ms", "packets": 5, "bytes": "1500 B"},
            "handover": {"every": "15 s", "spread": "30 ms", "pause": "0.1 s"},
            "outage": [{"at": "1 s", "lasts": "1 s"}], "path_mtu": "600 B"
        });
        let expected: Keys = serde_json::from_value(all.clone()).unwrap();
        let written = Impairment::read(&expected).unwrap().keys();
        assert_eq!(Impairment::read(&written), Impairment::read(&expected));
        let missing = expected.0.keys().find(|key| !written.has(key));
        assert_eq!(missing, None);
        assert_eq!(Impairment::default().keys(), Keys::default());
    }

    #[test]
    fn a_change_resets_keys_without_a_value_but_not_replaced_models() {
        let change = keys(serde_json::json!({"rate": null, "loss": null, "delay": "1 ms",
            "gilbert_elliott": {"p": "1 %"}}));
        assert_eq!(
            Impairment::change_text(&change),
            r#"delay 1 ms, gilbert_elliott {"p":"1 %"}, rate reset"#
        );
        let change = keys(serde_json::json!({"loss": null}));
        assert_eq!(Impairment::change_text(&change), "loss reset");
    }

    #[test]
    fn what_is_no_key_or_no_value_is_refused() {
        let read = |value| Impairment::read(&serde_json::from_value(value).unwrap()).unwrap_err();
        assert!(read(serde_json::json!({"los": "5 %"})).contains("los"));
        assert!(read(serde_json::json!({"loss": "5 ms"})).contains("share"));
        assert!(read(serde_json::json!({"red": {"min": "5 kB"}})).contains("`max`"));
    }

    fn keys(value: serde_json::Value) -> Keys {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_change_touches_its_keys_alone() {
        let config = || Impairment {
            delay: "30 ms".parse::<Span>().unwrap().into(),
            loss: "10 %".parse::<Ratio>().unwrap().into(),
            transmission: Rate::from_bit_s(1_000_000).unwrap().into(),
            ..Impairment::default()
        };
        let changes = serde_json::json!({"loss": "50 %", "rate": null, "queue": "9 kB"});
        let new = config().with(&keys(changes));
        let want = Impairment {
            loss: "50 %".parse::<Ratio>().unwrap().into(),
            transmission: Transmission::default(),
            queue: crate::Limit::Bytes("9 kB".parse().unwrap()).into(),
            ..config()
        };
        assert_eq!(new, Ok(want));
    }
}

#[cfg(test)]
mod decision_tests;
