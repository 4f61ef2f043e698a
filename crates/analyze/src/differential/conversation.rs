//! A small TCP simulation in virtual time: captures of connections that lose packets, close
//! and probe windows, send keep-alives, and reuse ports.

use super::{Random, TestPacket};
use std::collections::VecDeque;

pub(super) const FIN: u8 = 1;
pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;

/// A segment on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    /// The port of the initiator.
    pub port: u16,
    pub from: usize,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u8,
    pub window: u16,
    pub length: u16,
    /// The window scale option of a SYN.
    pub scale: Option<u8>,
}

impl Segment {
    /// The frame, without its payload bytes.
    pub(super) fn made(&self, at: u64) -> TestPacket {
        let mut frame =
            vec![2, 0, 0, 0, 0, 1 - self.from as u8, 2, 0, 0, 0, 0, self.from as u8, 8, 0];
        let options: &[u8] = match (self.flags & SYN != 0, self.scale) {
            (true, Some(shift)) => &[2, 4, 5, 180, 1, 3, 3, shift],
            (true, None) => &[2, 4, 5, 180],
            (false, _) => &[],
        };
        let total = 40 + options.len() as u16 + self.length;
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        let address = |end: usize| [10, 0, 0, 1 + end as u8];
        frame.extend(address(self.from));
        frame.extend(address(1 - self.from));
        let ports = [self.port, 7];
        frame.extend(ports[self.from].to_be_bytes());
        frame.extend(ports[1 - self.from].to_be_bytes());
        frame.extend(self.sequence.to_be_bytes());
        frame.extend(self.acknowledgement.to_be_bytes());
        frame.extend([(5 + options.len() as u8 / 4) << 4, self.flags]);
        frame.extend(self.window.to_be_bytes());
        frame.extend([0; 4]);
        frame.extend(options);
        TestPacket { at, data: frame, length: 14 + u32::from(total) }
    }
}

/// The parameters of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversation {
    pub port: u16,
    pub start: u64,
    /// Bytes that each end sends.
    pub sends: [u64; 2],
    /// One-way delay, in us.
    pub delay: u64,
    /// Loss on the path, in percent; before the capture point or after it.
    pub loss: u64,
    /// Receive buffer of an end in bytes, and bytes that it reads per ms.
    pub room: u64,
    pub reads: u64,
    /// Whether it ends with RST.
    pub aborts: bool,
    /// Whether an idle end sends keep-alives, and their length.
    pub keeps_alive: Option<u16>,
}

const MSS: u64 = 1000;
const STEP: u64 = 500_000;

/// One end. Sequence numbers are offsets: 0 for the SYN, 1 for the first byte.
#[derive(Debug)]
struct End {
    base: u32,
    una: u64,
    next: u64,
    /// The offset after the last byte; that of the FIN.
    top: u64,
    expected: u64,
    early: Vec<(u64, u64)>,
    unread: u64,
    shift: Option<u8>,
    peer_window: u64,
    duplicates: u32,
    waits: u32,
    progress: u64,
    timeout: u64,
    announced_window: u64,
}

