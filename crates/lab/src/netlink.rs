//! Messages to and from the kernel's network configuration, by rtnetlink(7).

use crate::failure::Failure;
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub(crate) const NESTED: u16 = 1 << 15;
const VETH_INFO_PEER: u16 = 1;
/// Bytes of `struct nlmsghdr` and `struct ifinfomsg`.
const HEADER: usize = 16;
const LINK: usize = 16;
/// Receive timeout in s: the kernel answers at once or never.
const RECEIVE_TIMEOUT_S: i64 = 5;

/// Creates an interface `name` here and its peer `peer` in the network namespace `there`; both have
/// the ifindex `number`.
pub(crate) fn make_veth(
    name: &str,
    number: u32,
    peer: &str,
    there: BorrowedFd<'_>,
) -> Result<(), Failure> {
    let failed = |errno| Failure::of(format!("create the veth pair {name} and {peer}"), errno);
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut link = [0; LINK];
    link[4..8].copy_from_slice(&number.to_ne_bytes());
    let mut message = Message::new(libc::RTM_NEWLINK, flags, &link);
    message.text(libc::IFLA_IFNAME, name);
    let info = message.begin(libc::IFLA_LINKINFO | NESTED);
    message.bytes(libc::IFLA_INFO_KIND, b"veth");
    let data = message.begin(libc::IFLA_INFO_DATA | NESTED);
    let other = message.begin(VETH_INFO_PEER | NESTED);
    message.plain(&link);
    message.text(libc::IFLA_IFNAME, peer);
    message.bytes(libc::IFLA_NET_NS_FD, &(there.as_raw_fd() as u32).to_ne_bytes());
    for begun in [other, data, info] {
        message.end(begun);
    }
    ask(&message.finish()).map(drop).map_err(failed)
}

/// Removes the interface with this ifindex from this process's network namespace.
pub(crate) fn remove(number: u32) -> Result<(), Errno> {
    let mut link = [0; LINK];
    link[4..8].copy_from_slice(&number.to_ne_bytes());
    ask(&Message::new(libc::RTM_DELLINK, libc::NLM_F_ACK, &link).finish()).map(drop)
}

/// A request, as bytes.
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// A message of this type (`RTM_...`), with the flags in addition to NLM_F_REQUEST and the
    /// header of its family, whose length is a multiple of 4 bytes.
    pub fn new(kind: u16, flags: libc::c_int, header: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        bytes.extend(header);
        Self(bytes)
    }

    /// Begins a nested attribute; `end` takes the return value.
    pub fn begin(&mut self, kind: u16) -> usize {
        let place = self.0.len();
        self.0.extend([0, 0]);
        self.0.extend(kind.to_ne_bytes());
        place
    }

    /// Ends an attribute: at most 65,535 bytes.
    pub fn end(&mut self, place: usize) {
        // The length does not include the padding, which the next attribute needs (netlink(7)).
        let len = (self.0.len() - place) as u16;
        self.0[place..place + 2].copy_from_slice(&len.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Adds plain bytes at the beginning of an attribute.
    pub fn plain(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Adds an attribute with this value.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        let begun = self.begin(kind);
        self.0.extend(value);
        self.end(begun);
    }

    /// Adds an attribute with this text.
    pub fn text(&mut self, kind: u16, value: &str) {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat());
    }

    /// Adds an attribute with a big-endian number, as netfilter requires.
    pub fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// The complete message.
    pub fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// Requests a change of, or data about, interfaces, addresses and routes.
pub(crate) fn ask(request: &[u8]) -> Result<Vec<u8>, Errno> {
    exchange(libc::NETLINK_ROUTE, request)
}

/// Sends a request to a netlink family of the kernel and returns its reply: empty for an
/// acknowledgement, else the data without the message's header.
pub(crate) fn exchange(family: libc::c_int, request: &[u8]) -> Result<Vec<u8>, Errno> {
    Socket::open(family)?.exchange(request)
}

/// A connection to a netlink family of the kernel.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// Wraps a socket that was opened elsewhere.
    pub fn of(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// The socket, to pass it on.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Opens a socket of the family (`NETLINK_...`).
    ///
    /// # Errors
    /// The kernel does not create the socket.
    pub fn open(family: libc::c_int) -> Result<Self, Errno> {
        // SAFETY: a plain system call; a valid descriptor is owned at once.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_NETLINK, kind, family);
            OwnedFd::from_raw_fd(Errno::result(fd)?)
        };
        setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(RECEIVE_TIMEOUT_S, 0))?;
        Ok(Self(socket))
    }

    /// Like [`exchange`].
    pub fn exchange(&self, request: &[u8]) -> Result<Vec<u8>, Errno> {
        let fd = self.0.as_raw_fd();
        // SAFETY: the request is readable for its whole length.
        Errno::result(unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), 0) })?;
        // An error is followed by the request, which may not fit and is not needed.
        let mut answer = [0u8; 8192];
        // SAFETY: the answer is writable for its whole length.
        let n = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
        parse_reply(&answer[..Errno::result(n)? as usize])
    }
}

