//! Safe wrappers of libcoap's context and sessions.

use super::callbacks::{Inbox, Respond, SessionEvent, on_event, on_nack, on_request, on_response};
use super::ffi;
use super::security::{Credentials, IDENTITY, Security, bytes, on_name, text};
use crate::error::Error;
use crate::time::Nanos;
use coap::{Block, code, number};
use std::ffi::{CStr, c_int};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;
use std::ptr;

/// A libcoap context. Use it from one thread.
pub struct Stack {
    context: *mut ffi::Context,
    inbox: *mut Inbox,
    /// Data that the context points to.
    credentials: Option<Box<Credentials>>,
}

impl Stack {
    /// A context without sessions.
    ///
    /// # Errors
    /// libcoap has no memory or no descriptors left.
    pub fn new() -> Result<Self, Error> {
        let inbox = Box::into_raw(Box::<Inbox>::default());
        // SAFETY: coap_startup may be called repeatedly; the inbox outlives the context; the
        // callbacks have the expected signatures.
        let context = unsafe {
            ffi::coap_startup();
            ffi::coap_set_log_level(ffi::LOG_ERRORS - 1);
            ffi::coap_dtls_set_log_level(ffi::LOG_ERRORS - 1);
            let context = ffi::coap_new_context(ptr::null());
            if !context.is_null() {
                ffi::coap_set_app_data(context, inbox.cast());
                // This code, not libcoap, handles blocks.
                ffi::coap_context_set_block_mode(context, 0);
                ffi::coap_register_response_handler(context, on_response);
                ffi::coap_register_nack_handler(context, on_nack);
                ffi::coap_register_event_handler(context, on_event);
            }
            context
        };
        let stack = Self { context, inbox, credentials: None };
        if stack.context.is_null() || stack.descriptor() < 0 {
            let why = "no memory or no epoll descriptor; check `ulimit -n`";
            return Err(Error::protocol("start libcoap", why));
        }
        Ok(stack)
    }

    /// A descriptor that is readable when libcoap has work to do, I/O or timers.
    pub fn descriptor(&self) -> RawFd {
        // SAFETY: this struct owns the context.
        unsafe { ffi::coap_context_get_coap_fd(self.context) }
    }

    /// Lets libcoap process pending I/O and timers, without blocking.
    pub fn process(&mut self) {
        // SAFETY: this struct owns the context; callbacks run only within this call.
        unsafe {
            ffi::coap_io_process(self.context, ffi::NO_WAIT);
        }
    }

    /// Takes all events since the last call.
    pub fn take(&mut self) -> Vec<SessionEvent> {
        // SAFETY: callbacks run only within a libcoap call.
        unsafe { std::mem::take(&mut (*self.inbox).events) }
    }

    /// Whether all confirmable messages are acknowledged.
    pub fn is_idle(&mut self) -> bool {
        // SAFETY: this struct owns the context.
        unsafe { ffi::coap_can_exit(self.context) != 0 }
    }

    /// Sets leisure, ACK_TIMEOUT and MAX_RETRANSMIT of server sessions.
    pub fn set_times(&mut self, leisure: Nanos, ack_timeout: Nanos, max_retransmit: u32) {
        // SAFETY: callbacks run only within a libcoap call.
        unsafe {
            let times = (fixed(leisure), fixed(ack_timeout), max_retransmit as u16);
            (*self.inbox).times = Some(times);
        }
    }

