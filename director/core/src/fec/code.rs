//! Erasure coding of a message with RaptorQ (RFC 6330): one source block, no sub-blocks. Any
//! symbols, about as many as the message has, restore it.

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use alloc::borrow::Cow;
use core::cell::OnceCell;
use raptorq::{
    EncodingPacket, ObjectTransmissionInformation, PayloadId, SourceBlockDecoder,
    SourceBlockEncoder,
};

/// Maximum message size in bytes: bounds a receiver's memory.
pub const LONGEST: usize = u16::MAX as usize;
/// Maximum number of source symbols, for the same reason.
const MAX_SYMBOLS: usize = 4_096;

/// Why a message cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The message is too long or has too many symbols.
    #[error(
        "it has {0} bytes, and {LONGEST} are the maximum, in {MAX_SYMBOLS} symbols of {1} bytes: send it in parts, or let the session use udp-arq too"
    )]
    Long(usize, usize),
    /// Frames cannot hold a symbol.
    #[error("frames of {0} bytes have no room for a symbol")]
    Small(usize),
}

/// End marker of a message in its last symbol; zeros follow (the padding of ISO/IEC 7816-4). So no
/// frame needs a field for the length.
const END: u8 = 0x80;

/// Number of symbols of `symbol` bytes for a message of `bytes` and its end marker; at least 1.
pub fn symbols(bytes: usize, symbol: usize) -> usize {
    (bytes + 1).div_ceil(symbol.max(1))
}

/// Symbol size for a message of `bytes`, at most `most`: as many symbols as with the largest
/// size, with little padding.
pub fn symbol_size(bytes: usize, most: usize) -> usize {
    (bytes + 1).div_ceil(symbols(bytes, most))
}

fn shape(symbols: usize, symbol: usize) -> Result<ObjectTransmissionInformation, Refused> {
    let bytes = symbols.saturating_mul(symbol);
    let long = Refused::Long(bytes, symbol);
    let size = u16::try_from(symbol).map_err(|_| long)?;
    if bytes == 0 || symbols > MAX_SYMBOLS || bytes - symbol > LONGEST {
        return Err(long);
    }
    // One source block, one sub-block, alignment 1 (Z, N and Al of RFC 6330, 3.3.3).
    Ok(ObjectTransmissionInformation::new(bytes as u64, size, 1, 1, 1))
}

/// Encodes a message as a stream of symbols.
#[derive(Debug, Clone)]
pub struct Encoder {
    source: Vec<u8>,
    symbol: usize,
    shape: ObjectTransmissionInformation,
    /// Made for the first repair symbol: most messages on a good network need none.
    repair: OnceCell<SourceBlockEncoder>,
}

impl Encoder {
    /// An encoder of `bytes` in symbols of `symbol` bytes.
    ///
    /// # Errors
    /// [`Refused`] if it is too long.
    pub fn new(bytes: Vec<u8>, symbol: usize) -> Result<Self, Refused> {
        let symbols = symbols(bytes.len(), symbol);
        if bytes.len() > LONGEST {
            return Err(Refused::Long(bytes.len(), symbol));
        }
        let shape = shape(symbols, symbol)?;
        let mut source = bytes;
        source.reserve_exact(symbols * symbol - source.len());
        source.push(END);
        source.resize(symbols * symbol, 0);
        Ok(Self { source, symbol, shape, repair: OnceCell::new() })
    }

    /// Bytes of the source symbols.
    pub fn bytes(&self) -> usize {
        self.source.len()
    }

    /// Number of source symbols.
    pub fn symbols(&self) -> usize {
        self.source.len() / self.symbol
    }

    /// Bytes of a symbol.
    pub fn symbol_size(&self) -> usize {
        self.symbol
    }

    /// The symbol with this number: a source symbol below [`symbols`](Self::symbols), a repair
    /// symbol from there on.
    pub fn symbol(&self, number: u16) -> Cow<'_, [u8]> {
        let begin = usize::from(number) * self.symbol;
        if let Some(own) = self.source.get(begin..begin + self.symbol) {
            return own.into();
        }
        let start = u32::from(number) - self.symbols() as u32;
        let new = || SourceBlockEncoder::new(0, &self.shape, &self.source);
        let packets = self.repair.get_or_init(new).repair_packets(start, 1);
        let symbol = packets.into_iter().next().map(|packet| packet.split().1);
        symbol.unwrap_or_default().into()
    }
}

/// Decodes a message from symbols.
#[derive(Debug)]
pub struct Decoder {
    symbols: usize,
    symbol: usize,
    /// In ascending order.
    received: Vec<u16>,
    shape: ObjectTransmissionInformation,
    /// A single source symbol needs none.
    block: Option<SourceBlockDecoder>,
}

