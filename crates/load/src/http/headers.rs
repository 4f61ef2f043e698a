//! Headers that determine the length of a message and the reuse of the connection.

/// Whether a header of this name has `token` in its list (RFC 9110, section 5.6.1).
pub(crate) fn has_token(headers: &[httparse::Header], name: &str, token: &str) -> bool {
    let own = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    own.flat_map(|header| header.value.split(|byte| *byte == b','))
        .any(|value| value.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// The Content-Length, if present. Several values must be equal (RFC 9112, section 6.3).
pub(crate) fn content_length(headers: &[httparse::Header]) -> Result<Option<u64>, &'static str> {
    let bad = "a bad Content-Length";
    let mut found = None;
    let own = headers.iter().filter(|h| h.name.eq_ignore_ascii_case("content-length"));
    for value in own.flat_map(|header| header.value.split(|byte| *byte == b',')) {
        let digits = value.trim_ascii();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(bad);
        }
        let length: u64 =
            std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).ok_or(bad)?;
        if found.is_some_and(|found| found != length) {
            return Err(bad);
        }
        found = Some(length);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use httparse::Header;

    #[test]
    fn tokens_are_found_in_lists_and_in_any_case() {
        let headers = [
            Header { name: "Connection", value: b"foo , Close" },
            Header { name: "connection", value: b"keep-alive" },
        ];
        assert!(has_token(&headers, "connection", "close"));
        assert!(has_token(&headers, "CONNECTION", "Keep-Alive"));
        assert!(!has_token(&headers, "connection", "clos"));
        assert!(!has_token(&headers, "te", "close"));
    }

    #[test]
    fn lengths_must_agree() {
        let length = |values: &[&str]| {
            let header =
                |value: &&'static str| Header { name: "Content-Length", value: value.as_bytes() };
            let values: Vec<&'static str> =
                values.iter().map(|v| &*(*v).to_owned().leak()).collect();
            content_length(&values.iter().map(header).collect::<Vec<_>>())
        };
        assert_eq!(length(&[]), Ok(None));
        assert_eq!(length(&["5"]), Ok(Some(5)));
        assert_eq!(length(&["5", "5, 5"]), Ok(Some(5)));
        for bad in [&["5", "6"][..], &["5,6"], &[""], &["+5"], &["5 5"], &["0x5"]] {
            assert!(length(bad).is_err(), "{bad:?}");
        }
    }
}
