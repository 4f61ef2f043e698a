//! The Internet checksum (RFC 1071), for frames whose checksum the kernel left incomplete.

use super::VnetHeader;

/// Adds the 16-bit words of `bytes` to `start`, without folding.
pub(super) fn sum(start: u64, bytes: &[u8]) -> u64 {
    // Four bytes at a time give the same sum after folding; 64 bits have room for the
    // carries.
    let mut total = start;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        total += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let rest = words.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_be_bytes(last))
}

/// Folds the sum to 16 bits.
pub(super) fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Completes the checksum that `header` marks as missing; the field holds the
/// pseudo-header's sum. Returns `false` if the header does not fit the frame.
pub fn finish_checksum(header: &VnetHeader, frame: &mut [u8]) -> bool {
    let Some((start, offset)) = header.missing_checksum() else { return true };
    let Some(covered) = frame.get_mut(start..) else { return false };
    let checksum = !fold(sum(0, covered));
    let Some(place) = covered.get_mut(offset..offset + 2) else { return false };
    // In UDP, 0 means "no checksum", and 0xffff stands in for a sum of 0 (RFC 768).
    let checksum = if checksum == 0 && offset == 6 { 0xffff } else { checksum };
    place.copy_from_slice(&checksum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        // Example of RFC 1071, section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(0, &bytes)), 0xddf2);
        for len in 0..bytes.len() {
            let slow: u64 = bytes[..len]
                .chunks(2)
                .map(|w| u64::from(w[0]) << 8 | u64::from(w.get(1).copied().unwrap_or(0)))
                .sum();
            assert_eq!(fold(sum(0, &bytes[..len])), fold(slow));
        }
    }

    #[test]
    fn a_header_that_does_not_fit_is_refused() {
        let header = VnetHeader {
            flags: 1,
            checksum_start: 34,
            checksum_offset: 16,
            ..VnetHeader::default()
        };
        assert!(!finish_checksum(&header, &mut [0; 20]));
        assert!(!finish_checksum(&header, &mut [0; 50]));
        assert!(finish_checksum(&header, &mut [0; 54]));
        assert!(finish_checksum(&VnetHeader::default(), &mut []));
    }
}
