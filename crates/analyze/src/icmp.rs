//! Names of ICMP messages, also of those that carry neighbour discovery, MLD and RPL.

/// The name of a message of ICMPv6 (`six`) or ICMP, by its type and code; `data` begins with
/// its header.
pub(crate) fn name(six: bool, data: &[u8]) -> &'static str {
    let (kind, code) = match data {
        [kind, code, ..] => (*kind, *code),
        _ => return "cut off",
    };
    match (six, kind) {
        (false, 0) | (true, 129) => "echo reply",
        (false, 8) | (true, 128) => "echo request",
        (false, 3) | (true, 1) => "destination unreachable",
        (false, 5) | (true, 137) => "redirect",
        (false, 11) | (true, 3) => "time exceeded",
        (false, 12) | (true, 4) => "parameter problem",
        (true, 2) => "packet too big",
        // RFC 2710 and RFC 3810.
        (true, 130) => "MLD query",
        (true, 131) | (true, 143) => "MLD report",
        (true, 132) => "MLD done",
        // RFC 4861.
        (true, 133) => "router solicitation",
        (true, 134) => "router advertisement",
        (true, 135) => "neighbour solicitation",
        (true, 136) => "neighbour advertisement",
        // RFC 6550, section 6; bit 7 of the code marks secured messages.
        (true, 155) => match code & 0x7f {
            0 => "RPL DIS",
            1 => "RPL DIO",
            2 => "RPL DAO",
            3 => "RPL DAO-ACK",
            0x0a => "RPL consistency check",
            _ => "RPL, other messages",
        },
        // RFC 6775.
        (true, 157) => "duplicate address request",
        (true, 158) => "duplicate address confirmation",
        // RFC 7731.
        (true, 159) => "MPL control",
        (true, _) => "ICMPv6, other messages",
        (false, _) => "ICMP, other messages",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_by_type_and_code() {
        let names = [(155, 0), (155, 1), (155, 2), (155, 0x83), (155, 9)]
            .map(|(kind, code)| name(true, &[kind, code, 0, 0]));
        let expected = ["RPL DIS", "RPL DIO", "RPL DAO", "RPL DAO-ACK", "RPL, other messages"];
        assert_eq!(names, expected);
        assert_eq!([name(false, &[8, 0]), name(true, &[128, 0])], ["echo request"; 2]);
        assert_eq!([name(false, &[155, 1]), name(true, &[8])], ["ICMP, other messages", "cut off"]);
    }
}
