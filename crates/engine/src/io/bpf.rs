//! The bpf(2) calls that the ring needs: maps, a program, shared memory.

use super::assembler::Instruction;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Map types, by their numbers in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapKind {
    /// An array shared with this process.
    SharedArray = 2,
    /// A ring buffer.
    RingBuffer = 27,
}

// Commands of bpf(2): BPF_MAP_CREATE and BPF_PROG_LOAD of include/uapi/linux/bpf.h.
const MAP_CREATE: i32 = 0;
const PROG_LOAD: i32 = 5;
/// A program at a queueing discipline, here clsact (BPF_PROG_TYPE_SCHED_CLS).
const SCHED_CLS: u32 = 3;
/// This process can map the array (BPF_F_MMAPABLE).
const MMAPABLE: u32 = 1 << 10;
/// Size of the verifier log, for developers of the program.
const LOG: usize = 1 << 16;

/// The part of `union bpf_attr` that creates maps.
#[repr(C)]
#[derive(Default)]
struct NewMap {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
    numa_node: u32,
    name: [u8; 16],
}

/// The part of `union bpf_attr` that loads programs.
#[repr(C)]
#[derive(Default)]
struct NewProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

fn bpf<T>(command: i32, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the attributes and their size are valid during the call, and so is what
    // they point to; the callers ensure that.
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>())
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor for this process.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn with_context(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    // BPF_OBJ_NAME_LEN is 16, with a zero at the end.
    for (to, from) in name.iter_mut().take(15).zip(text.bytes()) {
        *to = from;
    }
    name
}

/// Creates a map. A ring buffer has no keys, and its `entries` are bytes.
pub(super) fn map(kind: MapKind, value_size: u32, entries: u32) -> io::Result<OwnedFd> {
    let shared = kind == MapKind::SharedArray;
    let map = NewMap {
        kind: kind as u32,
        key_size: if shared { 4 } else { 0 },
        value_size,
        max_entries: entries,
        flags: if shared { MMAPABLE } else { 0 },
        name: name("thingbed"),
        ..NewMap::default()
    };
    bpf(MAP_CREATE, &map).map_err(with_context(format_args!("create a BPF map ({kind:?})")))
}

/// Loads a program for the ends of veth pairs.
pub(super) fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let mut log = vec![0u8; LOG];
    let mut attributes = NewProgram {
        kind: SCHED_CLS,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        // No helper of the program is reserved for the GPL; bpf_ktime_get_ns is free since Linux
        // 5.8, which the ring buffer needs anyway.
        license: c"MIT".as_ptr() as u64,
        name: name("thingbed"),
        ..NewProgram::default()
    };
    bpf(PROG_LOAD, &attributes).or_else(|_| {
        // Load again, with the verifier log.
        attributes.log_level = 1;
        attributes.log_size = LOG as u32;
        attributes.log = log.as_mut_ptr() as u64;
        bpf(PROG_LOAD, &attributes).map_err(|error| {
            let words = String::from_utf8_lossy(&log);
            let words = words.trim_matches('\0').lines().rev().take(3).collect::<Vec<_>>();
            let words: String = words.into_iter().rev().map(|line| format!("; {line}")).collect();
            with_context("load a BPF program")(io::Error::new(
                error.kind(),
                format!("{error}{words}"),
            ))
        })
    })
}

/// Size of a page in bytes: 4 KiB to 64 KiB, depending on the machine.
pub(super) fn page_size() -> usize {
    // SAFETY: reads a system constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Memory shared with the kernel.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory is not tied to a thread; the owner of the mapping may use it.
unsafe impl Send for Mapping {}
// SAFETY: the mapping itself never changes; its contents are accessed by atomics, or
// under the kernel's rules stated at each use of `at`.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset`.
    pub fn new(fd: BorrowedFd<'_>, offset: usize, len: usize, write: bool) -> io::Result<Self> {
        let access = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: creates a mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                access,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        match NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(Self { start, len }),
            None => {
                let what = format!("map {len} bytes shared with the kernel");
                Err(with_context(what)(io::Error::last_os_error()))
            }
        }
    }

    /// The address of the byte at `offset`.
    ///
    /// # Panics
    /// If `offset` is outside the mapping.
    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset < self.len, "{offset} of {}", self.len);
        // SAFETY: within the mapping, as checked above.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// The `len` bytes from `offset`; `None` if they are not all in the mapping.
    ///
    /// # Safety
    /// Nothing writes to them while the slice is in use.
    pub unsafe fn slice(&self, offset: usize, len: usize) -> Option<&[u8]> {
        let end = offset.checked_add(len)?;
        if end > self.len {
            return None;
        }
        // SAFETY: within the mapping, as checked above; the caller guarantees the rest.
        Some(unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), len) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this process owns the mapping, and nothing refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
