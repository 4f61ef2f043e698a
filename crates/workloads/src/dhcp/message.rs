//! Messages of a DHCPv6 client that requests one address (RFC 8415).

use std::net::Ipv6Addr;
use units::Span;

/// Message types (RFC 8415, section 7.3).
const SOLICIT: u8 = 1;
const ADVERTISE: u8 = 2;
const REQUEST: u8 = 3;
const REPLY: u8 = 7;
/// Option codes (RFC 8415, section 21; SOL_MAX_RT: section 21.24).
const CLIENT_ID: u16 = 1;
const SERVER_ID: u16 = 2;
const ADDRESSES: u16 = 3;
const ADDRESS: u16 = 5;
const OPTIONS: u16 = 6;
const ELAPSED: u16 = 8;
const STATUS: u16 = 13;
const RAPID_COMMIT: u16 = 14;
const MAX_SOLICIT_TIME: u16 = 82;
/// A DUID of a link address (section 11.4), of Ethernet.
const DUID_LINK: [u8; 4] = [0, 3, 0, 1];
/// The number of the client's only set of addresses (IAID).
const SET: [u8; 4] = [0, 0, 0, 1];

/// A client on one interface.
#[derive(Debug)]
pub(super) struct Client {
    mac: [u8; 6],
}

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It would give this address.
    Offer(Offer),
    /// It gives this address.
    Lease(Ipv6Addr),
    /// It gives no address, and why.
    Refusal(String),
}

/// An offered address, and the identifier of its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    server: Vec<u8>,
    address: Ipv6Addr,
}

impl Client {
    pub fn new(mac: [u8; 6]) -> Self {
        Self { mac }
    }

    /// The client's next message, so long after its first: a request for `offer`, or without one a
    /// solicitation, which a server may answer with a lease at once (rapid commit, section 18.2.1).
    pub fn message(&self, offer: Option<&Offer>, since: Span) -> Vec<u8> {
        let mut message = vec![if offer.is_some() { REQUEST } else { SOLICIT }];
        message.extend(self.transaction());
        let hundredths = u16::try_from(since.as_ns() / 10_000_000).unwrap_or(u16::MAX);
        option(&mut message, CLIENT_ID, &self.duid());
        option(&mut message, ELAPSED, &hundredths.to_be_bytes());
        // A client must request this option (section 21.24).
        option(&mut message, OPTIONS, &MAX_SOLICIT_TIME.to_be_bytes());
        // The number of the set, and no wish for the times T1 and T2.
        let mut set = [SET, [0; 4], [0; 4]].concat();
        match offer {
            None => option(&mut message, RAPID_COMMIT, &[]),
            Some(Offer { server, address }) => {
                option(&mut message, SERVER_ID, server);
                option(&mut set, ADDRESS, &[&address.octets()[..], &[0; 8]].concat());
            }
        }
        option(&mut message, ADDRESSES, &set);
        message
    }

    /// The answer in a message to this client; `None` for others, and for those without meaning.
    pub fn read(&self, message: &[u8]) -> Option<Answer> {
        let (head, rest) = message.split_at_checked(4)?;
        let is_own = head[1..] == self.transaction() && find(rest, CLIENT_ID)? == self.duid();
        if !is_own || ![ADVERTISE, REPLY].contains(&head[0]) {
            return None;
        }
        // Without one, the message is invalid (sections 16.3 and 16.10).
        let server = find(rest, SERVER_ID)?;
        let set = options(rest).find(|(code, value)| *code == ADDRESSES && value.starts_with(&SET));
        // Behind the number of the set and T1 and T2, four bytes each.
        let set = set.and_then(|(_, value)| value.get(12..)).unwrap_or_default();
        let of_address = find(set, ADDRESS).unwrap_or_default();
        // An option of an address begins with the address and two lifetimes (section 21.6).
        let own = of_address.get(24..).unwrap_or_default();
        let statuses = [rest, set, own].into_iter().filter_map(|within| find(within, STATUS));
        if let Some(status) = statuses.into_iter().find(|status| !status.starts_with(&[0, 0])) {
            return Some(Answer::Refusal(refusal(status)));
        }
        let (address, lifetimes) = of_address.split_first_chunk::<16>()?;
        let address = Ipv6Addr::from(*address);
        let lifetime = |at: usize| {
            let bytes = lifetimes.get(at..at + 4)?;
            Some(bytes.iter().fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte)))
        };
        let (preferred, valid) = (lifetime(0)?, lifetime(4)?);
        // Such an address must be discarded (sections 18.2.10.1 and 21.6).
        if valid == 0 || preferred > valid {
            return None;
        }
        // Another server may answer with an address that no node can have.
        if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
            return None;
        }
        Some(match head[0] {
            REPLY => Answer::Lease(address),
            _ => Answer::Offer(Offer { server: server.to_vec(), address }),
        })
    }

    /// The number of the exchange. It is not random, so that runs in virtual time repeat.
    fn transaction(&self) -> [u8; 3] {
        let [.., a, b, c] = self.mac;
        [a, b, c]
    }

    fn duid(&self) -> Vec<u8> {
        [&DUID_LINK[..], &self.mac].concat()
    }
}