    /// Opens a session with a server.
    ///
    /// # Errors
    /// libcoap rejects it, or the certificate files are unusable.
    pub fn session(
        &mut self,
        to: SocketAddrV4,
        proto: c_int,
        security: &Security,
    ) -> Result<Session, Error> {
        let (server, context) = (address(to), self.context);
        let credentials = &**self.credentials.insert(Credentials::of(security)?);
        // SAFETY: addresses and setups outlive the calls, which copy them; the data they point to
        // is kept until the next session.
        let session = unsafe {
            match (security, &credentials.files) {
                (Security::Key(_), _) => {
                    let mut setup = ffi::SharedKeyOfClient {
                        version: 1,
                        reserved: [0; 7],
                        on_hint: ptr::null(),
                        on_hint_data: ptr::null_mut(),
                        server_name: ptr::null(),
                        identity: bytes(IDENTITY),
                        key: bytes(&credentials.key),
                    };
                    let setup = &raw mut setup;
                    let server = &raw const server;
                    ffi::coap_new_client_session_psk2(context, ptr::null(), server, proto, setup)
                }
                (Security::Certificates(..), Some(files)) => {
                    let mut setup = files.setup(true);
                    setup.server_name = credentials.server_name.as_ptr();
                    setup.on_common_name = Some(on_name);
                    setup.on_common_name_data = ptr::from_ref(&credentials.name).cast_mut().cast();
                    let setup = &raw mut setup;
                    let server = &raw const server;
                    ffi::coap_new_client_session_pki(context, ptr::null(), server, proto, setup)
                }
                _ => ffi::coap_new_client_session(context, ptr::null(), &raw const server, proto),
            }
        };
        if session.is_null() {
            let why = std::io::Error::last_os_error();
            return Err(Error::protocol(&format!("open a CoAP session with {to}"), why));
        }
        Ok(Session { session })
    }

    /// Listens at `at` and answers requests with `respond`. With `group`, also joins that
    /// multicast group on that interface.
    ///
    /// # Errors
    /// The address is in use, or the certificate files are unusable.
    pub fn listen(
        &mut self,
        at: SocketAddrV4,
        proto: c_int,
        security: &Security,
        group: Option<(Ipv4Addr, &str)>,
        respond: Respond,
    ) -> Result<(), Error> {
        self.secure(security)?;
        // SAFETY: callbacks run only within a libcoap call; all pointers outlive the calls.
        unsafe {
            (*self.inbox).respond = Some(respond);
            let listen = address(at);
            if ffi::coap_new_endpoint(self.context, &raw const listen, proto).is_null() {
                let source = std::io::Error::last_os_error();
                let operation = format!("listen on {at} for CoAP");
                return Err(Error::Address { operation, source });
            }
            let resource = ffi::coap_resource_unknown_init2(on_request, ffi::HAS_MULTICAST);
            for method in [code::GET, code::POST, code::DELETE].map(c_int::from) {
                ffi::coap_register_request_handler(resource, method, on_request);
            }
            ffi::coap_add_resource(self.context, resource);
            if let Some((group, interface)) = group {
                let (name, interface) = (text(&group.to_string())?, text(interface)?);
                let joined = ffi::coap_join_mcast_group_intf(
                    self.context,
                    name.as_ptr(),
                    interface.as_ptr(),
                );
                if joined < 0 {
                    let why = std::io::Error::last_os_error();
                    return Err(Error::protocol(&format!("join the multicast group {group}"), why));
                }
            }
        }
        Ok(())
    }

    fn secure(&mut self, security: &Security) -> Result<(), Error> {
        let credentials = &**self.credentials.insert(Credentials::of(security)?);
        // SAFETY: setups outlive the calls, which copy them; the data they point to is kept as
        // long as the context.
        let accepted = unsafe {
            match (security, &credentials.files) {
                (Security::Key(_), _) => {
                    let mut setup = ffi::SharedKeyOfServer {
                        version: 1,
                        reserved: [0; 7],
                        on_identity: ptr::null(),
                        on_identity_data: ptr::null_mut(),
                        on_name: ptr::null(),
                        on_name_data: ptr::null_mut(),
                        hint: bytes(IDENTITY),
                        key: bytes(&credentials.key),
                    };
                    ffi::coap_context_set_psk2(self.context, &raw mut setup)
                }
                (Security::Certificates(..), Some(files)) => {
                    let setup = files.setup(false);
                    ffi::coap_context_set_pki(self.context, &raw const setup)
                }
                _ => 1,
            }
        };
        match accepted {
            0 => Err(Error::protocol(
                "set up CoAP keys and certificates",
                "libcoap rejects them; a server needs a certificate and its key, in PEM",
            )),
            _ => Ok(()),
        }
    }

    /// Creates an observable resource.
    pub fn observable(&mut self, path: &'static [u8], confirmable: bool) -> Observable {
        let flags = if confirmable { ffi::NOTIFY_CON } else { ffi::NOTIFY_NON_ALWAYS };
        let mut path = bytes(path);
        // SAFETY: the path is static, so it outlives the resource, which the context frees.
        unsafe {
            let resource = ffi::coap_resource_init(&raw mut path, flags);
            ffi::coap_register_request_handler(resource, 1, on_request);
            ffi::coap_resource_set_get_observable(resource, 1);
            ffi::coap_add_resource(self.context, resource);
            Observable(resource)
        }
    }

