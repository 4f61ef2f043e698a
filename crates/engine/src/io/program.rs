//! The BPF program that the kernel runs for each frame of a node: it copies the frame into
//! the ring and consumes it.
//!
//! It runs at the ingress of the medium's end of a veth pair (clsact, direct action). By
//! then the kernel has segmented the frame, completed its checksums and counted it as sent
//! by the node's interface. A TAP filter (TUNSETFILTEREBPF) is a little faster, but the
//! interface counts consumed frames as dropped. A program at the node's egress sees TCP
//! before segmentation.

use super::assembler::{
    Assembler, Instruction, Label, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10, Size, When,
};
use super::bpf;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes before the frame in a record: port, length, arrival time.
pub(super) const HEADER: usize = 16;
/// Size of the kernel's header before each record, and alignment of records.
pub(super) const KERNEL_HEADER: usize = 8;

/// Sizes of records: the kernel accepts constants only. Small ones fill a power of two with
/// both headers; one is for an MTU of 1500, one for jumbo frames, the last for the largest
/// possible frame.
const CLASSES: [usize; 12] =
    [104, 168, 232, 488, 1000, 1520, 2024, 4072, 9040, 16_360, 32_744, 65_560];

/// State shared by the program and its reader for each port, one cache line per writer.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(super) struct PortState {
    /// Written to the ring so far: frames times [`FRAME`] plus bytes. One counter, so that
    /// both change atomically.
    pub put: std::sync::atomic::AtomicU64,
    /// Frames dropped because the ring was full or the port had used up its share.
    pub refused: std::sync::atomic::AtomicU64,
    _line: [u64; 6],
    /// Read from the ring so far, in the same format; written by the reader.
    pub taken: std::sync::atomic::AtomicU64,
    _other_line: [u64; 7],
}

// Two cache lines: the program writes one and the reader the other, so that neither takes the line of
// the other at each frame. The offsets below are of fields in them.
const _: () = assert!(size_of::<PortState>() == 128);
const REFUSED: i16 = 8;
const TAKEN: i16 = 64;

/// One frame in [`PortState::put`]. Differences stay correct if the lower part overflows
/// into the upper, since that happens in both counters.
pub(super) const FRAME: u64 = 1 << 40;
/// Maximum frames of one port in the ring: the queue length of a node's interface, which it
/// replaces.
pub(super) const LARGEST_SHARE: i32 = 10_000;

/// Flags of a submission (BPF_RB_NO_WAKEUP, BPF_RB_FORCE_WAKEUP) and of a query (BPF_RB_AVAIL_DATA).
const NO_WAKE_UP: i32 = 1;
const WAKE_UP: i32 = 2;
const AVAILABLE_DATA: i32 = 0;

/// Kernel helpers, by number.
mod helper {
    pub const MAP_LOOKUP: i32 = 1;
    pub const KTIME: i32 = 5;
    pub const VLAN_PUSH: i32 = 18;
    pub const LOAD_BYTES: i32 = 26;
    pub const RING_RESERVE: i32 = 131;
    pub const RING_SUBMIT: i32 = 132;
    pub const RING_DISCARD: i32 = 133;
    pub const RING_QUERY: i32 = 134;
}

/// Fields of `struct __sk_buff`.
mod frame {
    pub const LEN: i16 = 0;
    pub const VLAN_PRESENT: i16 = 20;
    pub const IFINDEX: i16 = 40;
}

/// Return values for a frame (linux/pkt_cls.h).
mod verdict {
    pub const DROPPED: i32 = 2;
    pub const TAKEN: i32 = 4;
}

/// Stack slots.
const KEY: i16 = -4;
const TIME: i16 = -16;
const RECORD: i16 = -24;

/// Maps of the program.
#[derive(Debug)]
pub(super) struct Maps {
    /// The ring buffer.
    pub ring: OwnedFd,
    /// Size of the ring in bytes.
    pub size: u32,
    /// One [`PortState`] per port.
    pub ports: OwnedFd,
    /// Whether the reader sleeps and needs a wake-up.
    pub sleeping: OwnedFd,
}

/// Loads the program. The interface of port 0 has the index `first`; the others follow in
/// order.
pub(super) fn load(maps: &Maps, first: u32) -> io::Result<OwnedFd> {
    bpf::load(&assemble(maps, first))
}

