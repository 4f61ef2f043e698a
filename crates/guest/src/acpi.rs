//! The ACPI table that replaces QEMU's own in a guest of QEMU.
//!
//! For a speed of N, the kernel's command line states a time stamp counter that ticks N times as
//! fast as it does, so that a second has N times as many instructions. The kernel calibrates its
//! local APIC timer correctly with that counter. Then it compares the result with the ACPI power
//! management timer, finds N times too many ticks of that timer, and divides by N. From then on
//! each timer fires N times too early and is set again, about seventy times for 10 ms at N = 8. A
//! Fixed ACPI Description Table with the flag "hardware-reduced" (ACPI 6.5, 5.2.9) has neither this
//! timer nor another one of the PC for a comparison. Linux uses the last table of this kind, which
//! is the table on QEMU's command line.

/// The length in bytes of the table's revision 5.
const LENGTH: usize = 268;
const REVISION: u8 = 5;
/// Flags: WBINVD works, C1 supported, reset register supported, hardware-reduced.
const FLAGS: u32 = 1 | 1 << 2 | 1 << 10 | 1 << 20;
/// A PC's reset register (I/O space, 8 bits), and the value that resets.
const RESET_SPACE: [u8; 4] = [1, 8, 0, 1];
const RESET_PORT: u64 = 0xcf9;
const RESET: u8 = 0x0f;
/// The register of the real time clock for the century.
const CENTURY: u8 = 0x32;

/// The table's bytes, without addresses of other tables: kernels keep the ones that they have
/// found. A guest with this table can be reset, but not powered off.
pub(crate) fn fixed_description() -> [u8; LENGTH] {
    let mut table = [0; LENGTH];
    let mut put = |at: usize, bytes: &[u8]| table[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"FACP");
    put(4, &(LENGTH as u32).to_le_bytes());
    put(8, &[REVISION]);
    // The names that QEMU's own tables have.
    put(10, b"BOCHS BXPC    ");
    put(24, &2_u32.to_le_bytes());
    put(28, b"BXPC");
    put(32, &1_u32.to_le_bytes());
    put(108, &[CENTURY]);
    put(112, &FLAGS.to_le_bytes());
    put(116, &RESET_SPACE);
    put(120, &RESET_PORT.to_le_bytes());
    put(128, &[RESET]);
    // All bytes sum to 0.
    let sum = table.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    table[9] = sum.wrapping_neg();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_bytes_sum_to_nothing_and_its_places_are_the_standards() {
        let table = fixed_description();
        assert_eq!(table.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)), 0);
        assert_eq!(&table[..9], b"FACP\x0c\x01\0\0\x05");
        assert_eq!(&table[10..36], b"BOCHS BXPC    \x02\0\0\0BXPC\x01\0\0\0");
        assert_eq!(table[112..116], [0x05, 0x04, 0x10, 0]);
        assert_eq!(table[116..129], [1, 8, 0, 1, 0xf9, 0x0c, 0, 0, 0, 0, 0, 0, 0x0f]);
    }
}
