//! Messages of a hub whose senders wait for the responses.

use super::command::{Collected, Reply};
use crate::switch::{MemberId, MessageId};
use std::collections::HashMap;

/// A message with a waiting sender.
struct Sent {
    collected: Collected,
    /// Its receivers, if they were named.
    to: Vec<MemberId>,
    reply: Reply,
}

/// All of them.
#[derive(Default)]
pub(super) struct Waiting(HashMap<MessageId, Sent>);

impl Waiting {
    pub fn add(&mut self, number: MessageId, to: Vec<MemberId>, reply: Reply) {
        self.0.insert(number, Sent { collected: Collected::default(), to, reply });
    }

    /// A member has answered, or acknowledged without an answer.
    pub fn answer(&mut self, number: MessageId, member: MemberId, bytes: Vec<u8>) {
        if let Some(sent) = self.0.get_mut(&number) {
            sent.collected.answers.insert(member, bytes);
        }
    }

    /// A message is over; these members have not answered.
    pub fn finish(&mut self, number: MessageId, lacking: Vec<MemberId>) {
        let Some(mut sent) = self.0.remove(&number) else { return };
        let Collected { answers, lacking: late } = &mut sent.collected;
        *late = lacking;
        // Members that do not exist, or have left, lack it too.
        let gone = sent.to.iter().filter(|member| !answers.contains_key(member));
        let gone: Vec<MemberId> = gone.filter(|member| !late.contains(member)).copied().collect();
        late.extend(gone);
        let _ = sent.reply.send(Ok(sent.collected));
    }
}