/// Parses a message from the kernel.
fn parse_reply(message: &[u8]) -> Result<Vec<u8>, Errno> {
    let (header, rest) = message.split_at_checked(HEADER).ok_or(Errno::EBADMSG)?;
    // NLMSG_ERROR with 0 is an acknowledgement (netlink(7)).
    if u16::from_ne_bytes([header[4], header[5]]) != libc::NLMSG_ERROR as u16 {
        return Ok(rest.to_vec());
    }
    match rest.first_chunk().map(|error| i32::from_ne_bytes(*error)) {
        Some(0) => Ok(Vec::new()),
        Some(error) => Err(Errno::from_raw(error.wrapping_neg())),
        None => Err(Errno::EBADMSG),
    }
}

/// The value of the first attribute of a type.
pub(crate) fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let [a, b, c, d, ..] = attributes else { return None };
        let len = usize::from(u16::from_ne_bytes([*a, *b]));
        let found = u16::from_ne_bytes([*c, *d]) & !NESTED;
        let value = attributes.get(4..len)?;
        if found == kind {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_nest_and_are_padded() {
        let mut message = Message::new(16, 0, &[0; LINK]);
        let outer = message.begin(18);
        message.bytes(1, b"veth!");
        message.end(outer);
        let bytes = message.finish();
        assert_eq!(bytes.len(), 32 + 4 + 12);
        assert_eq!(bytes[..4], 48u32.to_ne_bytes());
        assert_eq!(bytes[32..34], 16u16.to_ne_bytes(), "the padding within counts");
        assert_eq!(bytes[36..38], 9u16.to_ne_bytes(), "that at the end does not");
    }

    #[test]
    fn attributes_are_found_again() {
        let mut message = Message::new(16, 0, &[]);
        message.bytes(1, b"veth!");
        let outer = message.begin(2 | NESTED);
        message.bytes(3, b"deep");
        message.end(outer);
        let bytes = message.finish();
        let all = &bytes[HEADER..];
        assert_eq!(find(all, 1), Some(&b"veth!"[..]));
        assert_eq!(find(all, 2).and_then(|nest| find(nest, 3)), Some(&b"deep"[..]));
        assert_eq!(find(all, 3), None);
        // Truncated anywhere, it is not an attribute and causes no panic.
        for end in 0..all.len() {
            let _ = find(&all[..end], 3);
        }
        assert_eq!(find(&[3, 0, 1, 0], 1), None, "shorter than itself");
    }

    #[test]
    fn an_error_is_told_from_an_answer() {
        let message = |kind: u16, rest: &[u8]| {
            let mut bytes = Message::new(kind, 0, rest).finish();
            bytes[6] = 0;
            parse_reply(&bytes)
        };
        assert_eq!(message(2, &0i32.to_ne_bytes()), Ok(Vec::new()));
        assert_eq!(message(2, &(-2i32).to_ne_bytes()), Err(Errno::ENOENT));
        assert_eq!(message(2, &[]), Err(Errno::EBADMSG));
        assert_eq!(message(36, &[7; 4]), Ok(vec![7; 4]));
        assert_eq!(parse_reply(&[0; 5]), Err(Errno::EBADMSG));
    }
}
