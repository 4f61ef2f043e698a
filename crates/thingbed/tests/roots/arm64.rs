//! A program for Linux on arm64, assembled by hand: no compiler for arm64 is needed.

/// Its instructions and data (Arm A64). Without arguments it starts `/bin/twice child` in its place;
/// with one it prints the `machine` that uname(2) reports, and ends with status 0. In assembly:
///
/// ```text
///       ldr x19, [sp]; cmp x19, #1; b.ne child
///       adr x0, path; adr x1, path; mov x2, #0
///       str x0, [sp, #-64]!; adr x3, word; str x3, [sp, #8]; str xzr, [sp, #16]
///       mov x1, sp; mov x8, #221; svc #0; b exit
/// child: sub sp, sp, #512; mov x0, sp; mov x8, #160; svc #0
///       add x1, sp, #260; mov x2, #0
/// len:  ldrb w4, [x1, x2]; add x2, x2, #1; cbnz w4, len
///       sub x2, x2, #1; mov x0, #1; mov x8, #64; svc #0; mov x0, #0
/// exit: mov x8, #93; svc #0
/// path: .asciz "/bin/twice"
/// word: .asciz "child"
/// ```
const CODE: [u32; 34] = [
    0xf940_03f3,
    0xf100_067f,
    0x5400_0181,
    0x1000_0360,
    0x1000_0341,
    0xd280_0002,
    0xf81c_0fe0,
    0x7000_0323,
    0xf900_07e3,
    0xf900_0bff,
    0x9100_03e1,
    0xd280_1ba8,
    0xd400_0001,
    0x1400_000f,
    0xd108_03ff,
    0x9100_03e0,
    0xd280_1408,
    0xd400_0001,
    0x9104_13e1,
    0xd280_0002,
    0x3862_6824,
    0x9100_0442,
    0x35ff_ffc4,
    0xd100_0442,
    0xd280_0020,
    0xd280_0808,
    0xd400_0001,
    0xd280_0000,
    0xd280_0ba8,
    0xd400_0001,
    0x6e69_622f,
    0x6977_742f,
    0x6300_6563,
    0x646c_6968,
];

/// The name under which it must be in the image.
pub const NAME: &str = "bin/twice";

/// The program as an ELF file with one segment.
pub fn program() -> Vec<u8> {
    /// Where the segment is loaded, and the bytes before the code: both headers.
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let mut code: Vec<u8> = CODE.iter().flat_map(|word| word.to_le_bytes()).collect();
    // The end of the last text.
    code.push(0);
    let length = HEADERS + code.len() as u64;
    let words = |values: &[u64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
    // The ELF header: 64 bits, little-endian; ET_EXEC, EM_AARCH64, version 1.
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0\x01\0\0\0".to_vec();
    file.extend(words(&[BASE + HEADERS, 64, 0]));
    // Flags; sizes of the headers, and the number of program headers.
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    // PT_LOAD, readable and executable.
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    file.extend(words(&[0, BASE, BASE, length, length, 0x1000]));
    file.extend(code);
    file
}
