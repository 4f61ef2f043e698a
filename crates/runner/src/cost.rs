//! Cost per message.

use crate::results::Results;
use std::collections::HashSet;
use std::io;

/// Number of messages that a group handled: those that its nodes sent or received. A group that
/// does neither, such as a broker's, handled all delivered messages.
///
/// # Errors
/// When rows cannot be read.
pub(crate) fn handled(results: &Results<'_>, group: &str) -> io::Result<u64> {
    let nodes = results.plan.nodes.iter().filter(|node| node.group == group);
    let nodes: HashSet<&str> = nodes.map(|node| node.name.as_str()).collect();
    let (mut messages, mut delivered, mut takes_part) = (0, 0, false);
    for row in results.messages.iter() {
        let row = row?;
        let (sends, receives) = (nodes.contains(&*row.sender), nodes.contains(&*row.peer));
        takes_part |= sends || receives;
        messages += u64::from(sends && row.sent_ns.is_some());
        messages += u64::from(receives && row.received_ns.is_some());
        delivered += u64::from(row.received_ns.is_some());
    }
    Ok(if takes_part { messages } else { delivered })
}

/// `amount` per message; `None` without messages.
pub(crate) fn each(amount: f64, messages: u64) -> Option<f64> {
    (messages > 0).then(|| amount / messages as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_no_figure() {
        assert_eq!(each(5.0, 0), None);
        assert_eq!(each(5.0, 2), Some(2.5));
    }
}
