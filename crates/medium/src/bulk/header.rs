//! The virtio-net header that a TAP puts before each frame (`struct virtio_net_hdr`; VIRTIO
//! 1.2, section 5.1.6).

/// Length in bytes.
pub const VNET_HEADER: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const ECN: u8 = 0x80;

/// Offload type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// An ordinary frame, as on the wire.
    None,
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// A type that Thingbed does not enable.
    Unknown,
}

/// The virtio-net header, in host byte order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// Flags; bit 0: the checksum is missing.
    pub flags: u8,
    /// Offload type (`gso_type`).
    pub kind: u8,
    /// Length of the frame's headers in bytes, as a hint.
    pub headers: u16,
    /// Payload bytes per segment.
    pub segment: u16,
    /// Offset of the first byte that the missing checksum covers.
    pub checksum_start: u16,
    /// Offset of the checksum field from `checksum_start`.
    pub checksum_offset: u16,
}

impl VnetHeader {
    /// Splits the data from a TAP into header and frame.
    pub fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, frame) = bytes.split_first_chunk::<VNET_HEADER>()?;
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let header = Self {
            flags: header[0],
            kind: header[1],
            headers: word(2),
            segment: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        };
        Some((header, frame))
    }

    /// The header as bytes for a TAP.
    pub fn bytes(&self) -> [u8; VNET_HEADER] {
        let mut bytes = [0; VNET_HEADER];
        (bytes[0], bytes[1]) = (self.flags, self.kind);
        let words = [self.headers, self.segment, self.checksum_start, self.checksum_offset];
        for (place, word) in bytes[2..].chunks_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// Offload type of the frame.
    pub fn offload(&self) -> Offload {
        match self.kind & !ECN {
            0 => Offload::None,
            1 => Offload::TcpV4,
            4 => Offload::TcpV6,
            _ => Offload::Unknown,
        }
    }

    /// Offset of the first byte that the missing checksum covers, and offset of the
    /// checksum field from there; `None` if the checksum is complete.
    pub fn missing_checksum(&self) -> Option<(usize, usize)> {
        (self.flags & NEEDS_CHECKSUM != 0)
            .then(|| (usize::from(self.checksum_start), usize::from(self.checksum_offset)))
    }

    /// The header for a single segment.
    pub(super) fn of_one(&self) -> Self {
        Self { kind: 0, segment: 0, headers: 0, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        let header = VnetHeader {
            flags: 1,
            kind: 0x81,
            headers: 66,
            segment: 1448,
            checksum_start: 34,
            checksum_offset: 16,
        };
        let bytes = [&header.bytes()[..], b"frame"].concat();
        assert_eq!(VnetHeader::split(&bytes), Some((header, &b"frame"[..])));
        assert_eq!(header.offload(), Offload::TcpV4);
        assert_eq!(header.missing_checksum(), Some((34, 16)));
        assert_eq!(VnetHeader::split(&bytes[..9]), None);
    }
}
