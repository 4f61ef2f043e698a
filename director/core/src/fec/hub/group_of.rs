//! A hub and its members, for tests.

use crate::fec::{FecHub, FecMember, FecSettings};
use crate::keys::{Party, Root, Scope, Use};
use crate::rng::Seed;

/// A hub with as many members as the settings have, which share keys.
pub(super) fn group(settings: FecSettings) -> (FecHub, Vec<FecMember>) {
    let root = Root::new(b"a key that both ends have", [1; 16]);
    let keys = |party| root.keys(Scope::new(Use::Frame, 0, party));
    let count = settings.members;
    let of_members = (0..count).map(|number| keys(Party::Member(number)));
    let hub = FecHub::new(settings, keys(Party::Hub), of_members.collect());
    let member = |number| {
        let own = (keys(Party::Member(number)), keys(Party::Hub));
        FecMember::new(settings, (number, count), own, &Seed::reproducible(1))
    };
    (hub, (0..count).map(member).collect())
}
