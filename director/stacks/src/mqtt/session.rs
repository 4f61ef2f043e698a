//! A session with a broker: safe wrappers of libmosquitto.

use super::callbacks::{
    Inbox, SessionEvent, on_connect, on_disconnect, on_log, on_message, on_publish, on_subscribe,
};
use super::{Error, Options, Tls, Version, ffi};
use std::ffi::{CStr, CString, c_int};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;

/// A session with a broker. Use it from one thread.
pub struct Session {
    client: *mut ffi::Mosquitto,
    inbox: *mut Inbox,
    host: CString,
    port: c_int,
    keep_alive: c_int,
    version: Version,
    secure: bool,
}

// SAFETY: the session owns the client and its inbox; libmosquitto keeps no state of a thread.
unsafe impl Send for Session {}

impl Session {
    /// A session that is not connected.
    ///
    /// # Errors
    /// TLS files are unusable, or there is no memory.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let (id, host) = (text(&options.client)?, text(&options.host)?);
        let inbox = Inbox { clock: options.clock, events: Vec::new(), last_log: String::new() };
        let inbox = Box::into_raw(Box::new(inbox));
        // SAFETY: the library may be initialised repeatedly; the identifier outlives the call, the
        // inbox the client.
        let client = unsafe {
            ffi::mosquitto_lib_init();
            ffi::mosquitto_new(id.as_ptr(), options.clean_session, inbox.cast())
        };
        let mut session = Self {
            client,
            inbox,
            host,
            port: c_int::from(options.port),
            keep_alive: c_int::from(options.keep_alive_s),
            version: options.version,
            secure: options.tls.is_some(),
        };
        if client.is_null() {
            return Err(session.error("create an MQTT client", ffi::ERRNO));
        }
        session.set_up(options.no_delay);
        if let Some((name, password)) = &options.credentials {
            let (name, password) = (text(name)?, text(password)?);
            // SAFETY: this struct owns the client; the call copies the texts.
            unsafe {
                ffi::mosquitto_username_pw_set(client, name.as_ptr(), password.as_ptr());
            }
        }
        if let Some(tls) = &options.tls {
            session.tls(tls)?;
        }
        if options.version == Version::V5 && !options.clean_session {
            session.keep_session();
        }
        Ok(session)
    }

    /// Sets the client's options and callbacks.
    fn set_up(&mut self, no_delay: bool) {
        let (client, version) = (
            self.client,
            match self.version {
                // The protocol levels in CONNECT (MQTT 3.1.1 and 5, section 3.1.2.2).
                Version::V311 => 4,
                Version::V5 => 5,
            },
        );
        // SAFETY: this struct owns the client; the callbacks have the expected signatures.
        unsafe {
            ffi::mosquitto_int_option(client, ffi::OPT_PROTOCOL_VERSION, version);
            // The maximum, which is also the standard's default. With libmosquitto's default of 20
            // it disconnects from brokers that send more after a restart, and never recovers.
            ffi::mosquitto_int_option(client, ffi::OPT_RECEIVE_MAXIMUM, 65_535);
            if no_delay {
                ffi::mosquitto_int_option(client, ffi::OPT_TCP_NODELAY, 1);
            }
            ffi::mosquitto_connect_with_flags_callback_set(client, on_connect);
            ffi::mosquitto_disconnect_callback_set(client, on_disconnect);
            ffi::mosquitto_publish_v5_callback_set(client, on_publish);
            ffi::mosquitto_subscribe_callback_set(client, on_subscribe);
            ffi::mosquitto_message_callback_set(client, on_message);
            ffi::mosquitto_log_callback_set(client, on_log);
        }
    }

    fn tls(&mut self, tls: &Tls) -> Result<(), Error> {
        let file = |path: &Path| {
            CString::new(path.as_os_str().as_bytes())
                .map_err(|_| Error::new("use a path with a zero byte", path.display()))
        };
        let optional = |path: &Option<PathBuf>| path.as_deref().map(file).transpose();
        let (ca, cert, key) = (file(&tls.ca)?, optional(&tls.cert)?, optional(&tls.key)?);
        let pointer =
            |path: &Option<CString>| path.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: the strings outlive the call, which copies them.
        let code = unsafe {
            ffi::mosquitto_tls_set(
                self.client,
                ca.as_ptr(),
                ptr::null(),
                pointer(&cert),
                pointer(&key),
                None,
            )
        };
        let operation = format!("use the TLS files, starting with {}", tls.ca.display());
        self.check(&operation, code)
    }

    /// Requests a session that outlives its connection. In MQTT 5 this is a CONNECT property,
    /// which libmosquitto accepts only in its blocking connect. So this calls the blocking connect
    /// with an address without a listener, which fails at once; libmosquitto keeps the property
    /// for later connects.
    fn keep_session(&mut self) {
        let mut list = ptr::null_mut();
        // SAFETY: the list is created, copied and freed here; the address is static.
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
        // The failure of this attempt is not the end of a connection.
        self.take();
    }

    /// Starts to connect.
    ///
    /// # Errors
    /// libmosquitto's code, if it fails at once.
    pub fn connect(&mut self) -> Result<(), c_int> {
        // SAFETY: the string outlives the call, which copies it.
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

    /// Disconnects, if connected.
    pub fn disconnect(&mut self) {
        // SAFETY: this struct owns the client.
        unsafe {
            ffi::mosquitto_disconnect(self.client);
        }
    }

    /// Subscribes to `topic`.
    ///
    /// # Errors
    /// libmosquitto rejects it.
    pub fn subscribe(&mut self, topic: &str, qos: u8) -> Result<(), Error> {
        let name = text(topic)?;
        // SAFETY: the string outlives the call.
        let code = unsafe {
            ffi::mosquitto_subscribe(self.client, ptr::null_mut(), name.as_ptr(), c_int::from(qos))
        };
        match code {
            // The caller subscribes again after the next connect.
            ffi::NO_CONN => Ok(()),
            code => self.check(&format!("subscribe to {topic}"), code),
        }
    }

    /// Publishes a message and returns its identifier in the session. Without a connection, a
    /// message of QoS 1 or 2 waits for the next one; a message of QoS 0 is lost.
    ///
    /// # Errors
    /// libmosquitto rejects it for another reason.
    pub fn publish(&mut self, topic: &CStr, payload: &[u8], qos: u8) -> Result<c_int, Error> {
        let mut mid = 0;
        // SAFETY: topic and payload outlive the call, which copies them.
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
        // A lost connection is not an error here; it has a separate event.
        if code != ffi::SUCCESS && self.descriptor().is_some() && code != ffi::NO_CONN {
            self.check("publish", code)?;
        }
        Ok(mid)
    }

    /// Lets libmosquitto read and write, as far as a poll of its socket has returned `revents`.
    pub fn transfer(&mut self, revents: libc::c_short) {
        if revents & (libc::POLLIN | libc::POLLHUP | libc::POLLERR) != 0 {
            self.read();
        }
        if revents & libc::POLLOUT != 0 && self.descriptor().is_some() {
            self.write();
            self.continue_handshake();
        }
    }

    /// Waits until the socket is ready or `other` is readable, for at most `timeout_ms`, and
    /// transfers data.
    pub fn turn(&mut self, other: BorrowedFd<'_>, timeout_ms: u16) {
        let output = if self.has_output() { libc::POLLOUT } else { 0 };
        let entry = |fd, events| libc::pollfd { fd, events, revents: 0 };
        let fd = self.descriptor().unwrap_or(-1);
        let mut set = [entry(fd, libc::POLLIN | output), entry(other.as_raw_fd(), libc::POLLIN)];
        // SAFETY: two entries, which outlive the call.
        unsafe { libc::poll(set.as_mut_ptr(), 2, c_int::from(timeout_ms)) };
        self.transfer(set[0].revents);
    }

    fn read(&mut self) {
        // SAFETY: this struct owns the client.
        let code = unsafe { ffi::mosquitto_loop_read(self.client, 1) };
        self.record_close(code);
    }

    /// Writes buffered data.
    pub fn write(&mut self) {
        // SAFETY: this struct owns the client.
        let code = unsafe { ffi::mosquitto_loop_write(self.client, 1) };
        self.record_close(code);
    }

    /// Continues the TLS handshake, which libmosquitto does when it reads. Call it when the socket
    /// is writable, because at first there is nothing to read.
    pub fn continue_handshake(&mut self) {
        if self.secure && self.descriptor().is_some() {
            self.read();
        }
    }

    /// Sends a keep-alive if it is due; call it regularly.
    pub fn check_keep_alive(&mut self) {
        // SAFETY: this struct owns the client.
        let code = unsafe { ffi::mosquitto_loop_misc(self.client) };
        if self.descriptor().is_none() {
            self.record_close(code);
        }
    }

    /// Records the end of a connection without a callback: one that failed before it was complete,
    /// for example in the TLS handshake.
    fn record_close(&mut self, code: c_int) {
        // SAFETY: callbacks run only within a libmosquitto call.
        let events = unsafe { &mut (*self.inbox).events };
        let recorded = events.iter().any(|event| matches!(event, SessionEvent::Closed(_)));
        if code != ffi::SUCCESS && !recorded {
            events.push(SessionEvent::Closed(code));
        }
    }

    /// The descriptor of the connection, if there is one.
    pub fn descriptor(&self) -> Option<RawFd> {
        // SAFETY: this struct owns the client.
        let fd = unsafe { ffi::mosquitto_socket(self.client) };
        (fd >= 0).then_some(fd)
    }

    /// Whether data waits to be written.
    pub fn has_output(&self) -> bool {
        // SAFETY: this struct owns the client.
        unsafe { ffi::mosquitto_want_write(self.client) }
    }

    /// Takes all events since the last call.
    pub fn take(&mut self) -> Vec<SessionEvent> {
        // SAFETY: callbacks run only within a libmosquitto call.
        unsafe { std::mem::take(&mut (*self.inbox).events) }
    }

    /// Text of a CONNACK or reason code.
    pub fn answer(&self, code: c_int) -> String {
        // SAFETY: both return static strings.
        let text = unsafe {
            CStr::from_ptr(match self.version {
                Version::V311 => ffi::mosquitto_connack_string(code),
                Version::V5 => ffi::mosquitto_reason_string(code),
            })
        };
        format!("{} (code {code})", text.to_string_lossy().trim_end_matches('.'))
    }

    /// Text of a libmosquitto code, with the last error it logged.
    pub fn reason(&mut self, code: c_int) -> String {
        // First, before another call changes it.
        let system = std::io::Error::last_os_error();
        // SAFETY: returns a static string.
        let text = unsafe { CStr::from_ptr(ffi::mosquitto_strerror(code)) };
        let text = match code {
            ffi::ERRNO => system.to_string(),
            _ => text.to_string_lossy().trim_end_matches('.').to_owned(),
        };
        // SAFETY: callbacks run only within a libmosquitto call.
        let last_log = unsafe { std::mem::take(&mut (*self.inbox).last_log) };
        if last_log.is_empty() { text } else { format!("{text} ({last_log})") }
    }

    fn check(&mut self, operation: &str, code: c_int) -> Result<(), Error> {
        if code == ffi::SUCCESS { Ok(()) } else { Err(self.error(operation, code)) }
    }

    fn error(&mut self, operation: &str, code: c_int) -> Error {
        Error::new(operation, self.reason(code))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: `new` created both and nothing uses them later; the client is destroyed first,
        // because its callbacks write to the inbox.
        unsafe {
            if !self.client.is_null() {
                ffi::mosquitto_destroy(self.client);
            }
            drop(Box::from_raw(self.inbox));
        }
    }
}

fn text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::new("use a text with a zero byte", text))
}
