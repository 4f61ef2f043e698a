//! The common part of all stream parsers. It collects headers and skips bodies, so that a
//! stream of any length takes a few bytes of memory and a gap in a body does no harm.

use crate::messages::Messages;
use crate::stream::Piece;

/// The bytes of a piece by layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Overhead of the messaging protocol.
    pub messaging: u64,
    /// Application payload.
    pub payload: u64,
}

/// What a parser needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A header of this many bytes.
    Header(usize),
    /// One more byte of the same header.
    More,
    /// Skip this many bytes of protocol overhead.
    Pass(u64),
    /// Skip this many bytes of application payload.
    Payload(u64),
    /// The bytes are invalid: search for the start of a message.
    Invalid,
}

/// A protocol's grammar.
pub(crate) trait Grammar {
    /// The maximum header length, in bytes.
    const LONGEST: usize;
    /// Takes a header, or the end of skipped bytes (with an empty `header`). Counts
    /// complete messages. Returns what it needs next.
    fn next(&mut self, header: &[u8], messages: &mut Messages) -> Need;
    /// Restarts at the beginning of a message.
    fn restart(&mut self) -> Need;
    /// Whether these bytes, the first of a segment, may begin a message.
    fn plausible(&self, bytes: &[u8]) -> bool;
}

/// A parser of one direction of a stream.
#[derive(Debug)]
pub(crate) struct Parser<G> {
    pub grammar: G,
    need: Need,
    /// The part of a header received so far.
    header: Vec<u8>,
}

impl<G: Grammar> Parser<G> {
    pub(crate) fn new(grammar: G, first: Need) -> Self {
        Self { grammar, need: first, header: Vec::new() }
    }

    /// Parses the next piece of the stream.
    pub(crate) fn take(&mut self, piece: Piece<'_>, messages: &mut Messages) -> Shares {
        let mut shares = Shares::default();
        match piece {
            Piece::Bytes(bytes) => self.bytes(bytes, messages, &mut shares),
            Piece::Missing(count) => self.missing(count, messages, &mut shares),
        }
        shares
    }

    fn bytes(&mut self, mut bytes: &[u8], messages: &mut Messages, shares: &mut Shares) {
        // Only the start of a piece is tried, where senders often begin a message; within data,
        // bytes look like headers by chance.
        if self.need == Need::Invalid {
            if !self.grammar.plausible(bytes) {
                messages.skipped += bytes.len() as u64;
                shares.payload += bytes.len() as u64;
                return;
            }
            messages.resyncs += 1;
            self.need = self.grammar.restart();
        }
        while !bytes.is_empty() {
            let taken = match self.need {
                Need::Header(length) => {
                    let taken = length.saturating_sub(self.header.len()).min(bytes.len());
                    self.header.extend_from_slice(&bytes[..taken]);
                    shares.messaging += taken as u64;
                    taken
                }
                Need::Pass(left) | Need::Payload(left) => {
                    self.pass(left, bytes.len() as u64, shares) as usize
                }
                Need::More | Need::Invalid => {
                    messages.skipped += bytes.len() as u64;
                    shares.payload += bytes.len() as u64;
                    return;
                }
            };
            bytes = &bytes[taken..];
            self.go_on(messages);
        }
    }

    fn missing(&mut self, mut count: u64, messages: &mut Messages, shares: &mut Shares) {
        while count > 0 {
            match self.need {
                // A gap in a body is harmless: its length is known.
                Need::Pass(left) | Need::Payload(left) => {
                    count -= self.pass(left, count, shares);
                    self.go_on(messages);
                }
                // A gap in a header: the length of the message is unknown.
                Need::Header(_) | Need::More | Need::Invalid => {
                    self.need = Need::Invalid;
                    self.header.clear();
                    messages.skipped += count;
                    shares.payload += count;
                    return;
                }
            }
        }
    }

    fn pass(&mut self, left: u64, there: u64, shares: &mut Shares) -> u64 {
        let taken = left.min(there);
        if matches!(self.need, Need::Payload(_)) {
            shares.payload += taken;
            self.need = Need::Payload(left - taken);
        } else {
            shares.messaging += taken;
            self.need = Need::Pass(left - taken);
        }
        taken
    }

    /// Runs the grammar while its needs are met.
    fn go_on(&mut self, messages: &mut Messages) {
        loop {
            self.need = match self.need {
                Need::Header(length) if self.header.len() >= length => {
                    match self.grammar.next(&self.header, messages) {
                        Need::More => Need::Header(self.header.len() + 1),
                        need => {
                            self.header.clear();
                            need
                        }
                    }
                }
                Need::Pass(0) | Need::Payload(0) => self.grammar.next(&[], messages),
                _ => return,
            };
            // An empty header would make this loop endless, and one that is longer than any of the
            // protocol is a sign of invalid bytes.
            if let Need::Header(length) = self.need
                && (length == 0 || length > G::LONGEST)
            {
                self.need = Need::Invalid;
            }
        }
    }
}

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
