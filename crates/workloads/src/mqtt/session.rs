//! A client's session with a broker, by libmosquitto: safe calls, and what happened.

use super::ffi;
use super::spec::{MqttSpec, Version};
use crate::clock::{Nanos, monotonic_now};
use crate::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// What happened to a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// The broker has answered the request to connect: 0 is yes.
    Answered(c_int),
    /// The connection has ended, or could not be had, for this reason.
    Ended(c_int),
    /// The broker has answered the subscription with these levels.
    Subscribed(Vec<c_int>),
    /// The broker has acknowledged a message, with a reason from 128 if it refuses.
    Acknowledged { mid: c_int, reason: c_int, at: Nanos },
    /// A message has come.
    Message { topic: String, payload: Vec<u8>, at: Nanos },
}

/// What callbacks write to; it outlives the client.
#[derive(Default)]
struct Inbox {
    happened: Vec<Happened>,
    /// The last error that the library logged.
    complaint: String,
}

/// A session with a broker. One thread uses it.
pub struct Session {
    client: *mut ffi::Mosquitto,
    inbox: *mut Inbox,
    host: CString,
    port: c_int,
    keep_alive: c_int,
    version: Version,
    secure: bool,
}

impl Session {
    /// A session that is not connected yet.
    ///
    /// # Errors
    /// When files for TLS cannot be used, or there is no memory.
    pub fn new(spec: &MqttSpec) -> Result<Self, Error> {
        let inbox = Box::into_raw(Box::<Inbox>::default());
        let id = text(&spec.client)?;
        // SAFETY: initialises the library, which may be done often; the identifier
        // lives over the call, the inbox until after the client is destroyed.
        let client = unsafe {
            ffi::mosquitto_lib_init();
            ffi::mosquitto_new(id.as_ptr(), spec.clean_session, inbox.cast())
        };
        let mut session = Self {
            client,
            inbox,
            host: text(&spec.host)?,
            port: c_int::from(spec.port),
            keep_alive: c_int::from(spec.keep_alive_s),
            version: spec.version,
            secure: spec.tls.is_some(),
        };
        if client.is_null() {
            return Err(session.error("make a client", ffi::ERRNO));
        }
        let version = match spec.version {
            Version::V311 => 4,
            Version::V5 => 5,
        };
        // SAFETY: the client is ours; callbacks keep to their signatures.
        unsafe {
            ffi::mosquitto_int_option(client, ffi::OPT_PROTOCOL_VERSION, version);
            // The most there is, which is the standard's own default. The library's 20
            // would have it hang up on brokers that send more after they were started
            // again, and never get past them.
            ffi::mosquitto_int_option(client, ffi::OPT_RECEIVE_MAXIMUM, 65_535);
            ffi::mosquitto_connect_with_flags_callback_set(client, on_connect);
            ffi::mosquitto_disconnect_callback_set(client, on_disconnect);
            ffi::mosquitto_publish_v5_callback_set(client, on_publish);
            ffi::mosquitto_subscribe_callback_set(client, on_subscribe);
            ffi::mosquitto_message_callback_set(client, on_message);
            ffi::mosquitto_log_callback_set(client, on_log);
        }
        if let Some(tls) = &spec.tls {
            session.tls(&tls.ca, tls.cert.as_deref(), tls.key.as_deref())?;
        }
        if spec.version == Version::V5 && !spec.clean_session {
            session.keep_session();
        }
        Ok(session)
    }

    fn tls(&mut self, ca: &Path, cert: Option<&Path>, key: Option<&Path>) -> Result<(), Error> {
        let file = |path: &Path| {
            CString::new(path.as_os_str().as_bytes())
                .map_err(|_| Error::mqtt("use a path with a zero byte", path.display()))
        };
        let (ca_file, cert, key) =
            (file(ca)?, cert.map(file).transpose()?, key.map(file).transpose()?);
        let pointer =
            |path: &Option<CString>| path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: the texts live over the call, which copies them.
        let code = unsafe {
            ffi::mosquitto_tls_set(
                self.client,
                ca_file.as_ptr(),
                ptr::null(),
                pointer(&cert),
                pointer(&key),
                None,
            )
        };
        let tried = format!("use the TLS files, {} the first", ca.display());
        self.check(&tried, code)
    }

