//! libcoap's context and its sessions: safe calls.

use super::block::Block;
use super::callbacks::{Happened, Inbox, Respond, on_event, on_nack, on_request, on_response};
use super::ffi;
use super::security::{IDENTITY, Kept, Security, bytes, on_name, text};
use crate::clock::Nanos;
use crate::error::Error;
use std::ffi::{CStr, c_int};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;
use std::ptr;

/// A context of the library's. One thread uses it.
pub struct Stack {
    context: *mut ffi::Context,
    inbox: *mut Inbox,
    /// What the context has pointers to.
    kept: Option<Box<Kept>>,
}

impl Stack {
    /// A context without sessions.
    ///
    /// # Errors
    /// When the library has no memory or descriptors left.
    pub fn new() -> Result<Self, Error> {
        let inbox = Box::into_raw(Box::<Inbox>::default());
        // SAFETY: the library may be started often; the inbox lives until after the
        // context is freed; callbacks keep to their signatures.
        let context = unsafe {
            ffi::coap_startup();
            ffi::coap_set_log_level(ffi::LOG_ERRORS - 1);
            ffi::coap_dtls_set_log_level(ffi::LOG_ERRORS - 1);
            let context = ffi::coap_new_context(ptr::null());
            if !context.is_null() {
                ffi::coap_set_app_data(context, inbox.cast());
                // Blocks are told apart here, and so are made here.
                ffi::coap_context_set_block_mode(context, 0);
                ffi::coap_register_response_handler(context, on_response);
                ffi::coap_register_nack_handler(context, on_nack);
                ffi::coap_register_event_handler(context, on_event);
            }
            context
        };
        let stack = Self { context, inbox, kept: None };
        if stack.context.is_null() || stack.descriptor() < 0 {
            let why = "it has no memory or no epoll; is the limit of open files reached?";
            return Err(Error::protocol("start libcoap", why));
        }
        Ok(stack)
    }

    /// Readable when the library has something to do: frames, and timers too.
    pub fn descriptor(&self) -> RawFd {
        // SAFETY: the context is ours.
        unsafe { ffi::coap_context_get_coap_fd(self.context) }
    }

    /// Lets the library do what there is to do.
    pub fn process(&mut self) {
        // SAFETY: the context is ours; callbacks run within this call alone.
        unsafe {
            ffi::coap_io_process(self.context, ffi::NO_WAIT);
        }
    }

    /// All that happened since the last time.
    pub fn take(&mut self) -> Vec<Happened> {
        // SAFETY: no callback runs but within a call of the library.
        unsafe { std::mem::take(&mut (*self.inbox).happened) }
    }

    /// Whether all that was sent is acknowledged, where it asks for that.
    pub fn is_idle(&mut self) -> bool {
        // SAFETY: the context is ours.
        unsafe { ffi::coap_can_exit(self.context) != 0 }
    }

    /// Has sessions of a server use these times: leisure, time for an acknowledgement,
    /// times sent again.
    pub fn set_times(&mut self, leisure: Nanos, ack_timeout: Nanos, max_retransmit: u32) {
        // SAFETY: no callback runs but within a call of the library.
        unsafe {
            let times = (fixed(leisure), fixed(ack_timeout), max_retransmit as u16);
            (*self.inbox).times = Some(times);
        }
    }

    /// Begins a session with a server.
    ///
    /// # Errors
    /// When the library refuses it, or files for certificates cannot be used.
    pub fn session(
        &mut self,
        to: SocketAddrV4,
        proto: c_int,
        security: &Security,
    ) -> Result<Session, Error> {
        let (server, context) = (address(to), self.context);
        let kept = &**self.kept.insert(Kept::of(security)?);
        // SAFETY: addresses and setups live over the calls, which copy them; what those
        // point to is kept until there is a session after this.
        let session = unsafe {
            match (security, &kept.files) {
                (Security::Key(_), _) => {
                    let mut setup = ffi::SharedKeyOfClient {
                        version: 1,
                        reserved: [0; 7],
                        on_hint: ptr::null(),
                        on_hint_data: ptr::null_mut(),
                        server_name: ptr::null(),
                        identity: bytes(IDENTITY),
                        key: bytes(&kept.key),
                    };
                    let setup = &raw mut setup;
                    let server = &raw const server;
                    ffi::coap_new_client_session_psk2(context, ptr::null(), server, proto, setup)
                }
                (Security::Certificates(..), Some(files)) => {
                    let mut setup = files.setup(true);
                    setup.server_name = kept.server_name.as_ptr();
                    setup.on_common_name = Some(on_name);
                    setup.on_common_name_data = ptr::from_ref(&kept.name).cast_mut().cast();
                    let setup = &raw mut setup;
                    let server = &raw const server;
                    ffi::coap_new_client_session_pki(context, ptr::null(), server, proto, setup)
                }
                _ => ffi::coap_new_client_session(context, ptr::null(), &raw const server, proto),
            }
        };
        if session.is_null() {
            let why = std::io::Error::last_os_error();
            return Err(Error::protocol(&format!("begin a CoAP session with {to}"), why));
        }
        Ok(Session { session })
    }

