//! Rows as bytes of a file of this process.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// `None` in the file.
const NONE: i64 = i64::MIN;
/// Number of different texts that stay in memory.
const TEXTS: usize = 4_096;
/// The bit of a text that is in the file: its length is in bits 40 to 62, its offset below.
const IN_FILE: u64 = 1 << 63;
/// Bits of an offset.
const OFFSET_BITS: u32 = 40;
/// Longest text in bytes; the rest of a longer one is left out. A line of an events file is shorter.
const LONGEST: usize = (1 << 20) - 1;

/// A row of a [`RowTable`](crate::RowTable).
pub trait Row: Clone {
    /// Bytes of a row in the file.
    const BYTES: usize;

    /// Writes all fields.
    fn put(&self, to: &mut Put<'_>);

    /// Reads all fields, in the same order.
    ///
    /// # Errors
    /// When the file of texts cannot be read.
    fn get(from: &mut Get<'_>) -> io::Result<Self>;
}

/// Writes the fields of a row.
#[derive(Debug)]
pub struct Put<'a> {
    pub(crate) bytes: &'a mut Vec<u8>,
    pub(crate) texts: &'a mut Texts,
}

impl Put<'_> {
    /// 1 byte.
    pub fn flag(&mut self, value: bool) {
        self.bytes.push(value.into());
    }

    /// 4 bytes. The machine's byte order suffices, since the file never leaves this process.
    pub fn short(&mut self, value: u32) {
        self.bytes.extend(value.to_ne_bytes());
    }

    /// 8 bytes.
    pub fn whole(&mut self, value: u64) {
        self.bytes.extend(value.to_ne_bytes());
    }

    /// 8 bytes.
    pub fn signed(&mut self, value: i64) {
        self.bytes.extend(value.to_ne_bytes());
    }

    /// 8 bytes. The least number is read as `None`.
    pub fn maybe(&mut self, value: Option<i64>) {
        self.signed(value.unwrap_or(NONE));
    }

    /// 8 bytes.
    pub fn real(&mut self, value: f64) {
        self.bytes.extend(value.to_ne_bytes());
    }

    /// 8 bytes; the text itself is stored once, if it is among the first different ones.
    pub fn text(&mut self, value: &str) {
        let number = self.texts.number(value);
        self.whole(number);
    }
}

/// Reads the fields of a row.
#[derive(Debug)]
pub struct Get<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) texts: &'a Texts,
}

impl Get<'_> {
    fn next<const N: usize>(&mut self) -> [u8; N] {
        let (next, rest) = self.bytes.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.bytes = rest;
        *next
    }

    /// See [`Put::flag`].
    pub fn flag(&mut self) -> bool {
        self.next() == [1]
    }

    /// See [`Put::short`].
    pub fn short(&mut self) -> u32 {
        u32::from_ne_bytes(self.next())
    }

    /// See [`Put::whole`].
    pub fn whole(&mut self) -> u64 {
        u64::from_ne_bytes(self.next())
    }

    /// See [`Put::signed`].
    pub fn signed(&mut self) -> i64 {
        i64::from_ne_bytes(self.next())
    }

    /// See [`Put::maybe`].
    pub fn maybe(&mut self) -> Option<i64> {
        Some(self.signed()).filter(|value| *value != NONE)
    }

    /// See [`Put::real`].
    pub fn real(&mut self) -> f64 {
        f64::from_ne_bytes(self.next())
    }

    /// See [`Put::text`].
    ///
    /// # Errors
    /// When the file of texts cannot be read.
    pub fn text(&mut self) -> io::Result<Arc<str>> {
        let number = self.whole();
        self.texts.get(number)
    }
}

/// Texts by number. The first ones are in memory: names of nodes and usual errors. Programs may
/// report any number of others, which are in a file.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    values: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u64>,
    /// `None` before it is needed, and if it cannot be created.
    file: Option<File>,
    end: u64,
}

impl Texts {
    /// Whether further texts need a file.
    pub fn is_full(&self) -> bool {
        self.values.len() >= TEXTS
    }

    /// Creates the file in `folder`. Without it, texts stay in memory.
    pub fn spill_to(&mut self, folder: &Path) {
        if self.file.is_none() {
            self.file = journal::nameless(folder).ok();
        }
    }

    fn number(&mut self, value: &str) -> u64 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let value = &value[..value.floor_char_boundary(LONGEST)];
        if let Some(number) = self.store(value) {
            return number;
        }
        let (number, value) = (self.values.len() as u64, Arc::from(value));
        self.values.push(Arc::clone(&value));
        self.numbers.insert(value, number);
        number
    }

    /// Writes a text to the file, unless there is room in memory or the disk is full.
    fn store(&mut self, value: &str) -> Option<u64> {
        let file = self.file.as_ref().filter(|_| self.is_full())?;
        let length = value.len() as u64;
        let number = IN_FILE | (length << OFFSET_BITS) | self.end;
        file.write_all_at(value.as_bytes(), self.end).ok()?;
        self.end += length;
        Some(number)
    }

    fn get(&self, number: u64) -> io::Result<Arc<str>> {
        if number & IN_FILE == 0 {
            return Ok(self.values.get(number as usize).cloned().unwrap_or_default());
        }
        let mut bytes = vec![0; ((number & !IN_FILE) >> OFFSET_BITS) as usize];
        if let Some(file) = &self.file {
            file.read_exact_at(&mut bytes, number & ((1 << OFFSET_BITS) - 1))?;
        }
        Ok(String::from_utf8_lossy(&bytes).into())
    }

    /// Number of texts in memory.
    #[cfg(test)]
    pub fn held(&self) -> usize {
        self.values.len()
    }
}
