//! A super-frame, stored once, and the runs of its segments in flight.

use super::split::{Layout, Run, SuperFrame};
use super::{VnetHeader, finish_checksum};
use std::cell::RefCell;
use std::rc::Rc;

/// Buffers kept for the next super-frames: 4 MB.
const MAX_BUFFERS: usize = 64;

/// Read buffers for reuse: to allocate one costs as much as to read into it.
#[derive(Debug, Default)]
pub(super) struct BufferPool(RefCell<Vec<Box<[u8]>>>);

impl BufferPool {
    pub fn take(&self) -> Option<Box<[u8]>> {
        self.0.borrow_mut().pop()
    }
}

/// A super-frame in memory, shared by all its segments.
#[derive(Debug)]
struct SuperFrameData {
    bytes: Box<[u8]>,
    /// Range of the frame in `bytes`.
    from: usize,
    to: usize,
    layout: Layout,
    /// Pool to which the buffer returns, if it came from one.
    pool: Option<Rc<BufferPool>>,
}

impl Drop for SuperFrameData {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        let mut rooms = pool.0.borrow_mut();
        if rooms.len() < MAX_BUFFERS {
            rooms.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// Consecutive segments of one super-frame that travel together.
#[derive(Debug, Clone)]
pub struct Segments {
    of: Rc<SuperFrameData>,
    from: u16,
    to: u16,
}

impl Segments {
    /// All segments of a super-frame. Copies the bytes. `None` if the frame is not a
    /// super-frame or contradicts its header.
    pub fn new(header: VnetHeader, frame: &[u8]) -> Option<Self> {
        let layout = segmented(header, frame)?;
        Some(Self::of(frame.into(), (0, frame.len()), layout, None))
    }

    /// As `new`, but keeps the bytes `from..to` in their read buffer. The buffer returns to
    /// `pool` after the last segment is dropped. Returns the buffer as `Err` if it holds
    /// no super-frame.
    pub(super) fn in_buffer(
        header: VnetHeader,
        room: Box<[u8]>,
        (from, to): (usize, usize),
        pool: &Rc<BufferPool>,
    ) -> Result<Self, Box<[u8]>> {
        match room.get(from..to).and_then(|frame| segmented(header, frame)) {
            Some(layout) => Ok(Self::of(room, (from, to), layout, Some(pool.clone()))),
            None => Err(room),
        }
    }

    fn of(
        bytes: Box<[u8]>,
        (from, to): (usize, usize),
        (layout, count): (Layout, u16),
        pool: Option<Rc<BufferPool>>,
    ) -> Self {
        Self { of: Rc::new(SuperFrameData { bytes, from, to, layout, pool }), from: 0, to: count }
    }

    /// Number of segments, at least one.
    pub fn count(&self) -> usize {
        usize::from(self.to - self.from)
    }

    /// Bytes on the wire, with the headers of each segment.
    pub fn size(&self) -> usize {
        let whole = self.whole();
        // All segments of a super-frame but the last have the same length.
        (self.count() - 1) * whole.wire_len(usize::from(self.from))
            + whole.wire_len(usize::from(self.to) - 1)
    }

    /// Length of the first segment on the wire; equal for all but the last.
    pub fn first_size(&self) -> usize {
        self.whole().wire_len(usize::from(self.from))
    }

    /// The super-frame that contains these segments, with the same addresses.
    pub fn super_frame(&self) -> &[u8] {
        &self.of.bytes[self.of.from..self.of.to]
    }

    /// All segments as one frame.
    pub fn joined(&self) -> Run<'_> {
        self.whole().join(usize::from(self.from)..usize::from(self.to))
    }

    /// The first segment as on the wire, with its checksum.
    pub fn first(&self) -> Vec<u8> {
        let from = usize::from(self.from);
        let mut frame = self.whole().join(from..from + 1).frame();
        // The header fits: `segmented` checked it.
        finish_checksum(&self.of.layout.header(), &mut frame);
        frame
    }

    /// Each segment separately, in order.
    pub fn each(&self) -> impl Iterator<Item = Self> + use<> {
        let of = self.of.clone();
        (self.from..self.to).map(move |from| Self { of: of.clone(), from, to: from + 1 })
    }

    /// Appends `next` if it directly follows in the same super-frame; returns whether it
    /// does.
    pub(crate) fn extend(&mut self, next: &Self) -> bool {
        let follows = self.to == next.from && Rc::ptr_eq(&self.of, &next.of);
        if follows {
            self.to = next.to;
        }
        follows
    }

    fn whole(&self) -> SuperFrame<'_> {
        SuperFrame::of(self.of.layout, self.super_frame())
    }
}

/// Layout and segment count of a super-frame; `None` if the frame is not one, or if the
/// count exceeds `u16`.
fn segmented(header: VnetHeader, frame: &[u8]) -> Option<(Layout, u16)> {
    let whole = SuperFrame::new(header, frame).filter(|whole| whole.headers() > 0)?;
    Some((whole.layout(), u16::try_from(whole.segments()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::split::tests::{SEGMENT, build};
    use super::*;

    #[test]
    fn segments_are_those_of_the_super_frame() {
        let (header, frame) = build(false, 4 * SEGMENT + 9);
        let all = Segments::new(header, &frame).unwrap();
        let whole = SuperFrame::new(header, &frame).unwrap();
        assert_eq!((all.count(), all.super_frame()), (5, &frame[..]));
        for (i, one) in all.each().enumerate() {
            assert_eq!((one.count(), one.size()), (1, whole.wire_len(i)));
            assert_eq!(Some(one.first()), whole.wire(i));
        }
        assert_eq!(all.size(), all.each().map(|one| one.size()).sum::<usize>());
        assert_eq!(all.joined().frame(), frame);
        assert!(Segments::new(VnetHeader::default(), &frame).is_none(), "a plain frame");
    }

    #[test]
    fn those_that_follow_each_other_join_again() {
        let (header, frame) = build(false, 4 * SEGMENT);
        let [mut a, b, c, d] =
            <[_; 4]>::try_from(Segments::new(header, &frame).unwrap().each().collect::<Vec<_>>())
                .unwrap();
        assert!(a.extend(&b) && !a.extend(&d) && a.extend(&c));
        let whole = SuperFrame::new(header, &frame).unwrap();
        assert_eq!((a.count(), a.joined().frame()), (3, whole.join(0..3).frame()));
        let other = Segments::new(header, &frame).unwrap().each().last().unwrap();
        assert!(!a.extend(&other), "of another super-frame");
    }
}