    /// Asks for a session that outlives its connection. In MQTT 5 that is a property
    /// of the request to connect, which the library takes only where it would wait
    /// for the network. So it is given one to an address where nobody listens, which
    /// fails at once; the library keeps the property for the requests that follow.
    fn keep_session(&mut self) {
        let mut list = ptr::null_mut();
        // SAFETY: the list is made, copied and freed here; the address is constant.
        unsafe {
            ffi::mosquitto_property_add_int32(&raw mut list, ffi::SESSION_EXPIRY, u32::MAX);
            ffi::mosquitto_connect_bind_v5(
                self.client,
                c"127.0.0.1".as_ptr(),
                1,
                self.keep_alive,
                ptr::null(),
                list,
            );
            ffi::mosquitto_property_free_all(&raw mut list);
        }
        self.take();
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// The code of the reason, when that failed at once.
    pub fn connect(&mut self) -> Result<(), c_int> {
        // SAFETY: the text lives over the call, which copies it.
        let code = unsafe {
            ffi::mosquitto_connect_async(
                self.client,
                self.host.as_ptr(),
                self.port,
                self.keep_alive,
            )
        };
        if code == ffi::SUCCESS { Ok(()) } else { Err(code) }
    }

    /// Says goodbye, if there is a connection.
    pub fn disconnect(&mut self) {
        // SAFETY: the client is ours.
        unsafe {
            ffi::mosquitto_disconnect(self.client);
        }
    }

    /// Asks for the messages of `topic`.
    ///
    /// # Errors
    /// When the library refuses it.
    pub fn subscribe(&mut self, topic: &str, qos: u8) -> Result<(), Error> {
        let name = text(topic)?;
        // SAFETY: the text lives over the call.
        let code = unsafe {
            ffi::mosquitto_subscribe(self.client, ptr::null_mut(), name.as_ptr(), c_int::from(qos))
        };
        match code {
            // It is asked for again with the next connection.
            ffi::NO_CONN => Ok(()),
            code => self.check(&format!("subscribe to {topic}"), code),
        }
    }

    /// Publishes a message and tells its number in the session. Without a connection
    /// a message of QoS 1 or 2 waits for the next, one of QoS 0 is gone.
    ///
    /// # Errors
    /// When the library refuses it for another reason.
    pub fn publish(&mut self, topic: &CStr, payload: &[u8], qos: u8) -> Result<c_int, Error> {
        let mut mid = 0;
        // SAFETY: topic and payload live over the call, which copies them.
        let code = unsafe {
            ffi::mosquitto_publish(
                self.client,
                &raw mut mid,
                topic.as_ptr(),
                payload.len() as c_int,
                payload.as_ptr().cast(),
                c_int::from(qos),
                false,
            )
        };
        // The connection may end at any time, and its end is told by itself.
        if code != ffi::SUCCESS && self.descriptor().is_some() && code != ffi::NO_CONN {
            self.check("publish", code)?;
        }
        Ok(mid)
    }

    /// Reads what has come.
    pub fn read(&mut self) {
        // SAFETY: the client is ours.
        let code = unsafe { ffi::mosquitto_loop_read(self.client, 1) };
        self.went(code);
    }

    /// Writes what waits.
    pub fn write(&mut self) {
        // SAFETY: the client is ours.
        let code = unsafe { ffi::mosquitto_loop_write(self.client, 1) };
        self.went(code);
    }

    /// Goes on with TLS's handshake, which the library does when it reads: to be called
    /// when the connection has room, since at first there is nothing to read.
    pub fn shake_hands(&mut self) {
        if self.secure && self.descriptor().is_some() {
            self.read();
        }
    }

    /// Sends a sign of life if it is time; to be called now and then.
    pub fn tend(&mut self) {
        // SAFETY: the client is ours.
        let code = unsafe { ffi::mosquitto_loop_misc(self.client) };
        if self.descriptor().is_none() {
            self.went(code);
        }
    }

    /// Notes the end of a connection that no callback has told of: one that ended
    /// before it was whole, in the handshake of TLS say.
    fn went(&mut self, code: c_int) {
        // SAFETY: no callback runs but within a call of the library.
        let happened = unsafe { &mut (*self.inbox).happened };
        let told = happened.iter().any(|happened| matches!(happened, Happened::Ended(_)));
        if code != ffi::SUCCESS && !told {
            happened.push(Happened::Ended(code));
        }
    }

    /// The connection's descriptor, if there is one.
    pub fn descriptor(&self) -> Option<RawFd> {
        // SAFETY: the client is ours.
        let fd = unsafe { ffi::mosquitto_socket(self.client) };
        (fd >= 0).then_some(fd)
    }

    /// Whether something waits to be written.
    pub fn wants_to_write(&self) -> bool {
        // SAFETY: the client is ours.
        unsafe { ffi::mosquitto_want_write(self.client) }
    }

    /// All that happened since the last time.
    pub fn take(&mut self) -> Vec<Happened> {
        // SAFETY: no callback runs but within a call of the library.
        unsafe { std::mem::take(&mut (*self.inbox).happened) }
    }

    /// What a broker's answer to the request to connect means.
    pub fn answer(&self, code: c_int) -> String {
        // SAFETY: both give constant texts.
        let text = unsafe {
            CStr::from_ptr(match self.version {
                Version::V311 => ffi::mosquitto_connack_string(code),
                Version::V5 => ffi::mosquitto_reason_string(code),
            })
        };
        format!("{} (code {code})", text.to_string_lossy().trim_end_matches('.'))
    }

    /// What a code of the library means, with what it complained of last.
    pub fn reason(&mut self, code: c_int) -> String {
        let system = std::io::Error::last_os_error();
        // SAFETY: gives a constant text.
        let text = unsafe { CStr::from_ptr(ffi::mosquitto_strerror(code)) };
        let text = match code {
            ffi::ERRNO => system.to_string(),
            _ => text.to_string_lossy().trim_end_matches('.').to_owned(),
        };
        // SAFETY: no callback runs but within a call of the library.
        let complaint = unsafe { std::mem::take(&mut (*self.inbox).complaint) };
        if complaint.is_empty() { text } else { format!("{text} ({complaint})") }
    }

    fn check(&mut self, tried: &str, code: c_int) -> Result<(), Error> {
        if code == ffi::SUCCESS { Ok(()) } else { Err(self.error(tried, code)) }
    }

    fn error(&mut self, tried: &str, code: c_int) -> Error {
        Error::mqtt(tried, self.reason(code))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: both were made by `new` and are not used after this; the client
        // goes first, since its callbacks write to the inbox.
        unsafe {
            if !self.client.is_null() {
                ffi::mosquitto_destroy(self.client);
            }
            drop(Box::from_raw(self.inbox));
        }
    }
}

fn text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::mqtt("use a text with a zero byte", text))
}

