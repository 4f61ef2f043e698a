//! The program that runs in the kernel for each frame that a node sends: it copies
//! the frame into the ring and takes it from the kernel.
//!
//! It is at the ingress of the medium's end of a veth pair (clsact, direct action),
//! behind all that the kernel does with a frame: cut into segments, with checksums
//! finished, and counted as sent by the node's interface. A filter of a TAP
//! (TUNSETFILTEREBPF) is a little faster, but what it takes the interface counts as
//! dropped, and a program at the node's own egress sees TCP before it is cut.

use super::assembler::{
    Assembler, Instruction, Label, R0, R1, R2, R3, R4, R6, R7, R8, R9, R10, Size, When,
};
use super::bpf;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes before the frame in a record: port, length, arrival time.
pub(super) const HEADER: usize = 16;
/// Bytes that the kernel has before each record, and what it aligns them to.
pub(super) const KERNEL_HEADER: usize = 8;

/// Room for frames: the kernel takes constants only. Small ones fill a power of
/// two with both headers; one is for an MTU of 1500, one for jumbo frames, the
/// last for the largest frame that there is.
const CLASSES: [usize; 12] =
    [104, 168, 232, 488, 1000, 1520, 2024, 4072, 9040, 16_360, 32_744, 65_560];

/// What the program and its reader share for each port, a line of the cache each.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(super) struct PortState {
    /// Put into the ring so far: frames times [`FRAME`] plus bytes. One figure, so
    /// that both change at once.
    pub put: std::sync::atomic::AtomicU64,
    /// Frames that found no room, or the port's share used up.
    pub refused: std::sync::atomic::AtomicU64,
    _line: [u64; 6],
    /// Taken out so far, in the same figure; the reader's.
    pub taken: std::sync::atomic::AtomicU64,
    _other_line: [u64; 7],
}

const _: () = assert!(size_of::<PortState>() == 128);
const REFUSED: i16 = 8;
const TAKEN: i16 = 64;

/// One frame in [`PortState::put`]. Differences stay right when the lower part
/// runs over into the upper, as both figures do.
pub(super) const FRAME: u64 = 1 << 40;
/// Frames that one port may have in the ring: the queue of a node's interface,
/// which is what it replaces.
pub(super) const LARGEST_SHARE: i32 = 10_000;

/// The flags of a submission.
const NO_WAKE_UP: i32 = 1;
const WAKE_UP: i32 = 2;
const AVAILABLE_DATA: i32 = 0;

/// Helpers of the kernel, by number.
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

/// What becomes of a frame (linux/pkt_cls.h).
mod verdict {
    pub const DROPPED: i32 = 2;
    pub const TAKEN: i32 = 4;
}

/// Slots of the stack.
const KEY: i16 = -4;
const TIME: i16 = -16;
const RECORD: i16 = -24;

/// The maps that the program works with.
#[derive(Debug)]
pub(super) struct Maps {
    /// The ring buffer.
    pub ring: OwnedFd,
    /// Its size in bytes.
    pub size: u32,
    /// A [`PortState`] for each port.
    pub ports: OwnedFd,
    /// Whether the reader sleeps and wants to be woken.
    pub sleeping: OwnedFd,
}

/// Loads the program. The interface of port 0 has the number `first`, those of the
/// others follow.
pub(super) fn load(maps: &Maps, first: u32) -> io::Result<OwnedFd> {
    bpf::load(&assemble(maps, first))
}

fn assemble(maps: &Maps, first: u32) -> Vec<Instruction> {
    let mut code = Assembler::default();
    let [untagged, drop, refuse, out] = [(); 4].map(|()| code.label());
    code.copy(R6, R1);
    code.load(Size::Word, R0, R6, frame::VLAN_PRESENT);
    code.jump_if(When::Equal, R0, 0, untagged);
    // The kernel has taken its tag out of its bytes. Another before it, which is as far
    // from being among them, puts it back.
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

/// Goes to `refuse` when the port has its share of the ring: it may hold as much as
/// is still free, so that a flood leaves half of it, two leave a third, and a port
/// that is quiet always finds room (dynamic thresholds, Choudhury and Hahne 1998).
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
    // The lower part is the bytes.
    code.and(R2, R4);
    code.jump_if_register(When::AtLeast, R2, R1, refuse);
}

/// Copies a frame of `class` bytes at most into the ring.
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
    // The reader says that it sleeps before it looks for the last time whether
    // something has been reserved; this looks after reserving. One of the two
    // sees the other.
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

/// What a frame of a class takes in the ring.
fn record(class: usize) -> usize {
    (KERNEL_HEADER + HEADER + class).next_multiple_of(8)
}

/// What a frame of `len` bytes takes in the ring.
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
