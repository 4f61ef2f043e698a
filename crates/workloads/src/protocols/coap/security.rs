//! Keys and certificates for libcoap.

use super::ffi;
use crate::error::Error;
use record::spec::TlsFiles;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// How a session is secured.
#[derive(Debug, Clone)]
pub enum Security {
    /// No security.
    None,
    /// Pre-shared key.
    Key(Vec<u8>),
    /// Certificates; for a client, with the expected name of the server.
    Certificates(TlsFiles, String),
}

/// PSK identity of clients.
pub(super) const IDENTITY: &[u8] = b"thingbed";

/// Keys, names and files in libcoap's types.
pub(super) struct Credentials {
    pub key: Vec<u8>,
    pub name: String,
    pub server_name: CString,
    pub files: Option<Files>,
}

impl Credentials {
    pub fn of(security: &Security) -> Result<Box<Self>, Error> {
        let mut credentials = Self {
            key: Vec::new(),
            name: String::new(),
            server_name: CString::default(),
            files: None,
        };
        match security {
            Security::None => {}
            Security::Key(key) => credentials.key.clone_from(key),
            Security::Certificates(tls, name) => {
                credentials.server_name = text(name)?;
                credentials.name.clone_from(name);
                credentials.files = Some(Files::of(tls)?);
            }
        }
        Ok(Box::new(credentials))
    }
}

/// Paths of certificate and key files.
pub(super) struct Files {
    ca: CString,
    cert: Option<CString>,
    key: Option<CString>,
}

impl Files {
    fn of(tls: &TlsFiles) -> Result<Self, Error> {
        let file = |path: &Path| {
            // libcoap reports no error for an unreadable file.
            std::fs::File::open(path)
                .map_err(|why| Error::protocol(&format!("read {}", path.display()), why))?;
            CString::new(path.as_os_str().as_bytes())
                .map_err(|_| Error::protocol("use a path with a zero byte", path.display()))
        };
        let other = |path: &Option<std::path::PathBuf>| path.as_deref().map(file).transpose();
        Ok(Self { ca: file(&tls.ca)?, cert: other(&tls.cert)?, key: other(&tls.key)? })
    }

    /// The authority's certificate.
    pub fn ca(&self) -> *const c_char {
        self.ca.as_ptr()
    }

    /// The own certificate; null if there is none.
    pub fn cert(&self) -> *const c_char {
        self.cert.as_ref().map_or(ptr::null(), |path| path.as_ptr())
    }

    /// The own key; null if there is none.
    pub fn key(&self) -> *const c_char {
        self.key.as_ref().map_or(ptr::null(), |path| path.as_ptr())
    }
}

/// Compares the name in the server's certificate with the expected name.
pub(super) unsafe extern "C" fn on_name(
    name: *const c_char,
    _certificate: *const u8,
    _length: usize,
    _session: *mut ffi::Session,
    depth: c_uint,
    validated: c_int,
    expected: *mut c_void,
) -> c_int {
    // SAFETY: libcoap passes a string, and the name that the stack keeps.
    let (name, expected) = unsafe { (CStr::from_ptr(name), &*expected.cast::<String>()) };
    // Depth 0 is the server's certificate; the others are of the authorities above it.
    let own = depth == 0 && name.to_string_lossy() != *expected;
    c_int::from(validated != 0 && !own)
}

pub(super) fn text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::protocol("use a text with a zero byte", text))
}