impl Decoder {
    /// A decoder for a message with `symbols` source symbols of `symbol` bytes.
    ///
    /// # Errors
    /// [`Refused`] if it is too long.
    pub fn new(symbols: usize, symbol: usize) -> Result<Self, Refused> {
        let shape = shape(symbols, symbol)?;
        Ok(Self { symbols, symbol, received: Vec::new(), shape, block: None })
    }

    /// Whether a symbol has the shape of this message's symbols.
    pub fn fits(&self, symbols: usize, symbol: usize) -> bool {
        (self.symbols, self.symbol) == (symbols, symbol)
    }

    /// Number of missing symbols with ideal coding; 1 if that was not enough.
    pub fn missing(&self) -> usize {
        self.symbols.saturating_sub(self.received.len()).max(1)
    }

    /// Whether a symbol was received.
    pub fn has(&self, number: u16) -> bool {
        self.received.binary_search(&number).is_ok()
    }

    /// Number of received symbols.
    pub fn received(&self) -> usize {
        self.received.len()
    }

    /// Adds a symbol; returns the message if it is complete. Ignores duplicates and symbols of
    /// another size.
    pub fn add(&mut self, number: u16, data: Vec<u8>) -> Option<Vec<u8>> {
        // Symbols that never complete a message must not fill the memory.
        if data.len() != self.symbol || self.received.len() >= 2 * MAX_SYMBOLS {
            return None;
        }
        self.received.insert(self.received.binary_search(&number).err()?, number);
        let shape = self.shape;
        // A single source symbol is the message itself, and needs no decoder.
        let whole = if (self.symbols, number) == (1, 0) {
            data
        } else {
            let new = || SourceBlockDecoder::new(0, &shape, shape.transfer_length());
            let packet = EncodingPacket::new(PayloadId::new(0, number.into()), data);
            self.block.get_or_insert_with(new).decode([packet])?
        };
        without_end(whole)
    }
}

/// The message in source symbols; `None` without an end marker.
pub(super) fn without_end(mut whole: Vec<u8>) -> Option<Vec<u8>> {
    whole.truncate(whole.iter().rposition(|byte| *byte != 0).filter(|at| whole[*at] == END)?);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn any_symbols_give_the_message() {
        let message: Vec<u8> = (0..1_699_u32).map(|at| (at * 7) as u8).collect();
        let encoder = Encoder::new(message.clone(), 74).unwrap();
        assert_eq!(encoder.symbols(), 23);
        let mut decoder = Decoder::new(23, 74).unwrap();
        // Repair symbols only.
        let whole =
            (23..60).find_map(|number| decoder.add(number, encoder.symbol(number).into_owned()));
        assert_eq!(whole.as_deref(), Some(&message[..]));
        assert!(decoder.received() <= 25, "{}", decoder.received());
    }

    #[test]
    fn symbols_are_no_longer_than_they_must_be() {
        for (bytes, most, symbol) in [(717, 1_445, 718), (1_699, 72, 71), (0, 72, 1), (144, 72, 49)]
        {
            assert_eq!(symbol_size(bytes, most), symbol);
            assert_eq!(symbols(bytes, symbol), symbols(bytes, most));
        }
    }

    #[test]
    fn shapes_that_cannot_be_are_refused() {
        assert_eq!(Decoder::new(70, 1_000).unwrap_err(), Refused::Long(70_000, 1_000));
        assert_eq!(Encoder::new(vec![1; 5_000], 1).unwrap_err(), Refused::Long(5_001, 1));
        assert!(Encoder::new(vec![1; LONGEST], 1_000).is_ok());
        assert!(Encoder::new(vec![1; LONGEST + 1], 1_000).is_err());
        assert!(Decoder::new(10, 0).is_err() && Decoder::new(0, 10).is_err());
        let mut decoder = Decoder::new(1, 10).unwrap();
        assert_eq!(decoder.add(0, vec![1; 9]), None, "of another size");
        assert_eq!(decoder.add(0, vec![0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(Vec::new()));
        for endless in [vec![0; 10], vec![7; 10]] {
            assert_eq!(Decoder::new(1, 10).unwrap().add(0, endless), None);
        }
    }

    proptest! {
        #[test]
        fn what_comes_in_any_order_twice_or_not_at_all(
            bytes in 0_usize..3_000, symbol in 16_usize..200, seed in any::<u64>()
        ) {
            let message: Vec<u8> = (0..bytes).map(|at| (at as u64 ^ seed) as u8).collect();
            let encoder = Encoder::new(message.clone(), symbol).unwrap();
            let mut decoder = Decoder::new(encoder.symbols(), symbol).unwrap();
            let mut state = seed | 1;
            let mut whole = None;
            for _ in 0..20 * encoder.symbols() + 400 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let number = (state % 5_000) as u16;
                whole = decoder.add(number, encoder.symbol(number).into_owned());
                if whole.is_some() { break; }
            }
            prop_assert_eq!(whole, Some(message));
            prop_assert!(decoder.received() <= encoder.symbols() + 8);
        }
    }
}
