//! Counts of control messages between the hub and one start of a member: a repeated or late one
//! changes nothing.

use crate::keys::Root;

/// How far a count can be ahead of the last one without security: those of other starts of the
/// member begin elsewhere.
const SPAN: u32 = 1 << 20;

/// The counts of one end.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    secure: bool,
    sent: u32,
    received: u32,
}

/// What a count says of its control message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Age {
    /// It is newer than all before.
    New,
    /// It is repeated or late.
    Old,
    /// Without security: it is of another start of the member.
    Foreign,
}

impl Counts {
    /// Of the keys of a handshake.
    pub fn new(pair: &Root) -> Self {
        let first = pair.first_count();
        Self { secure: pair.seal_len() > 0, sent: first, received: first }
    }

    /// The count of the next control message to the other end.
    pub fn next(&mut self) -> u32 {
        self.sent = self.sent.wrapping_add(1);
        self.sent
    }

    /// The age of a control message with this count.
    pub fn age(&self, count: u32) -> Age {
        // Serial numbers (RFC 1982). With security, none is used twice, and others do not open.
        let ahead = count.wrapping_sub(self.received);
        match ahead {
            _ if self.secure && count > self.received => Age::New,
            _ if self.secure => Age::Old,
            0 => Age::Old,
            1..=SPAN => Age::New,
            _ if ahead.wrapping_neg() <= SPAN => Age::Old,
            _ => Age::Foreign,
        }
    }

    /// Handles a control message with this count; returns its age before that.
    pub fn receive(&mut self, count: u32) -> Age {
        let age = self.age(count);
        if age == Age::New {
            self.received = count;
        }
        age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_control_message_is_old_and_one_of_another_start_foreign() {
        let mut secure = Counts::new(&Root::new(b"a secret of a handshake", [1; 16]));
        assert_eq!([secure.next(), secure.next()], [1, 2]);
        let ages = [7, 7, 3, 8, u32::MAX].map(|count| secure.receive(count));
        assert_eq!(ages, [Age::New, Age::Old, Age::Old, Age::New, Age::New]);
        // Also where the count overflows.
        for nonce in [[0; 16], [0xff; 16], [7; 16]] {
            let mut plain = Counts::new(&Root::insecure_pair([1; 16], &nonce));
            let (first, second) = (plain.next(), plain.next());
            let ages = [second, second, first].map(|count| plain.receive(count));
            assert_eq!(ages, [Age::New, Age::Old, Age::Old], "{nonce:?}");
            let mut other = Counts::new(&Root::insecure_pair([1; 16], &[0x5c; 16]));
            assert_eq!(plain.receive(other.next()), Age::Foreign, "{nonce:?}");
        }
    }
}