    /// Listens, and has requests answered by `respond`; on multicast too if a group
    /// and an interface are named. With `observed`, there is a resource of that path
    /// that may be observed.
    ///
    /// # Errors
    /// When the address is taken, or files for certificates cannot be used.
    pub fn listen(
        &mut self,
        at: SocketAddrV4,
        proto: c_int,
        security: &Security,
        group: Option<(Ipv4Addr, &str)>,
        respond: Respond,
    ) -> Result<(), Error> {
        self.secure(security)?;
        // SAFETY: no callback runs but within a call of the library; all that is
        // pointed to lives over the calls.
        unsafe {
            (*self.inbox).respond = Some(respond);
            let listen = address(at);
            if ffi::coap_new_endpoint(self.context, &raw const listen, proto).is_null() {
                let source = std::io::Error::last_os_error();
                let tried = format!("listen on {at} for CoAP");
                return Err(Error::Address { tried, source });
            }
            let resource = ffi::coap_resource_unknown_init2(on_request, ffi::HAS_MULTICAST);
            for method in [1, 2, 4] {
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
                    return Err(Error::protocol(&format!("join the group {group}"), why));
                }
            }
        }
        Ok(())
    }

    fn secure(&mut self, security: &Security) -> Result<(), Error> {
        let kept = &**self.kept.insert(Kept::of(security)?);
        // SAFETY: setups live over the calls, which copy them; what those point to is
        // kept as long as the context.
        let fine = unsafe {
            match (security, &kept.files) {
                (Security::Key(_), _) => {
                    let mut setup = ffi::SharedKeyOfServer {
                        version: 1,
                        reserved: [0; 7],
                        on_identity: ptr::null(),
                        on_identity_data: ptr::null_mut(),
                        on_name: ptr::null(),
                        on_name_data: ptr::null_mut(),
                        hint: bytes(IDENTITY),
                        key: bytes(&kept.key),
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
        match fine {
            0 => Err(Error::protocol(
                "set CoAP's keys and certificates up",
                "libcoap refuses them; a server needs a certificate and its key, in PEM",
            )),
            _ => Ok(()),
        }
    }

    /// Makes a resource that clients may observe.
    pub fn observable(&mut self, path: &'static [u8], confirmable: bool) -> Observable {
        let flags = if confirmable { ffi::NOTIFY_CON } else { ffi::NOTIFY_NON_ALWAYS };
        let mut path = bytes(path);
        // SAFETY: the path is constant, and so lives as long as the resource, which
        // the context frees.
        unsafe {
            let resource = ffi::coap_resource_init(&raw mut path, flags);
            ffi::coap_register_request_handler(resource, 1, on_request);
            ffi::coap_resource_set_get_observable(resource, 1);
            ffi::coap_add_resource(self.context, resource);
            Observable(resource)
        }
    }

    /// Tells all who observe that it has changed; says whether anybody does.
    pub fn notify(&mut self, observable: &Observable) -> bool {
        // SAFETY: the resource is the context's, which lives.
        unsafe { ffi::coap_resource_notify_observers(observable.0, ptr::null()) != 0 }
    }
}

/// A resource of a context's.
pub struct Observable(*mut ffi::Resource);

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: both were made by `new` and are not used after this; the context
        // goes first, since its callbacks write to the inbox.
        unsafe {
            if !self.context.is_null() {
                ffi::coap_free_context(self.context);
            }
            drop(Box::from_raw(self.inbox));
        }
    }
}

/// A session with a server. It must go before its stack does.
pub struct Session {
    session: *mut ffi::Session,
}

impl Session {
    /// How long a confirmable message waits at first, and how often it is sent again.
    pub fn set_times(&mut self, ack_timeout: Nanos, max_retransmit: u32) {
        // SAFETY: the session is ours.
        unsafe {
            ffi::coap_session_set_ack_timeout(self.session, fixed(ack_timeout));
            ffi::coap_session_set_max_retransmit(self.session, max_retransmit as u16);
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// When the library could not send it: with the kernel's word.
    pub fn send(&mut self, request: &Outgoing<'_>) -> std::io::Result<()> {
        let kind = if request.confirmable { ffi::CON } else { ffi::NON };
        // SAFETY: the message is made, filled and given away here; all that is pointed
        // to lives over the calls, which copy it.
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
                option(ffi::OBSERVE, if observe == 0 { &[] } else { &[1] });
            }
            option(ffi::URI_PATH, request.path.as_bytes());
            if let Some(block) = request.block2 {
                option(ffi::BLOCK2, &block.bytes());
            }
            if let Some(block) = request.block1 {
                option(ffi::BLOCK1, &block.bytes());
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
        // SAFETY: made by `Stack::session`, and not used after this.
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

/// The library's version, and whether it has Q-Block (RFC 9177).
pub fn version() -> (String, bool) {
    // SAFETY: both give constant texts; a function is only looked for.
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
