//! Datagrams of strangers.

use crate::bed::*;
use director::session::Security;
use director::{Conditions, Instant, Pattern};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Without keys all bytes are parsed; nothing panics, and no messages are invented.
    #[test]
    fn datagrams_do_no_harm(
        datagrams in prop::collection::vec(
            (any::<bool>(), 0_u8..80, prop::collection::vec(any::<u8>(), 0..100)), 1..60
        ),
        model in 0..director::carrier::available().len() + OUTSIDE.len(),
    ) {
        let models = director::carrier::available().into_iter().chain(OUTSIDE);
        let model = models.collect::<Vec<_>>()[model];
        let pattern = model.features().patterns[0];
        let mut config = config(pattern, Conditions::default(), &[model]);
        config.security = Security::InsecureOnPurpose;
        let mut hub = hub(&config, 3, 7);
        let mut member = member(&config, 7);
        // Some models cannot carry a message of this size.
        let _ = hub.send(&[5; 3_000], Instant::from_ns(0));
        hub.send(&[5; 1_000], Instant::from_ns(0)).unwrap();
        let mut now = 1;
        for (to_hub, kind, mut bytes) in datagrams {
            now += 1_000_000;
            bytes.insert(0, kind);
            if to_hub {
                hub.receive(&bytes, Some(u32::from(kind % 4)), Instant::from_ns(now));
            } else {
                member.receive(&bytes, Instant::from_ns(now));
            }
            if let (Some((_, output)), _) = hub.poll(Instant::from_ns(now)) {
                member.receive(&output, Instant::from_ns(now));
            }
            if let (Some(output), _) = member.poll(Instant::from_ns(now)) {
                hub.receive(&output, Some(0), Instant::from_ns(now));
            }
        }
        prop_assert!(hub.open_messages() <= 2);
    }

    /// With keys all datagrams of strangers are ignored.
    #[test]
    fn strangers_change_nothing(
        datagrams in prop::collection::vec((0_u8..48, prop::collection::vec(any::<u8>(), 0..100)), 1..40)
    ) {
        let config = config(Pattern::PublishCollect, Conditions::default(), &[]);
        let mut hub = hub(&config, 3, 7);
        let before = hub.explain();
        for (kind, mut bytes) in datagrams {
            bytes.insert(0, kind);
            hub.receive(&bytes, Some(0), Instant::from_ns(5));
        }
        prop_assert!(hub.take_events().is_empty());
        prop_assert_eq!(hub.explain(), before);
    }
}
