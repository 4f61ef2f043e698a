//! Safe wrappers of libcoap's context and sessions.

use super::callbacks::{
    Inbox, Respond, ServerTimes, SessionEvent, on_event, on_nack, on_request, on_response,
};
use super::ffi::{self, ShimAddress, shim};
use super::security::{Credentials, IDENTITY, Security, on_name, text};
use crate::error::Error;
use coap::{Block, code, number};
use std::cell::RefCell;
use std::ffi::{CStr, c_int};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::ptr;
use std::rc::Rc;
use units::Span;

/// What libcoap's pointers lead to, alive as long as the stack or a session of it.
struct Owned {
    context: *mut ffi::Context,
    inbox: *mut Inbox,
    /// Data that the context points to. The next session's or server's replaces it there.
    credentials: RefCell<Option<Box<Credentials>>>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `Stack::new` created both and nothing uses them later; the context is freed first,
        // because its callbacks write to the inbox and read the credentials.
        unsafe {
            if !self.context.is_null() {
                ffi::coap_free_context(self.context);
            }
            drop(Box::from_raw(self.inbox));
        }
    }
}

/// A libcoap context. Use it from one thread.
pub struct Stack {
    owned: Rc<Owned>,
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
                shim::thingbed_coap_set_up(context, on_response, on_nack, on_event);
            }
            context
        };
        let owned = Owned { context, inbox, credentials: RefCell::default() };
        let stack = Self { owned: Rc::new(owned) };
        if context.is_null() || stack.descriptor() < 0 {
            let why = "no memory or no epoll descriptor; check `ulimit -n`";
            return Err(Error::protocol("start libcoap", why));
        }
        Ok(stack)
    }

    /// A descriptor that is readable when libcoap has work to do, I/O or timers.
    pub fn descriptor(&self) -> RawFd {
        // SAFETY: this struct owns the context.
        unsafe { ffi::coap_context_get_coap_fd(self.owned.context) }
    }

    /// Lets libcoap process pending I/O and timers, without blocking.
    pub fn process(&mut self) {
        // SAFETY: this struct owns the context; callbacks run only within this call.
        unsafe {
            ffi::coap_io_process(self.owned.context, ffi::NO_WAIT);
        }
    }

    /// Takes all events since the last call.
    pub fn take(&mut self) -> Vec<SessionEvent> {
        // SAFETY: callbacks run only within a libcoap call.
        unsafe { std::mem::take(&mut (*self.owned.inbox).events) }
    }

    /// Whether all confirmable messages are acknowledged.
    pub fn is_idle(&mut self) -> bool {
        // SAFETY: this struct owns the context.
        unsafe { ffi::coap_can_exit(self.owned.context) != 0 }
    }

    /// Sets leisure, ACK_TIMEOUT and MAX_RETRANSMIT of server sessions.
    pub fn set_times(&mut self, leisure: Span, ack_timeout: Span, max_retransmit: u32) {
        // SAFETY: callbacks run only within a libcoap call.
        unsafe {
            (*self.owned.inbox).times = Some(ServerTimes {
                leisure_ms: ms(leisure),
                ack_timeout_ms: ms(ack_timeout),
                max_retransmit: retransmits(max_retransmit),
            });
        }
    }

    /// Opens a session with a server.
    ///
    /// # Errors
    /// libcoap rejects it, or the certificate files are unusable.
    pub fn session(
        &mut self,
        to: SocketAddr,
        proto: c_int,
        security: &Security,
    ) -> Result<Session, Error> {
        let (context, address) = (self.owned.context, ShimAddress::from(to));
        let of = &raw const address;
        let mut slot = self.owned.credentials.borrow_mut();
        let credentials = &**slot.insert(Credentials::of(security)?);
        // SAFETY: this struct owns the context; all pointers outlive the calls, and the name, to
        // which the context keeps a pointer, is kept until the next session.
        let session = unsafe {
            match (security, &credentials.files) {
                (Security::Key(_), _) => {
                    let (identity, key) = (IDENTITY, &credentials.key);
                    shim::thingbed_coap_session_psk(
                        context,
                        of,
                        proto,
                        identity.as_ptr(),
                        identity.len(),
                        key.as_ptr(),
                        key.len(),
                    )
                }
                (Security::Certificates(..), Some(files)) => shim::thingbed_coap_session_pki(
                    context,
                    of,
                    proto,
                    files.ca(),
                    files.cert(),
                    files.key(),
                    credentials.server_name.as_ptr(),
                    on_name,
                    ptr::from_ref(&credentials.name).cast_mut().cast(),
                ),
                _ => shim::thingbed_coap_session(context, of, proto),
            }
        };
        if session.is_null() {
            let why = std::io::Error::last_os_error();
            return Err(Error::protocol(&format!("open a CoAP session with {to}"), why));
        }
        Ok(Session { session, _owned: self.owned.clone() })
    }

    /// Listens at `at` and answers requests with `respond`. With `group`, also joins that
    /// multicast group on that interface.
    ///
    /// # Errors
    /// The address is in use, or the certificate files are unusable.
    pub fn listen(
        &mut self,
        at: SocketAddr,
        proto: c_int,
        security: &Security,
        group: Option<(IpAddr, &str)>,
        respond: Respond,
    ) -> Result<(), Error> {
        self.secure(security)?;
        // SAFETY: callbacks run only within a libcoap call; all pointers outlive the calls.
        unsafe {
            (*self.owned.inbox).respond = Some(respond);
            let address = ShimAddress::from(at);
            let of = &raw const address;
            if shim::thingbed_coap_listen(self.owned.context, of, proto).is_null() {
                let source = std::io::Error::last_os_error();
                let operation = format!("listen on {at} for CoAP");
                return Err(Error::Address { operation, source });
            }
            let resource = ffi::coap_resource_unknown_init2(on_request, ffi::HAS_MULTICAST);
            for method in [code::GET, code::POST, code::DELETE].map(c_int::from) {
                ffi::coap_register_request_handler(resource, method, on_request);
            }
            ffi::coap_add_resource(self.owned.context, resource);
            if let Some((group, interface)) = group {
                let (name, interface) = (text(&group.to_string())?, text(interface)?);
                let joined = ffi::coap_join_mcast_group_intf(
                    self.owned.context,
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
        let context = self.owned.context;
        let mut slot = self.owned.credentials.borrow_mut();
        let credentials = &**slot.insert(Credentials::of(security)?);
        // SAFETY: this struct owns the context; all pointers outlive the calls, and what they point
        // to is kept as long as the context.
        let accepted = unsafe {
            match (security, &credentials.files) {
                (Security::Key(_), _) => {
                    let (hint, key) = (IDENTITY, &credentials.key);
                    let (hint, hint_length) = (hint.as_ptr(), hint.len());
                    let (key, key_length) = (key.as_ptr(), key.len());
                    shim::thingbed_coap_serve_psk(context, hint, hint_length, key, key_length)
                }
                (Security::Certificates(..), Some(files)) => {
                    shim::thingbed_coap_serve_pki(context, files.cert(), files.key())
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
        // SAFETY: the path is static, so it outlives the resource, which the context frees.
        unsafe {
            let resource = shim::thingbed_coap_resource(path.as_ptr(), path.len(), flags);
            ffi::coap_register_request_handler(resource, 1, on_request);
            ffi::coap_resource_set_get_observable(resource, 1);
            ffi::coap_add_resource(self.owned.context, resource);
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

/// A session with a server.
pub struct Session {
    session: *mut ffi::Session,
    /// Freed after the session.
    _owned: Rc<Owned>,
}

impl Session {
    /// Sets ACK_TIMEOUT and MAX_RETRANSMIT.
    pub fn set_times(&mut self, ack_timeout: Span, max_retransmit: u32) {
        // SAFETY: this struct owns the session.
        unsafe {
            let retransmits = retransmits(max_retransmit);
            shim::thingbed_coap_set_times(self.session, ms(ack_timeout), retransmits);
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
            // In the order of their numbers: 6, 11, 23, 27.
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

/// Whole milliseconds; libcoap holds at most 65,535 s.
fn ms(span: Span) -> u32 {
    u32::try_from(span.as_ns() / 1_000_000).unwrap_or(u32::MAX)
}

fn retransmits(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another library of the same soname works too, as far as the shim's room reaches; but here
    /// both come from one package.
    #[test]
    fn the_library_is_the_one_of_the_header() {
        // SAFETY: both are static strings.
        let header = unsafe { CStr::from_ptr(shim::thingbed_coap_header()) };
        let (library, _) = version();
        assert!(library.ends_with(&*header.to_string_lossy()), "{library}, header {header:?}");
    }

    #[test]
    fn a_session_may_outlive_its_stack() {
        let mut stack = Stack::new().expect("libcoap");
        let to = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 9));
        let mut session = stack.session(to, ffi::UDP, &Security::None).expect("a session");
        drop(stack);
        session.set_times(Span::from_s(2), 4);
        drop(session);
    }

    #[test]
    fn a_key_and_a_count_beyond_what_libcoap_holds() {
        let mut stack = Stack::new().expect("libcoap");
        let to = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 9));
        let (key, longest) = (Security::Key(vec![7; 16]), Span::from_ns(u64::MAX));
        let mut session = stack.session(to, ffi::DTLS, &key).expect("a session");
        session.set_times(longest, u32::MAX);
        assert_eq!((ms(longest), retransmits(70_000)), (u32::MAX, u16::MAX));
    }
}