fn assemble(maps: &Maps, first: u32) -> Vec<Instruction> {
    let mut code = Assembler::default();
    let [untagged, drop, refuse, out] = [(); 4].map(|()| code.label());
    code.copy(R6, R1);
    code.load(Size::Word, R0, R6, frame::VLAN_PRESENT);
    code.jump_if(When::Equal, R0, 0, untagged);
    // The kernel has moved the VLAN tag out of the frame's bytes. A further tag, which is
    // also kept outside the bytes, makes the kernel put the first back.
    code.set(R2, 0);
    code.set(R3, 0);
    code.call(helper::VLAN_PUSH);
    code.place(untagged);
    code.load(Size::Word, R7, R6, frame::LEN);
    code.load(Size::Word, R8, R6, frame::IFINDEX);
    code.add(R8, -(first as i32));
    code.store(Size::Word, R10, KEY, R8);
    code.map(R1, maps.ports.as_raw_fd());
    code.copy(R2, R10);
    code.add(R2, i32::from(KEY));
    code.call(helper::MAP_LOOKUP);
    code.jump_if(When::Equal, R0, 0, drop);
    code.copy(R9, R0);
    code.jump_if(When::Below, R7, 14, refuse);
    code.jump_if(When::Above, R7, CLASSES[CLASSES.len() - 1] as i32, refuse);
    share(&mut code, maps, refuse);
    code.call(helper::KTIME);
    code.store(Size::Double, R10, TIME, R0);
    for class in CLASSES {
        let larger = code.label();
        code.jump_if(When::Above, R7, class as i32, larger);
        copy(&mut code, maps, class, refuse, out);
        code.place(larger);
    }
    code.place(refuse);
    code.set(R1, 1);
    code.atomic_add(R9, REFUSED, R1);
    code.place(drop);
    code.set(R0, verdict::DROPPED);
    code.exit();
    code.place(out);
    code.set(R0, verdict::TAKEN);
    code.exit();
    code.finish()
}

/// Jumps to `refuse` if the port has used its share of the ring: at most as many bytes as
/// are still free. So one flood leaves half of the ring, two leave a third, and an idle
/// port always finds room (dynamic thresholds, Choudhury and Hahne 1998).
fn share(code: &mut Assembler, maps: &Maps, refuse: Label) {
    code.map(R1, maps.ring.as_raw_fd());
    code.set(R2, AVAILABLE_DATA);
    code.call(helper::RING_QUERY);
    code.set(R1, maps.size as i32);
    code.subtract(R1, R0);
    code.load(Size::Double, R2, R9, 0);
    code.load(Size::Double, R3, R9, TAKEN);
    code.subtract(R2, R3);
    code.copy(R3, R2);
    code.shift_right(R3, 40);
    code.jump_if(When::AtLeast, R3, LARGEST_SHARE, refuse);
    code.set_double(R4, FRAME - 1);
    // The lower part is the byte count.
    code.and(R2, R4);
    code.jump_if_register(When::AtLeast, R2, R1, refuse);
}

/// Copies a frame of at most `class` bytes into the ring.
fn copy(code: &mut Assembler, maps: &Maps, class: usize, refuse: Label, out: Label) {
    let [failed, submit] = [(); 2].map(|()| code.label());
    code.map(R1, maps.ring.as_raw_fd());
    code.set(R2, (HEADER + class) as i32);
    code.set(R3, 0);
    code.call(helper::RING_RESERVE);
    code.jump_if(When::Equal, R0, 0, refuse);
    code.store(Size::Double, R10, RECORD, R0);
    code.store(Size::Word, R0, 0, R8);
    code.store(Size::Word, R0, 4, R7);
    code.load(Size::Double, R1, R10, TIME);
    code.store(Size::Double, R0, 8, R1);
    code.copy(R3, R0);
    code.add(R3, HEADER as i32);
    code.copy(R1, R6);
    code.set(R2, 0);
    code.copy(R4, R7);
    code.call(helper::LOAD_BYTES);
    code.jump_if(When::NotEqual, R0, 0, failed);
    code.set_double(R1, FRAME + record(class) as u64);
    code.atomic_add(R9, 0, R1);
    // The reader sets `sleeping` before its last check for reserved records; the program
    // reads `sleeping` after it reserves. One of the two sees the other.
    code.map_value(R3, maps.sleeping.as_raw_fd());
    code.set(R1, 0);
    code.exchange(R3, 0, R1);
    code.set(R2, NO_WAKE_UP);
    code.jump_if(When::Equal, R1, 0, submit);
    code.set(R2, WAKE_UP);
    code.place(submit);
    code.load(Size::Double, R1, R10, RECORD);
    code.call(helper::RING_SUBMIT);
    code.jump(out);
    code.place(failed);
    code.load(Size::Double, R1, R10, RECORD);
    code.set(R2, NO_WAKE_UP);
    code.call(helper::RING_DISCARD);
    code.jump(refuse);
}

/// Bytes of a class's record in the ring.
fn record(class: usize) -> usize {
    (KERNEL_HEADER + HEADER + class).next_multiple_of(8)
}

/// Bytes of a `len`-byte frame's record in the ring.
pub(super) fn room(len: usize) -> usize {
    let class = CLASSES.iter().find(|class| len <= **class);
    record(*class.unwrap_or(&CLASSES[CLASSES.len() - 1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_grow_and_hold_the_largest_frame() {
        assert!(CLASSES.is_sorted());
        assert!(CLASSES[CLASSES.len() - 1] >= 65_536 + 18);
        assert_eq!((room(60), room(104), room(105), room(1514)), (128, 128, 192, 1544));
    }

    #[test]
    fn differences_of_the_joint_figure_survive_its_running_over() {
        let start = u64::MAX - 5 * FRAME - 100;
        let put = start.wrapping_add(7 * FRAME + 7 * 128);
        let held = put.wrapping_sub(start);
        assert_eq!((held >> 40, held & (FRAME - 1)), (7, 896));
    }
}