/// The text of a status option.
fn refusal(status: &[u8]) -> String {
    // Section 21.13.
    let code = match status {
        [0, 2, ..] => "no addresses are available".to_owned(),
        [high, low, ..] => format!("status {}", u16::from_be_bytes([*high, *low])),
        _ => "a status without a code".to_owned(),
    };
    match String::from_utf8_lossy(status.get(2..).unwrap_or_default()).trim() {
        "" => code,
        words => format!("{code} ({words})"),
    }
}

/// Adds an option to a message.
fn option(message: &mut Vec<u8>, code: u16, value: &[u8]) {
    message.extend(code.to_be_bytes());
    message.extend((value.len() as u16).to_be_bytes());
    message.extend(value);
}

/// The complete options in `bytes`.
fn options(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_at_checked(4)?;
        let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (value, rest) = rest.split_at_checked(number(2).into())?;
        bytes = rest;
        Some((number(0), value))
    })
}

/// The value of the first option with this code.
fn find(bytes: &[u8], code: u16) -> Option<&[u8]> {
    options(bytes).find(|(own, _)| *own == code).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 10, 0, 0, 7];

    /// A server's message with the status of the set and an address in it.
    fn answer(kind: u8, status: Option<&[u8]>, address: Option<&str>) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 7];
        option(&mut message, SERVER_ID, b"server");
        option(&mut message, CLIENT_ID, &[0, 3, 0, 1, 2, 0, 10, 0, 0, 7]);
        let mut set = vec![0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 9];
        if let Some(address) = address {
            let address: Ipv6Addr = address.parse().unwrap();
            option(&mut set, ADDRESS, &[&address.octets()[..], &[255; 8]].concat());
        }
        if let Some(status) = status {
            option(&mut set, STATUS, status);
        }
        option(&mut message, ADDRESSES, &set);
        message
    }

    #[test]
    fn a_solicitation_asks_for_one_address_at_once() {
        let message = Client::new(MAC).message(None, Span::from_ns(1_250_000_000));
        let expected = [
            &[1, 0, 0, 7][..],
            &[0, 1, 0, 10, 0, 3, 0, 1, 2, 0, 10, 0, 0, 7],
            &[0, 8, 0, 2, 0, 125],
            &[0, 6, 0, 2, 0, 82],
            &[0, 14, 0, 0],
            &[0, 3, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(message, expected.concat());
    }

    #[test]
    fn a_lease_comes_at_once_or_after_an_offer() {
        let client = Client::new(MAC);
        let address: Ipv6Addr = "fd00::7".parse().unwrap();
        let lease = client.read(&answer(REPLY, Some(&[0, 0]), Some("fd00::7")));
        assert_eq!(lease, Some(Answer::Lease(address)));
        let Some(Answer::Offer(offer)) = client.read(&answer(ADVERTISE, None, Some("fd00::7")))
        else {
            panic!("an offer");
        };
        let request = client.message(Some(&offer), Span::ZERO);
        assert_eq!(request[0], REQUEST);
        assert_eq!(find(&request[4..], SERVER_ID), Some(&b"server"[..]));
        assert_eq!(find(&request[4..], RAPID_COMMIT), None);
        let set = find(&request[4..], ADDRESSES).unwrap();
        assert_eq!(find(&set[12..], ADDRESS).unwrap()[..16], address.octets());
    }

    #[test]
    fn a_refusal_has_its_reason() {
        let client = Client::new(MAC);
        for (status, text) in [
            (&b"\0\x02"[..], "no addresses are available"),
            (b"\0\x02address unavailable", "no addresses are available (address unavailable)"),
            (b"\0\x05", "status 5"),
            (b"\0", "a status without a code"),
        ] {
            let refusal = client.read(&answer(REPLY, Some(status), None));
            assert_eq!(refusal, Some(Answer::Refusal(text.to_owned())));
        }
    }

    #[test]
    fn other_and_broken_messages_are_ignored() {
        let client = Client::new(MAC);
        let good = answer(REPLY, None, Some("fd00::7"));
        for end in 0..good.len() {
            assert_eq!(client.read(&good[..end]), None, "cut after {end} bytes");
        }
        // Any byte may be another: no panic.
        for at in 0..good.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = value;
                let _ = client.read(&bad);
            }
        }
        assert_eq!(Client::new([2, 0, 11, 0, 0, 7]).read(&good), None, "another client's");
        assert_eq!(client.read(&answer(SOLICIT, None, Some("fd00::7"))), None);
        assert_eq!(client.read(&answer(REPLY, None, None)), None);
        for none in ["::", "::1", "ff02::1"] {
            assert_eq!(client.read(&answer(REPLY, None, Some(none))), None, "{none}");
        }
    }
    use proptest::prelude::*;

    proptest! {
        /// Options in any order and number, of which those of other clients and servers are none.
        #[test]
        fn an_answer_is_the_first_whole_option_of_its_kind(
            kind in prop::sample::select(&[REPLY, ADVERTISE][..]),
            before in prop::collection::vec((40..80_u16, prop::collection::vec(any::<u8>(), 0..9)), 0..4),
            after in prop::collection::vec(any::<u8>(), 0..9),
            last in any::<u16>(),
        ) {
            let whole = answer(kind, None, Some(&format!("fd00::{last:x}")));
            let mut message = whole[..4].to_vec();
            before.iter().for_each(|(code, value)| option(&mut message, *code, value));
            message.extend(&whole[4..]);
            message.extend(after);
            let expected = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
            let found = Client::new(MAC).read(&message);
            match kind {
                REPLY => prop_assert_eq!(found, Some(Answer::Lease(expected))),
                _ => {
                    let server = b"server".to_vec();
                    let offer = Offer { server, address: expected };
                    prop_assert_eq!(found, Some(Answer::Offer(offer)));
                }
            }
        }

        #[test]
        fn any_bytes_to_this_client_are_read_without_harm(rest in prop::collection::vec(any::<u8>(), 0..120)) {
            let client = Client::new(MAC);
            let mut message = vec![REPLY, 0, 0, 7];
            option(&mut message, CLIENT_ID, &client.duid());
            option(&mut message, SERVER_ID, b"s");
            message.extend(&rest);
            if let Some(Answer::Refusal(why)) = client.read(&message) {
                prop_assert!(!why.is_empty());
            }
        }
    }

    #[test]
    fn a_refusal_counts_more_than_an_address_and_success_less() {
        let client = Client::new(MAC);
        let both = answer(REPLY, Some(b"\0\x02full"), Some("fd00::7"));
        let refusal = Answer::Refusal("no addresses are available (full)".to_owned());
        assert_eq!(client.read(&both), Some(refusal));
        // Of the whole message, behind a success of the set.
        let mut message = answer(REPLY, Some(b"\0\0"), Some("fd00::7"));
        option(&mut message, STATUS, b"\0\x01");
        assert_eq!(client.read(&message), Some(Answer::Refusal("status 1".to_owned())));
    }

    #[test]
    fn a_late_message_has_the_longest_elapsed_time() {
        let message = Client::new(MAC).message(None, Span::from_s(100_000));
        assert_eq!(find(&message[4..], ELAPSED), Some(&[255, 255][..]));
    }

    /// RFC 8415, sections 18.2.10.1 and 21.6: an address whose valid lifetime is 0 is no longer
    /// valid, and one whose preferred lifetime is the longer one is discarded.
    #[test]
    fn an_address_that_is_not_valid_is_no_lease() {
        let client = Client::new(MAC);
        let with = |preferred: u32, valid: u32| {
            let mut message = answer(REPLY, None, Some("fd00::7"));
            let end = message.len();
            message[end - 8..end - 4].copy_from_slice(&preferred.to_be_bytes());
            message[end - 4..].copy_from_slice(&valid.to_be_bytes());
            client.read(&message)
        };
        let lease = Some(Answer::Lease("fd00::7".parse().unwrap()));
        assert_eq!(with(1_800, 3_600), lease);
        assert_eq!(with(3_600, 3_600), lease);
        assert_eq!(with(0, 1), lease, "deprecated, but valid");
        assert_eq!(with(u32::MAX, u32::MAX), lease, "without an end");
        assert_eq!(with(0, 0), None);
        assert_eq!(with(3_601, 3_600), None);
    }

    /// An IA Address option may have a status among its options (RFC 8415, section 21.6).
    #[test]
    fn a_status_within_the_address_is_a_refusal() {
        let mut message = answer(REPLY, None, None);
        message.truncate(message.len() - 12 - 4);
        let mut of_address = "fd00::7".parse::<Ipv6Addr>().unwrap().octets().to_vec();
        of_address.extend([255; 8]);
        option(&mut of_address, STATUS, b"\0\x04not on this link");
        let mut set = [SET, [0; 4], [0; 4]].concat();
        option(&mut set, ADDRESS, &of_address);
        option(&mut message, ADDRESSES, &set);
        let refusal = Answer::Refusal("status 4 (not on this link)".to_owned());
        assert_eq!(Client::new(MAC).read(&message), Some(refusal));
    }
}
