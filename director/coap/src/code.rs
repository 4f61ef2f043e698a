//! Codes of requests and responses: RFC 7252, section 12.1; RFC 7959, section 2.9; RFC 8132,
//! section 6.

/// 0.01.
pub const GET: u8 = 1;
/// 0.02.
pub const POST: u8 = 2;
/// 0.03.
pub const PUT: u8 = 3;
/// 0.04.
pub const DELETE: u8 = 4;
/// 0.05.
pub const FETCH: u8 = 5;
/// 0.06.
pub const PATCH: u8 = 6;
/// 0.07.
pub const IPATCH: u8 = 7;

/// 2.02 Deleted.
pub const DELETED: u8 = 0x42;
/// 2.04 Changed.
pub const CHANGED: u8 = 0x44;
/// 2.05 Content.
pub const CONTENT: u8 = 0x45;
/// 2.31 Continue.
pub const CONTINUE: u8 = 0x5f;
/// 4.00 Bad Request.
pub const BAD_REQUEST: u8 = 0x80;
/// 4.02 Bad Option.
pub const BAD_OPTION: u8 = 0x82;
/// 4.04 Not Found.
pub const NOT_FOUND: u8 = 0x84;
/// 4.05 Method Not Allowed.
pub const NOT_ALLOWED: u8 = 0x85;
/// 4.06 Not Acceptable.
pub const NOT_ACCEPTABLE: u8 = 0x86;
/// 4.08 Request Entity Incomplete.
pub const INCOMPLETE: u8 = 0x88;
/// 4.12 Precondition Failed.
pub const PRECONDITION_FAILED: u8 = 0x8c;
/// 4.13 Request Entity Too Large.
pub const TOO_LARGE: u8 = 0x8d;
/// 5.03 Service Unavailable.
pub const UNAVAILABLE: u8 = 0xa3;
/// 5.05 Proxying Not Supported.
pub const NO_PROXY: u8 = 0xa5;

/// A code in the standard's notation: 0x45 is 2.05.
pub fn text(code: u8) -> String {
    format!("{}.{:02}", code >> 5, code & 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_written_as_in_the_standard() {
        assert_eq!((text(CONTENT), text(NOT_FOUND)), ("2.05".to_owned(), "4.04".to_owned()));
    }
}