    /// Notifies all observers of a change; returns whether there are any.
    pub fn notify(&mut self, observable: &Observable) -> bool {
        // SAFETY: the resource belongs to the context, which is alive.
        unsafe { ffi::coap_resource_notify_observers(observable.0, ptr::null()) != 0 }
    }
}

/// A resource of a context.
pub struct Observable(*mut ffi::Resource);

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: `new` created both and nothing uses them later; the context is freed first,
        // because its callbacks write to the inbox.
        unsafe {
            if !self.context.is_null() {
                ffi::coap_free_context(self.context);
            }
            drop(Box::from_raw(self.inbox));
        }
    }
}

/// A session with a server. Drop it before its stack.
pub struct Session {
    session: *mut ffi::Session,
}

impl Session {
    /// Sets ACK_TIMEOUT and MAX_RETRANSMIT.
    pub fn set_times(&mut self, ack_timeout: Nanos, max_retransmit: u32) {
        // SAFETY: this struct owns the session.
        unsafe {
            ffi::coap_session_set_ack_timeout(self.session, fixed(ack_timeout));
            ffi::coap_session_set_max_retransmit(self.session, max_retransmit as u16);
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// libcoap cannot send it; the error is the system's.
    pub fn send(&mut self, request: &Outgoing<'_>) -> std::io::Result<()> {
        let kind = if request.confirmable { ffi::CON } else { ffi::NON };
        // SAFETY: the message is created, filled and handed over here; all pointers outlive the
        // calls, which copy the data.
        unsafe {
            let pdu = ffi::coap_new_pdu(kind, c_int::from(request.method), self.session);
            if pdu.is_null() {
                return Err(std::io::ErrorKind::OutOfMemory.into());
            }
            let mut fits = ffi::coap_add_token(pdu, request.token.len(), request.token.as_ptr());
            let mut option = |number: u16, value: &[u8]| {
                let put = ffi::coap_add_option(pdu, number, value.len(), value.as_ptr());
                fits = c_int::from(fits != 0 && put != 0);
            };
            if let Some(observe) = request.observe {
                option(number::OBSERVE, if observe == 0 { &[] } else { &[1] });
            }
            option(number::URI_PATH, request.path.as_bytes());
            if let Some(block) = request.block2 {
                option(number::BLOCK2, &block.encode());
            }
            if let Some(block) = request.block1 {
                option(number::BLOCK1, &block.encode());
            }
            if !request.payload.is_empty() {
                let (length, data) = (request.payload.len(), request.payload.as_ptr());
                fits = c_int::from(fits != 0 && ffi::coap_add_data(pdu, length, data) != 0);
            }
            if fits == 0 {
                ffi::coap_delete_pdu(pdu);
                return Err(std::io::Error::from_raw_os_error(libc::EMSGSIZE));
            }
            match ffi::coap_send(self.session, pdu) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: `Stack::session` created it and nothing uses it later.
        unsafe { ffi::coap_session_release(self.session) }
    }
}

/// A request to send.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    pub method: u8,
    pub confirmable: bool,
    pub token: &'a [u8],
    pub path: &'a str,
    pub observe: Option<u8>,
    pub block1: Option<Block>,
    pub block2: Option<Block>,
    pub payload: &'a [u8],
}

/// libcoap's version, and whether it supports Q-Block (RFC 9177).
pub fn version() -> (String, bool) {
    // SAFETY: the version is a static string; the symbol is only looked up.
    unsafe {
        let version = CStr::from_ptr(ffi::coap_package_version()).to_string_lossy().into_owned();
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"coap_q_block_is_supported".as_ptr());
        (version, !found.is_null())
    }
}

fn fixed(span: Nanos) -> ffi::Fixed {
    let ms = (span / 1_000_000).min(u64::from(u16::MAX) * 1000);
    ffi::Fixed { whole: (ms / 1000) as u16, thousandths: (ms % 1000) as u16 }
}

fn address(of: SocketAddrV4) -> ffi::Address {
    let sin = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: of.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*of.ip()).to_be() },
        sin_zero: [0; 8],
    };
    let size = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    ffi::Address { size, sin, rest: [0; 12] }
}
