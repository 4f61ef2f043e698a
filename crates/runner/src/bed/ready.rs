//! Checks from outside whether a node's program is ready.

use crate::bed::jobs::Files;
use crate::bed::output::BEGINNING;
use experiment::Ready;
use record::spec::CONSOLE_DONE;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Whether a program is ready; `pid` is its node's init.
pub(crate) fn is_ready(when: &Ready, pid: i32, files: &Files) -> bool {
    let bound = |kind: &str, port: u16, listening: bool| {
        // The tables of the node's network, not of the host's.
        let table = |name: String| fs::read_to_string(format!("/proc/{pid}/net/{name}"));
        // A socket of IPv6 may also take IPv4.
        [kind.to_owned(), format!("{kind}6")]
            .into_iter()
            .filter_map(|name| table(name).ok())
            .any(|sockets| has_port(&sockets, port, listening))
    };
    match when {
        Ready::Tcp(port) => bound("tcp", *port, true),
        Ready::Udp(port) => bound("udp", *port, false),
        Ready::Log(text) => contains(&files.out, text) || contains(&files.err, text),
        Ready::Console(text) => contains(&files.out, text),
        Ready::Steps => contains(&files.err, CONSOLE_DONE),
    }
}

/// Whether the beginning of a log contains `text`.
fn contains(log: &Path, text: &str) -> bool {
    beginning(log).is_ok_and(|answer| String::from_utf8_lossy(&answer).contains(text))
}

/// The beginning of a log, which stays whatever else the program prints.
fn beginning(log: &Path) -> io::Result<Vec<u8>> {
    let mut begin = Vec::new();
    File::open(log)?.take(BEGINNING).read_to_end(&mut begin)?;
    Ok(begin)
}

/// Whether a kernel table (`/proc/net/tcp`) has a socket with this local port.
fn has_port(sockets: &str, port: u16, listening: bool) -> bool {
    /// TCP_LISTEN, in the kernel's hexadecimal.
    const LISTEN: &str = "0A";
    // The first line has the names of the columns: sl, local_address, rem_address, st (proc(5)).
    sockets.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (local, state) = (words.next(), words.nth(1));
        let own = local.and_then(|local| u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok());
        own == Some(port) && (!listening || state == Some(LISTEN))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_is_found_and_a_connected_one_is_not() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
            0: 00000000:075B 00000000:0000 0A 00000000:00000000\n   \
            1: 0100007F:1F90 0100007F:9C40 01 00000000:00000000\n";
        assert!(has_port(table, 1883, true));
        assert!(!has_port(table, 8080, true));
        assert!(has_port(table, 8080, false));
        assert!(!has_port("", 1883, true));
    }
}
