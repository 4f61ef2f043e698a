//! Leaving members: the rest of the group gets new keys.

use super::Hub;
use crate::Instant;
use crate::session::SessionError;
use crate::switch::{MemberId, Phase};

impl Hub {
    /// Revokes a member: its handshakes are refused, and from now on messages are sealed with keys
    /// that it does not get. Other members receive new messages as soon as they have the new keys.
    /// A member that shares its pre-shared key with others can still come back in their place.
    ///
    /// # Errors
    /// [`SessionError`] if there is no such member.
    pub fn revoke(&mut self, member: MemberId, now: Instant) -> Result<(), SessionError> {
        self.check_member(member)?;
        self.settled = None;
        self.psks.revoke(member);
        self.pairings.entry(member).or_default().revoke();
        self.close_uplink(member);
        self.strangers.forget(member);
        self.drop_member(member, now);
        // Nothing goes out until the others have new keys: the revoked member has those of all
        // epochs so far, also of one that others are changing to.
        self.switch.hold();
        self.rekey = true;
        self.change_keys(now);
        Ok(())
    }

    /// Accepts a revoked member again, with this key if each member has one. It gets no keys of
    /// earlier epochs. For a member that is not revoked, nothing happens.
    ///
    /// # Errors
    /// [`SessionError`] if the key is too short or another member's, there is no such member, or a member
    /// that is not revoked has another key.
    pub fn admit(
        &mut self,
        member: MemberId,
        key: &[u8],
        now: Instant,
    ) -> Result<(), SessionError> {
        self.check_member(member)?;
        if self.psks.of(member).is_none() {
            self.settled = None;
            self.psks.admit(member, key)?;
            if self.strangers.includes(member) {
                // Its address is not known.
                self.uplinks.left.insert(member);
                return Ok(());
            }
            self.switch.join(member);
            self.absent.insert(member);
            // At once, without the pauses after rounds that have failed.
            (self.invited, self.failed_rounds) = (None, 0);
            self.rekey = true;
            self.change_keys(now);
        } else if !self.psks.is_key(member, key)? {
            return Err(SessionError::NotRevoked(member));
        }
        Ok(())
    }

    /// Begins an epoch with a new secret, if one is due and no other change is in progress.
    pub(super) fn change_keys(&mut self, now: Instant) {
        if self.rekey && self.switch.phase() == Phase::Stable {
            self.rekey = false;
            let actions = self.switch.renew(now);
            let _ = self.perform(actions, now);
        }
    }
}
