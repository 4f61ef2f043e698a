//! Making a veth pair, by rtnetlink(7), from inside a node.

use crate::wire::Failure;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const VETH_INFO_PEER: u16 = 1;
const NESTED: u16 = 1 << 15;
/// Bytes of `struct nlmsghdr` and `struct ifinfomsg`.
const HEADER: usize = 16;
const LINK: usize = 16;

/// Makes an interface `name` with the number `number` here, and its other end
/// `peer` in the network namespace `there`.
pub(crate) fn make_veth(
    name: &str,
    number: u32,
    peer: &str,
    there: BorrowedFd<'_>,
) -> Result<(), Failure> {
    let failed = |errno| Failure::of(format!("make the veth pair {name} and {peer}"), errno);
    let mut message = Message::new(number);
    message.text(libc::IFLA_IFNAME, name);
    let info = message.begin(libc::IFLA_LINKINFO | NESTED);
    message.bytes(libc::IFLA_INFO_KIND, b"veth");
    let data = message.begin(libc::IFLA_INFO_DATA | NESTED);
    let other = message.begin(VETH_INFO_PEER | NESTED);
    message.0.extend([0; LINK]);
    message.text(libc::IFLA_IFNAME, peer);
    message.bytes(libc::IFLA_NET_NS_FD, &(there.as_raw_fd() as u32).to_ne_bytes());
    for begun in [other, data, info] {
        message.end(begun);
    }
    ask(&message.finish()).map_err(failed)
}

/// A request to make a link, as bytes.
struct Message(Vec<u8>);

impl Message {
    fn new(number: u32) -> Self {
        let mut bytes = vec![0; HEADER + LINK];
        let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        bytes[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
        bytes[HEADER + 4..HEADER + 8].copy_from_slice(&number.to_ne_bytes());
        Self(bytes)
    }

    fn begin(&mut self, kind: u16) -> usize {
        let place = self.0.len();
        self.0.extend([0, 0]);
        self.0.extend(kind.to_ne_bytes());
        place
    }

    fn end(&mut self, place: usize) {
        let len = (self.0.len() - place) as u16;
        self.0[place..place + 2].copy_from_slice(&len.to_ne_bytes());
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn bytes(&mut self, kind: u16, value: &[u8]) {
        let begun = self.begin(kind);
        self.0.extend(value);
        self.end(begun);
    }

    fn text(&mut self, kind: u16, value: &str) {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat());
    }

    fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

/// Sends a request and hears whether it was done.
fn ask(request: &[u8]) -> Result<(), Errno> {
    // SAFETY: a plain system call; a valid descriptor is owned at once.
    let socket = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE);
        OwnedFd::from_raw_fd(Errno::result(fd)?)
    };
    let fd = socket.as_raw_fd();
    // SAFETY: the request is readable for its whole length.
    Errno::result(unsafe { libc::send(fd, request.as_ptr().cast(), request.len(), 0) })?;
    let mut answer = [0u8; 4096];
    // SAFETY: the answer is writable for its whole length.
    let n = unsafe { libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0) };
    let n = Errno::result(n)? as usize;
    let error = answer[..n].get(HEADER..).and_then(|rest| rest.first_chunk());
    match error.map(|error| i32::from_ne_bytes(*error)) {
        Some(0) => Ok(()),
        Some(error) => Err(Errno::from_raw(-error)),
        None => Err(Errno::EBADMSG),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_nest_and_are_padded() {
        let mut message = Message::new(7);
        let outer = message.begin(18);
        message.bytes(1, b"veth!");
        message.end(outer);
        let bytes = message.finish();
        assert_eq!(bytes.len(), 32 + 4 + 12);
        assert_eq!(bytes[..4], 48u32.to_ne_bytes());
        assert_eq!(bytes[32..34], 16u16.to_ne_bytes(), "the padding within counts");
        assert_eq!(bytes[36..38], 9u16.to_ne_bytes(), "that at the end does not");
    }
}