/// The inbox behind a callback's pointer.
///
/// # Safety
/// Only for the pointer that `mosquitto_new` was given, within a callback.
unsafe fn inbox<'a>(user: *mut c_void) -> &'a mut Inbox {
    // SAFETY: it is the inbox of the session, which nobody else uses now.
    unsafe { &mut *user.cast::<Inbox>() }
}

unsafe extern "C" fn on_connect(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    code: c_int,
    _flags: c_int,
) {
    // SAFETY: called by the library with our pointer.
    unsafe { inbox(user) }.happened.push(Happened::Answered(code));
}

unsafe extern "C" fn on_disconnect(_: *mut ffi::Mosquitto, user: *mut c_void, code: c_int) {
    // SAFETY: called by the library with our pointer.
    unsafe { inbox(user) }.happened.push(Happened::Ended(code));
}

unsafe extern "C" fn on_publish(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    mid: c_int,
    reason: c_int,
    _: *const ffi::Property,
) {
    let at = monotonic_now();
    // SAFETY: called by the library with our pointer.
    unsafe { inbox(user) }.happened.push(Happened::Acknowledged { mid, reason, at });
}

unsafe extern "C" fn on_subscribe(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    _mid: c_int,
    count: c_int,
    levels: *const c_int,
) {
    // SAFETY: called by the library with our pointer, and as many levels as said.
    unsafe {
        let levels = std::slice::from_raw_parts(levels, count.max(0) as usize).to_vec();
        inbox(user).happened.push(Happened::Subscribed(levels));
    }
}

unsafe extern "C" fn on_message(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    message: *const ffi::Message,
) {
    let at = monotonic_now();
    // SAFETY: called by the library with our pointer and a message, whose payload
    // is as long as it says and null only if empty; its topic is a text.
    unsafe {
        let (start, length) = ((*message).payload.cast::<u8>(), (*message).payloadlen);
        let payload = match start.is_null() {
            true => Vec::new(),
            false => std::slice::from_raw_parts(start, length.max(0) as usize).to_vec(),
        };
        let topic = CStr::from_ptr((*message).topic).to_string_lossy().into_owned();
        inbox(user).happened.push(Happened::Message { topic, payload, at });
    }
}

unsafe extern "C" fn on_log(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    level: c_int,
    text: *const c_char,
) {
    if level & ffi::LOG_ERR != 0 {
        // SAFETY: called by the library with our pointer and a text.
        unsafe {
            inbox(user).complaint = CStr::from_ptr(text).to_string_lossy().trim().to_owned();
        }
    }
}
