//! A minimal BPF assembler for one program (RFC 9669).

use std::collections::HashMap;

/// One instruction, in the kernel's format.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    code: u8,
    /// Source register in the upper half, target register in the lower half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A register: R0 holds results, R1 to R5 arguments. R6 to R9 are callee-saved. R10 is the
/// frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Register(u8);

pub(super) const R0: Register = Register(0);
pub(super) const R1: Register = Register(1);
pub(super) const R2: Register = Register(2);
pub(super) const R3: Register = Register(3);
pub(super) const R4: Register = Register(4);
pub(super) const R6: Register = Register(6);
pub(super) const R7: Register = Register(7);
pub(super) const R8: Register = Register(8);
pub(super) const R9: Register = Register(9);
pub(super) const R10: Register = Register(10);

/// Size of a memory access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Four bytes.
    Word = 0x00,
    /// Eight bytes.
    Double = 0x18,
}

/// Condition of an unsigned comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    NotEqual = 0x50,
    Below = 0xa0,
}

/// A jump target in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Label(usize);

// Parts of opcodes, as in RFC 9669, section 3: classes and sources of operands. ATOMIC is STX | ATOMIC
// without its size; the pseudo source registers 1 and 2 make a 64-bit load one of a map or of its values.
const SOURCE_REGISTER: u8 = 0x08;
const JUMP: u8 = 0x05;
const ARITHMETIC: u8 = 0x07;
const ATOMIC: u8 = 0xc3;
const LOAD_DOUBLE: u8 = 0x18;
const MAP_DESCRIPTOR: u8 = 1;
const MAP_VALUE: u8 = 2;

/// Appends instructions.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<Instruction>,
    labels: usize,
    places: HashMap<Label, usize>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn push(&mut self, code: u8, to: Register, from: Register, offset: i16, immediate: i32) {
        let registers = from.0 << 4 | to.0;
        self.code.push(Instruction { code, registers, offset, immediate });
    }

    /// Creates a label; place it later.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels)
    }

    /// Places `label` here.
    pub fn place(&mut self, label: Label) {
        self.places.insert(label, self.code.len());
    }

    /// `to = from`
    pub fn copy(&mut self, to: Register, from: Register) {
        self.push(0xb0 | SOURCE_REGISTER | ARITHMETIC, to, from, 0, 0);
    }

    /// `to = value`
    pub fn set(&mut self, to: Register, value: i32) {
        self.push(0xb0 | ARITHMETIC, to, R0, 0, value);
    }

    /// `to += value`
    pub fn add(&mut self, to: Register, value: i32) {
        self.push(ARITHMETIC, to, R0, 0, value);
    }

    /// `to -= from`
    pub fn subtract(&mut self, to: Register, from: Register) {
        self.push(0x10 | SOURCE_REGISTER | ARITHMETIC, to, from, 0, 0);
    }

    /// `to >>= bits`
    pub fn shift_right(&mut self, to: Register, bits: i32) {
        self.push(0x70 | ARITHMETIC, to, R0, 0, bits);
    }

    /// `to &= from`
    pub fn and(&mut self, to: Register, from: Register) {
        self.push(0x50 | SOURCE_REGISTER | ARITHMETIC, to, from, 0, 0);
    }

    /// `to = *(from + offset)`
    pub fn load(&mut self, size: Size, to: Register, from: Register, offset: i16) {
        self.push(0x61 | size as u8, to, from, offset, 0);
    }

    /// `*(to + offset) = from`
    pub fn store(&mut self, size: Size, to: Register, offset: i16, from: Register) {
        self.push(0x63 | size as u8, to, from, offset, 0);
    }

    /// `*(to + offset) += from`, atomically.
    pub fn atomic_add(&mut self, to: Register, offset: i16, from: Register) {
        self.push(ATOMIC | Size::Double as u8, to, from, offset, 0);
    }

    /// Atomically exchanges `*(to + offset)` and `with`; a full barrier.
    pub fn exchange(&mut self, to: Register, offset: i16, with: Register) {
        self.push(ATOMIC | Size::Double as u8, to, with, offset, 0xe1);
    }

    /// `to = value`, with 64 bits.
    pub fn set_double(&mut self, to: Register, value: u64) {
        self.double(to, 0, value as i32, (value >> 32) as i32);
    }

    /// `to = map`, by its file descriptor.
    pub fn map(&mut self, to: Register, descriptor: i32) {
        self.double(to, MAP_DESCRIPTOR, descriptor, 0);
    }

    /// `to = &map[0]` of an array with one element.
    pub fn map_value(&mut self, to: Register, descriptor: i32) {
        self.double(to, MAP_VALUE, descriptor, 0);
    }

    fn double(&mut self, to: Register, kind: u8, low: i32, high: i32) {
        self.push(LOAD_DOUBLE, to, Register(kind), 0, low);
        self.push(0, R0, R0, 0, high);
    }

    /// Calls a kernel helper.
    pub fn call(&mut self, helper: i32) {
        self.push(0x80 | JUMP, R0, R0, 0, helper);
    }

    /// Returns R0.
    pub fn exit(&mut self) {
        self.push(0x90 | JUMP, R0, R0, 0, 0);
    }

    /// Jumps to `label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(JUMP, R0, R0, 0, 0);
    }

    /// Jumps to `label` if the comparison of `left` with `value` is true.
    pub fn jump_if(&mut self, when: When, left: Register, value: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(when as u8 | JUMP, left, R0, 0, value);
    }

    /// Jumps to `label` if the comparison of `left` with `right` is true.
    pub fn jump_if_register(&mut self, when: When, left: Register, right: Register, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(when as u8 | SOURCE_REGISTER | JUMP, left, right, 0, 0);
    }

    /// The program with resolved jumps.
    ///
    /// # Panics
    /// If a label was never placed or is too far away: programming errors that a test of
    /// the program finds.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in &self.jumps {
            let place = self.places[label] as i64;
            let offset = place - *at as i64 - 1;
            self.code[*at].offset = offset.try_into().expect("a program is short");
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_as_the_kernel_reads_them() {
        let mut code = Assembler::default();
        let end = code.label();
        code.load(Size::Word, R7, R6, 16);
        code.jump_if(When::Below, R7, 14, end);
        code.exchange(R1, 8, R2);
        code.map(R3, 5);
        code.place(end);
        code.exit();
        let words: Vec<(u8, u8, i16, i32)> =
            code.finish().iter().map(|i| (i.code, i.registers, i.offset, i.immediate)).collect();
        assert_eq!(
            words,
            [
                (0x61, 0x67, 16, 0),
                (0xa5, 0x07, 3, 14),
                (0xdb, 0x21, 8, 0xe1),
                (0x18, 0x13, 0, 5),
                (0, 0, 0, 0),
                (0x95, 0, 0, 0),
            ]
        );
        assert_eq!(size_of::<Instruction>(), 8);
    }
}
