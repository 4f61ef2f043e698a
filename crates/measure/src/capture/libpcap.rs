//! libpcap, loaded when the first capture filter is compiled.
//!
//! Not linked: with the libraries that it needs in turn (D-Bus, systemd, gcrypt and others) it would
//! be mapped in each node's init too, which is a copy of the tool.

use libc::{c_char, c_int, c_uint, c_void};
use libloading::Library;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::OnceLock;

/// File names of libpcap, by its authors and in Debian.
pub const LIBPCAP: [&str; 2] = ["libpcap.so.1", "libpcap.so.0.8"];

/// Ethernet (`DLT_EN10MB` of pcap-linktype(7)).
const ETHERNET: c_int = 1;
/// Largest frame in bytes that a filter accepts; frames that match keep their length.
const WHOLE_FRAME: c_int = 65_535;
/// The netmask, which only the keyword `ip broadcast` needs, is unknown (pcap_compile(3PCAP)).
const UNKNOWN_NETMASK: c_uint = 0xffff_ffff;

/// `struct bpf_program` of pcap/bpf.h.
#[repr(C)]
struct RawProgram {
    len: c_uint,
    instructions: *mut c_void,
}

/// `struct pcap_pkthdr` of pcap/pcap.h.
#[repr(C)]
struct PacketHeader {
    time: libc::timeval,
    captured: u32,
    len: u32,
}

/// The functions of libpcap that compile and apply filters.
struct Functions {
    open_dead: unsafe extern "C" fn(c_int, c_int) -> *mut c_void,
    close: unsafe extern "C" fn(*mut c_void),
    geterr: unsafe extern "C" fn(*mut c_void) -> *mut c_char,
    compile:
        unsafe extern "C" fn(*mut c_void, *mut RawProgram, *const c_char, c_int, c_uint) -> c_int,
    freecode: unsafe extern "C" fn(*mut RawProgram),
    offline_filter:
        unsafe extern "C" fn(*const RawProgram, *const PacketHeader, *const u8) -> c_int,
}

impl Functions {
    /// Loads the first of the libraries `names` that exists, for the life of the process.
    fn load(names: &[&str]) -> Result<Self, String> {
        let mut missing = Vec::new();
        for name in names {
            // SAFETY: libpcap's initialisers only set its variables; the loader finds it where it
            // found it when it was linked.
            match unsafe { Library::new(name) } {
                Ok(library) => return Self::of(library),
                Err(error) => missing.push(error.to_string()),
            }
        }
        Err(missing.join("; "))
    }

    fn of(library: Library) -> Result<Self, String> {
        // Its functions stay valid.
        let library = Box::leak(Box::new(library));
        /// The function with this name.
        fn find<T: Copy>(library: &Library, name: &str) -> Result<T, String> {
            // SAFETY: the fields above have the types of the functions in pcap/pcap.h.
            let symbol = unsafe { library.get::<T>(name.as_bytes()) };
            symbol.map(|symbol| *symbol).map_err(|error| error.to_string())
        }
        Ok(Self {
            open_dead: find(library, "pcap_open_dead")?,
            close: find(library, "pcap_close")?,
            geterr: find(library, "pcap_geterr")?,
            compile: find(library, "pcap_compile")?,
            freecode: find(library, "pcap_freecode")?,
            offline_filter: find(library, "pcap_offline_filter")?,
        })
    }
}

/// Why a program could not be compiled.
#[derive(Debug, PartialEq, Eq)]
pub enum CompileError {
    /// libpcap could not be loaded, with the loader's message.
    Missing(String),
    /// The text is no filter, with libpcap's message.
    Syntax(String),
}

/// A compiled filter.
pub struct Program {
    raw: RawProgram,
    functions: &'static Functions,
}

// SAFETY: the program owns its instructions, which are only read after they were compiled.
unsafe impl Send for Program {}

impl Program {
    /// Compiles `text` for Ethernet frames.
    ///
    /// # Errors
    /// When libpcap is missing, or the syntax is invalid.
    pub fn compile(text: &CStr) -> Result<Self, CompileError> {
        static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
        let functions = FUNCTIONS.get_or_init(|| Functions::load(&LIBPCAP));
        let functions = functions.as_ref().map_err(|why| CompileError::Missing(why.clone()))?;
        // SAFETY: reads its arguments only.
        let handle = unsafe { (functions.open_dead)(ETHERNET, WHOLE_FRAME) };
        let handle = NonNull::new(handle)
            .ok_or_else(|| CompileError::Syntax("libpcap is out of memory".to_owned()))?;
        let mut raw = RawProgram { len: 0, instructions: std::ptr::null_mut() };
        // SAFETY: the handle is open, and all arguments live over the call.
        let status = unsafe {
            (functions.compile)(handle.as_ptr(), &raw mut raw, text.as_ptr(), 1, UNKNOWN_NETMASK)
        };
        let compiled = match status {
            0 => Ok(Self { raw, functions }),
            _ => {
                // SAFETY: the message ends with a zero byte and lives as long as the handle.
                let message = unsafe { CStr::from_ptr((functions.geterr)(handle.as_ptr())) };
                Err(CompileError::Syntax(message.to_string_lossy().into_owned()))
            }
        };
        // SAFETY: open until here; the program does not refer to it.
        unsafe { (functions.close)(handle.as_ptr()) };
        compiled
    }

    /// Whether it matches this frame.
    pub fn matches(&self, frame: &[u8]) -> bool {
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let header = PacketHeader { time, captured: len, len };
        // SAFETY: libpcap checks each access against the captured length; all live over the call.
        unsafe { (self.functions.offline_filter)(&self.raw, &raw const header, frame.as_ptr()) > 0 }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: compiled by libpcap, and freed once.
        unsafe { (self.functions.freecode)(&raw mut self.raw) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    #[test]
    fn a_missing_library_is_an_error_with_all_names_that_were_tried() {
        let error = Functions::load(&["libnone.so.1", "libnone.so.2"]).err().unwrap();
        assert!(error.contains("libnone.so.1") && error.contains("libnone.so.2"), "{error}");
        // A library that is not libpcap.
        let error = Functions::load(&["libc.so.6"]).err().unwrap();
        assert!(error.contains("pcap_open_dead"), "{error}");
    }

    #[test]
    fn filters_compile_on_several_threads_at_a_time() {
        std::thread::scope(|scope| {
            for port in 1..=8_u32 {
                scope.spawn(move || {
                    for _ in 0..50 {
                        let text = CString::new(format!("ether[0] = {port}")).unwrap();
                        let program = Program::compile(&text).unwrap();
                        assert!(program.matches(&[port as u8; 20]));
                        assert!(!program.matches(&[0; 20]) && !program.matches(&[]));
                    }
                });
            }
        });
    }
}
