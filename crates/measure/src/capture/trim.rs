//! Cuts a capture whose last block is not complete.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

/// Bytes of a block's type and length (pcapng, section 3.1), and of a section header up to its
/// byte-order magic.
const HEAD: usize = 8;
/// The byte-order magic (section 4.1).
const MAGIC: u32 = 0x1a2b_3c4d;

/// The type of a block with a frame (section 4.3).
const FRAME: u32 = 6;

/// Removes an incomplete last block, so that every reader accepts the file. Returns the number of
/// frames that the file has.
///
/// # Errors
/// When it cannot be read or cut.
pub(super) fn trim(path: &Path) -> io::Result<u64> {
    let file = File::options().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let mut reader = BufReader::new(&file);
    let mut start = [0; HEAD + 4];
    if length < start.len() as u64 {
        // Not even a section header: an empty file.
        return file.set_len(0).map(|()| 0);
    }
    reader.read_exact(&mut start)?;
    let is_little = start[HEAD..] == MAGIC.to_le_bytes();
    reader.rewind()?;
    let number = |bytes: [u8; 4]| match is_little {
        true => u32::from_le_bytes(bytes),
        false => u32::from_be_bytes(bytes),
    };
    let (mut end, mut frames) = (0_u64, 0);
    while end + HEAD as u64 <= length {
        let mut head = [0; HEAD];
        reader.read_exact(&mut head)?;
        let [a, b, c, d, size @ ..] = head;
        let (kind, size) = (number([a, b, c, d]), number(size));
        let next = end + u64::from(size);
        // A length below that of its head would never end the loop.
        if (size as usize) < HEAD || next > length {
            break;
        }
        reader.seek_relative(i64::from(size) - HEAD as i64)?;
        end = next;
        frames += u64::from(kind == FRAME);
    }
    file.set_len(end).map(|()| frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::DataLink;
    use pcap_file::pcapng::PcapNgWriter;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;

    #[test]
    fn a_capture_that_was_cut_anywhere_ends_with_a_whole_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.pcapng");
        let mut writer = PcapNgWriter::new(Vec::new()).unwrap();
        let link = InterfaceDescriptionBlock {
            linktype: DataLink::ETHERNET,
            snaplen: 0,
            options: Vec::new(),
        };
        let mut ends = vec![0, writer.get_ref().len()];
        writer.write_pcapng_block(link).unwrap();
        ends.push(writer.get_ref().len());
        for _ in 0..2 {
            let block = EnhancedPacketBlock {
                original_len: 61,
                data: vec![7; 61].into(),
                ..Default::default()
            };
            writer.write_pcapng_block(block).unwrap();
            ends.push(writer.get_ref().len());
        }
        let whole = writer.into_inner();
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let frames = trim(&path).unwrap();
            assert_eq!(frames, ends[3..].iter().filter(|end| **end <= length).count() as u64);
            let kept = path.metadata().unwrap().len() as usize;
            let expected = ends.iter().copied().filter(|end| *end <= length).max().unwrap();
            assert_eq!(kept, expected, "cut at {length}");
        }
    }
}
