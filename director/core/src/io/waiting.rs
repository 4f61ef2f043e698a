//! Messages of a hub whose senders wait for the responses.

use super::command::{Collected, Reply};
use crate::switch::{MemberId, MessageId};
use std::collections::HashMap;
use tokio::sync::oneshot;

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

/// Applications that wait until all members have joined.
#[derive(Default)]
pub(super) struct Gathering(Vec<oneshot::Sender<()>>);

impl Gathering {
    /// One waits, too; others may have given up.
    pub fn add(&mut self, reply: oneshot::Sender<()>) {
        self.0.retain(|known| !known.is_closed());
        self.0.push(reply);
    }

    /// All members have joined.
    pub fn finish(&mut self) {
        for reply in self.0.drain(..) {
            let _ = reply.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed before: each wait with a timeout took memory until all members had joined.
    #[test]
    fn applications_that_have_given_up_take_no_memory() {
        let mut waiting = Gathering::default();
        (0..1_000).for_each(|_| waiting.add(oneshot::channel().0));
        let (reply, mut receiver) = oneshot::channel();
        waiting.add(reply);
        assert_eq!(waiting.0.len(), 1);
        waiting.finish();
        assert_eq!(receiver.try_recv(), Ok(()));
    }
}