impl Conversation {
    /// All packets at a capture point in the middle of the path.
    pub(super) fn captured(&self, random: &mut Random) -> Vec<TestPacket> {
        let scales =
            random.pick(&[[Some(3), Some(5)], [None, None], [Some(2), None], [Some(0), Some(9)]]);
        let mut ends = [0, 1].map(|end| End {
            // Often near the wrap of sequence numbers.
            base: if random.chance(40) {
                0u32.wrapping_sub(random.below(9_000) as u32)
            } else {
                random.next() as u32
            },
            una: 0,
            next: 0,
            top: 1 + self.sends[end],
            expected: 0,
            early: Vec::new(),
            unread: 0,
            shift: scales[end],
            peer_window: MSS,
            duplicates: 0,
            waits: 0,
            progress: self.start,
            timeout: 200_000_000,
            announced_window: self.room,
        });
        let mut sighting = Vec::new();
        let mut wires: [VecDeque<(u64, Segment)>; 2] = Default::default();
        let mut now = self.start;
        let last = self.start + 6_000_000_000;
        let mut emit = |now: u64,
                        segment: Segment,
                        wires: &mut [VecDeque<(u64, Segment)>; 2],
                        random: &mut Random| {
            let half = self.delay * 500;
            let jitter = random.below(200_000);
            let lost = random.chance(self.loss);
            if !(lost && random.chance(50)) {
                sighting.push(segment.made(now + half + jitter));
            }
            if !lost {
                let late = if random.chance(2) { random.below(4_000_000) } else { 0 };
                wires[1 - segment.from].push_back((now + 2 * half + jitter + late, segment));
            }
        };
        while now < last {
            let mut done = true;
            for from in 0..2 {
                let mut out = Vec::new();
                while let Some(place) = wires[from].iter().position(|(due, _)| *due <= now) {
                    let (_, segment) = wires[from].remove(place).expect("it is there");
                    let bases = [ends[from].base, ends[1 - from].base];
                    if segment.flags & RST != 0 {
                        sighting.sort_by_key(|made| made.at);
                        return sighting;
                    }
                    ends[from].receive(self, &segment, bases, now, &mut out);
                }
                ends[from].act(self, from, now, random, &mut out);
                done &= ends[from].una > ends[from].top && ends[from].next > ends[from].top;
                let bases = [ends[from].base, ends[1 - from].base];
                for (offset, length, flags) in out {
                    let segment = ends[from].segment(self, from, (offset, length, flags), bases);
                    emit(now, segment, &mut wires, random);
                }
            }
            if done {
                break;
            }
            now += STEP;
        }
        sighting.sort_by_key(|made| made.at);
        sighting
    }
}

impl End {
    fn free(&self, conversation: &Conversation) -> u64 {
        let free = conversation.room.saturating_sub(self.unread);
        if free < MSS / 2 { 0 } else { free }
    }

    fn segment(
        &mut self,
        conversation: &Conversation,
        from: usize,
        what: (u64, u16, u8),
        [own, other]: [u32; 2],
    ) -> Segment {
        let (offset, length, flags) = what;
        self.announced_window = self.free(conversation);
        let shift = if flags & SYN != 0 { 0 } else { self.shift.unwrap_or(0) };
        let flags = if self.expected > 0 { flags | ACK } else { flags };
        Segment {
            port: conversation.port,
            from,
            sequence: own.wrapping_add(offset as u32),
            acknowledgement: if flags & ACK != 0 {
                other.wrapping_add(self.expected as u32)
            } else {
                0
            },
            flags,
            window: (self.announced_window >> shift).min(65_535) as u16,
            length,
            scale: self.shift,
        }
    }

