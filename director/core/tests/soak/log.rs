//! What the applications have sent and received, and whether it agrees.

use director::Outcome;
use director::session::SessionError;
use std::collections::HashMap;

/// Bytes of a message before its filling: its number, and its length.
pub const HEAD: usize = 12;

/// A message of at least `HEAD` bytes whose content its number determines.
pub fn message(number: u64, length: usize) -> Vec<u8> {
    let length = length.max(HEAD);
    let mut bytes = [&number.to_be_bytes()[..], &(length as u32).to_be_bytes()].concat();
    let filling = (HEAD..length).map(|place| (number.wrapping_mul(31) + place as u64 * 7) as u8);
    bytes.extend(filling);
    bytes
}

/// The number of a message; `None` if it has other content than it was sent with.
pub fn number_of(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(*bytes.first_chunk()?);
    (message(number, bytes.len()) == bytes).then_some(number)
}

/// The answer of an end to a message: `who` is 0 for the hub, and a member's number plus 1.
pub fn answer_to(number: u64, who: u32) -> Vec<u8> {
    message(number ^ (u64::from(who) + 1) << 48, HEAD + (number % 900) as usize)
}

/// How a message has ended for its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Acknowledged,
    Failed,
    Unknown,
}

/// An application that receives: the hub's, or that of a start of a member.
pub type Receiver = Option<(u32, u32)>;

/// Counts of messages by their ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    pub acknowledged: u64,
    pub failed: u64,
    pub unknown: u64,
}

impl Ends {
    /// Adds those of another session.
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.unknown += other.unknown;
    }
}

/// The log of all applications of a session.
#[derive(Default)]
pub struct Log {
    next: u64,
    /// Ends of messages, by receiver without its start.
    ends: HashMap<(u64, Option<u32>), End>,
    /// How often a message was received.
    received: HashMap<(u64, Receiver), u32>,
    violations: Vec<String>,
}

impl Log {
    /// The number of another message.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Something is wrong.
    pub fn violation(&mut self, what: String) {
        self.violations.push(what);
    }

    /// An application has received a message; returns its number.
    pub fn receive(&mut self, bytes: &[u8], by: Receiver) -> Option<u64> {
        let number = number_of(bytes);
        match number {
            Some(number) => *self.received.entry((number, by)).or_default() += 1,
            None => self.violation(format!("{by:?} has received bytes that were not sent so")),
        }
        number
    }

    /// A message to `receiver` (the hub is `None`) has ended.
    pub fn end(&mut self, number: u64, receiver: Option<u32>, how: End) {
        if let Some(before) = self.ends.insert((number, receiver), how) {
            self.violation(format!("{number} has ended twice: {before:?}, {how:?}"));
        }
    }

    /// The outcome of a member's message.
    pub fn outcome(&mut self, number: u64, request: bool, how: Result<Outcome, SessionError>) {
        let how = match how {
            Ok(Outcome::Acknowledged(answer)) => {
                if let Some(answer) = answer
                    && (!request || answer != answer_to(number, 0))
                {
                    self.violation(format!("{number} has another answer than the hub gave"));
                }
                End::Acknowledged
            }
            Ok(Outcome::Failed(_)) | Err(SessionError::Full(_)) => End::Failed,
            Ok(Outcome::Unknown) => End::Unknown,
            // Its member has stopped while the message was open.
            Err(_) => End::Unknown,
        };
        self.end(number, None, how);
    }

    /// Compares what senders know with what receivers have; returns the counts of ends.
    pub fn check(&mut self) -> (Ends, Vec<String>) {
        let mut ends = Ends::default();
        let mut totals: HashMap<(u64, Option<u32>), u32> = HashMap::new();
        let mut receivers: HashMap<u64, u32> = HashMap::new();
        for (number, _) in self.ends.keys() {
            *receivers.entry(*number).or_default() += 1;
        }
        for ((number, by), times) in &self.received {
            if *times > 1 {
                self.violations.push(format!("{number} was received {times} times by {by:?}"));
            }
            *totals.entry((*number, by.map(|(member, _)| member))).or_default() += times;
            // A message to several members may reach others too, if it goes by multicast.
            let who = by.map(|(member, _)| member);
            let is_to = self.ends.contains_key(&(*number, who));
            if !is_to && (who.is_none() || receivers.get(number).is_none_or(|count| *count < 2)) {
                self.violations.push(format!("{number} is not for {by:?}, which has received it"));
            }
        }
        for (which, how) in &self.ends {
            let received = totals.get(which).copied().unwrap_or(0);
            match how {
                End::Acknowledged => ends.acknowledged += 1,
                End::Failed => ends.failed += 1,
                End::Unknown => ends.unknown += 1,
            }
            let wrong = match how {
                End::Acknowledged => received == 0,
                End::Failed => received > 0,
                End::Unknown => false,
            };
            if wrong {
                self.violations
                    .push(format!("{which:?} is {how:?} and was received {received} times"));
            }
        }
        (ends, std::mem::take(&mut self.violations))
    }
}
