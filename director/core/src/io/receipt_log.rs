//! What a member remembers of hubs' stored messages, as records of its log.

use super::record::take;
use crate::store::{HubReceipts, ReceiptChange, StoreId};
use std::collections::BTreeMap;

/// Kinds of records, after those of the member's own messages.
const HUB: u8 = 6;
const FORGOTTEN: u8 = 7;
const ARRIVED: u8 = 8;
const TAKEN: u8 = 9;

/// What the log has.
#[derive(Debug, Default)]
pub(super) struct Receipts(BTreeMap<StoreId, HubReceipts>);

/// The bytes of a change.
pub(super) fn record(change: &ReceiptChange) -> Vec<u8> {
    match change {
        ReceiptChange::Hub(store, token) => [&[HUB][..], store, token].concat(),
        ReceiptChange::Forgotten(store) => [&[FORGOTTEN][..], store].concat(),
        ReceiptChange::Arrived(store, id, oldest) => {
            [&[ARRIVED][..], store, &id.to_be_bytes(), &oldest.to_be_bytes()].concat()
        }
        ReceiptChange::Taken(store, id, reply) => {
            [&[TAKEN][..], store, &id.to_be_bytes(), reply].concat()
        }
    }
}

impl Receipts {
    /// A record takes effect; one of another kind, or that is not valid, has none.
    pub fn replay(&mut self, record: &[u8]) {
        let _ = self.apply(record);
    }

    fn apply(&mut self, record: &[u8]) -> Option<()> {
        let (kind, mut rest) = record.split_first()?;
        if !(HUB..=TAKEN).contains(kind) {
            return None;
        }
        let store: StoreId = take(&mut rest)?;
        match *kind {
            HUB => {
                let token = take(&mut rest)?;
                self.0.insert(store, HubReceipts { store, token, ..HubReceipts::default() });
            }
            FORGOTTEN => drop(self.0.remove(&store)),
            kind => {
                let own = self.0.get_mut(&store)?;
                let id = u64::from_be_bytes(take(&mut rest)?);
                if kind == ARRIVED {
                    own.oldest = own.oldest.max(u64::from_be_bytes(take(&mut rest)?));
                    own.receipts = own.receipts.split_off(&own.oldest);
                    own.receipts.insert(id, None);
                } else if let Some(reply) = own.receipts.get_mut(&id) {
                    *reply = Some(rest.to_vec());
                }
            }
        }
        Some(())
    }

    /// All of it, for the member.
    pub fn all(&self) -> Vec<HubReceipts> {
        self.0.values().cloned().collect()
    }

    /// A part of the log is lost, and with it which messages this member has had: under other tokens, hubs send
    /// none of them again.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// The records that make it.
    pub fn records(&self) -> Vec<Vec<u8>> {
        let mut records = Vec::new();
        for own in self.0.values() {
            records.push(record(&ReceiptChange::Hub(own.store, own.token)));
            for (id, reply) in &own.receipts {
                records.push(record(&ReceiptChange::Arrived(own.store, *id, own.oldest)));
                let taken = |reply: &Vec<u8>| ReceiptChange::Taken(own.store, *id, reply.clone());
                records.extend(reply.iter().map(|reply| record(&taken(reply))));
            }
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_there_again_and_old_messages_are_not() {
        let (one, other) = ([1; 8], [2; 8]);
        let changes = [
            ReceiptChange::Hub(one, [7; 8]),
            ReceiptChange::Hub(other, [8; 8]),
            ReceiptChange::Arrived(one, 3, 1),
            ReceiptChange::Taken(one, 3, vec![0]),
            ReceiptChange::Arrived(one, 5, 4),
            ReceiptChange::Arrived(one, 6, 4),
            ReceiptChange::Taken(one, 6, vec![2, 9]),
            ReceiptChange::Forgotten(other),
        ];
        let mut receipts = Receipts::default();
        changes.iter().for_each(|change| receipts.replay(&record(change)));
        let kept = BTreeMap::from([(5, None), (6, Some(vec![2, 9]))]);
        let own = HubReceipts { store: one, token: [7; 8], oldest: 4, receipts: kept };
        assert_eq!(receipts.all(), std::slice::from_ref(&own));
        let mut again = Receipts::default();
        receipts.records().iter().for_each(|record| again.replay(record));
        assert_eq!(again.all(), [own]);
        // A record that is cut has no effect, and no panic.
        let long = record(&ReceiptChange::Arrived(one, 9, 9));
        (0..long.len()).for_each(|end| again.replay(&long[..end]));
        assert_eq!(again.all(), receipts.all());
    }
}