    fn receive(
        &mut self,
        conversation: &Conversation,
        segment: &Segment,
        [own, other]: [u32; 2],
        now: u64,
        out: &mut Vec<(u64, u16, u8)>,
    ) {
        let offset = u64::from(segment.sequence.wrapping_sub(other));
        if segment.flags & ACK != 0 {
            let ack = u64::from(segment.acknowledgement.wrapping_sub(own));
            let shift = if segment.flags & SYN != 0 { 0 } else { segment.scale.unwrap_or(0) };
            let window = u64::from(segment.window) << shift;
            if ack > self.una && ack <= self.top + 1 {
                (self.una, self.duplicates, self.progress, self.timeout) =
                    (ack, 0, now, 200_000_000);
                self.next = self.next.max(ack);
            } else if ack == self.una
                && segment.length == 0
                && window == self.peer_window
                && self.next > self.una
            {
                self.duplicates += 1;
                if self.duplicates == 3 {
                    out.push(self.piece(self.una));
                }
            }
            self.peer_window = window;
        }
        let special = segment.flags & (SYN | FIN) != 0;
        let length = u64::from(segment.length) + u64::from(special);
        // A sequence number just before the expected one is a keep-alive's.
        if length == 0 {
            if offset.wrapping_add(1) == self.expected || offset > u64::from(u32::MAX / 2) {
                out.push((self.next, 0, ACK));
            }
            return;
        }
        if offset == self.expected
            && (u64::from(segment.length) <= self.free(conversation) || special)
        {
            self.expected += length;
            self.unread += u64::from(segment.length);
            self.waits += 1;
            while let Some(place) = self.early.iter().position(|(from, _)| *from <= self.expected) {
                let (from, end) = self.early.remove(place);
                self.unread += end.saturating_sub(self.expected.max(from));
                self.expected = self.expected.max(end);
                self.waits = 2;
            }
            if self.waits >= 2 || special {
                self.waits = 0;
                out.push((self.next, 0, ACK));
            }
        } else {
            if offset > self.expected && offset < u64::from(u32::MAX / 2) && self.early.len() < 64 {
                self.early.push((offset, offset + length));
            }
            out.push((self.next, 0, ACK));
        }
    }

    /// The segment at `offset`, at most one MSS.
    fn piece(&self, offset: u64) -> (u64, u16, u8) {
        match offset {
            0 => (0, 0, SYN),
            _ if offset >= self.top => (self.top, 0, FIN | ACK),
            _ => (offset, (self.top - offset).min(MSS) as u16, ACK),
        }
    }

    fn act(
        &mut self,
        conversation: &Conversation,
        from: usize,
        now: u64,
        random: &mut Random,
        out: &mut Vec<(u64, u16, u8)>,
    ) {
        self.unread -= self.unread.min(conversation.reads / 2);
        let idle = now - self.progress;
        if self.next == 0 && (from == 0 || self.expected > 0) {
            out.clear();
            out.push((0, 0, SYN));
            (self.next, self.progress) = (1, now);
        }
        if self.una == 0 && self.next == 1 && idle < self.timeout {
            return;
        }
        let open = self.peer_window.min(10 * MSS);
        while self.una > 0 && self.next <= self.top {
            let (offset, length, flags) = self.piece(self.next);
            if flags & FIN != 0 {
                // Sometimes the other end still sends for a while.
                if self.una < self.top
                    || (conversation.keeps_alive.is_some() && idle < 1_500_000_000)
                {
                    break;
                }
                if conversation.aborts && from == 0 {
                    out.push((offset, 0, RST | ACK));
                    self.next = self.top + 1;
                    self.una = self.top + 1;
                    return;
                }
            } else if self.next + u64::from(length) > self.una + open {
                break;
            }
            self.next += u64::from(length) + u64::from(flags & FIN);
            if self.next == self.una + u64::from(length) {
                self.progress = now;
            }
            out.push((offset, length, flags));
        }
        if self.next > self.una && idle >= self.timeout {
            out.push(self.piece(self.una));
            (self.progress, self.timeout) = (now, self.timeout * 2);
        } else if self.una > 0
            && self.next == self.una
            && self.next < self.top
            && self.peer_window == 0
            && idle > 150_000_000
        {
            // A window probe: the next byte, or an acknowledged one.
            let one = if random.chance(60) { (self.next, 1, ACK) } else { (self.next - 1, 0, ACK) };
            out.push(one);
            self.progress = now;
        } else if let Some(length) = conversation.keeps_alive
            && self.una > 1
            && self.next == self.una
            && idle > 300_000_000
            && idle % 300_000_000 < STEP
        {
            out.push((self.next - 1, length, ACK));
        }
        if self.waits > 0 && random.chance(3) {
            self.waits = 0;
            out.push((self.next, 0, ACK));
        }
        if self.expected > 0
            && self.announced_window < MSS
            && self.free(conversation) >= conversation.room / 2
        {
            out.push((self.next, 0, ACK));
        }
    }
}
