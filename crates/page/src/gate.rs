//! What a request must have before it is served.
//!
//! Other pages in the user's browser can send requests to a loopback port, and other users of the
//! machine can connect to it. The first are stopped by the `Host` (a name that an attacker's DNS
//! points at 127.0.0.1) and by the `Origin`; all are stopped by the token. The token is no cookie: browsers
//! send cookies of 127.0.0.1 to all ports, also to those of other users.

use crate::app::App;
use crate::assets::is_asset;
use crate::connections::Known;
use crate::token::Token;
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN,
    REFERRER_POLICY, SEC_WEBSOCKET_PROTOCOL, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Styles may be inline: the terminal makes its own. Scripts may not.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      connect-src 'self'; img-src 'self' data:; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The start of the WebSocket protocol that carries the token: browsers let scripts set no header.
const PROTOCOL: &str = "token.";

/// Refuses requests that are not the page's own, and adds headers to all answers.
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let refused = refusal(request.headers(), path, &app.token);
    // Files of the page need no token, so a request for one proves nothing.
    if let (None, false, Some(known)) =
        (&refused, is_asset(path), request.extensions().get::<Known>())
    {
        known.set();
    }
    let mut response = match refused {
        Some((status, why)) => (status, why).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    let all: [(HeaderName, &'static str); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Why a request is refused; `None` if it is served.
fn refusal(headers: &HeaderMap, path: &str, token: &Token) -> Option<(StatusCode, &'static str)> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let Some(host) = text(HOST).filter(|host| is_loopback(host)) else {
        return Some((
            StatusCode::FORBIDDEN,
            "the page answers only at 127.0.0.1 and localhost; open the URL that Thingbed printed\n",
        ));
    };
    // Browsers name the origin of a script's request; other clients name none.
    if headers.contains_key(ORIGIN) && text(ORIGIN) != Some(&format!("http://{host}")) {
        return Some((StatusCode::FORBIDDEN, "another page sent this request\n"));
    }
    if is_asset(path) {
        return None;
    }
    let bearer = text(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    let protocols = text(SEC_WEBSOCKET_PROTOCOL).unwrap_or_default().split(',');
    let in_protocol = protocols.filter_map(|name| name.trim().strip_prefix(PROTOCOL)).next();
    match bearer.or(in_protocol) {
        Some(given) if token.is(given) => None,
        _ => Some((
            StatusCode::UNAUTHORIZED,
            "the token is missing or wrong; it is in the URL that Thingbed printed\n",
        )),
    }
}

/// Whether a `Host` names this machine itself, with any port: a forwarded port has another number.
fn is_loopback(host: &str) -> bool {
    // An IPv6 address without a port has colons, too.
    let (name, port) = match host.rfind(':') {
        Some(colon) if !host.ends_with(']') => (&host[..colon], Some(&host[colon + 1..])),
        _ => (host, None),
    };
    let port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    port && ["127.0.0.1", "localhost", "[::1]"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn status(headers: &[(&str, &str)], path: &str) -> Option<u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let token = Token::chosen(TOKEN.to_owned()).unwrap();
        refusal(&map, path, &token).map(|(status, _)| status.as_u16())
    }

    #[test]
    fn hosts_are_loopback_only() {
        for good in ["127.0.0.1:8080", "localhost:1", "localhost", "[::1]:80", "[::1]"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost:x",
            "",
            "10.0.0.1",
            "[::1",
            ":80",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }

    #[test]
    fn data_needs_the_token_and_assets_do_not() {
        let host = ("host", "127.0.0.1:8080");
        let bearer = format!("Bearer {TOKEN}");
        assert_eq!(status(&[host], "/"), None);
        for path in ["/api/events", "/metrics", "/api/request", "/page.css/..", "/nowhere"] {
            assert_eq!(status(&[host], path), Some(401), "{path}");
            assert_eq!(status(&[host, ("authorization", "Bearer x")], path), Some(401));
            assert_eq!(status(&[host, ("authorization", &bearer)], path), None, "{path}");
        }
        let protocol = format!("thingbed, token.{TOKEN}");
        assert_eq!(status(&[host, ("sec-websocket-protocol", &protocol)], "/api/terminal"), None);
    }

    #[test]
    fn other_hosts_and_origins_are_refused_even_with_the_token() {
        let bearer = format!("Bearer {TOKEN}");
        let with = |host: &str, origin: &str| {
            status(&[("host", host), ("origin", origin), ("authorization", &bearer)], "/metrics")
        };
        assert_eq!(with("127.0.0.1:80", "http://127.0.0.1:80"), None);
        assert_eq!(with("evil.example", "http://evil.example"), Some(403));
        for origin in ["http://127.0.0.1:81", "https://127.0.0.1:80", "null", "http://localhost:80"]
        {
            assert_eq!(with("127.0.0.1:80", origin), Some(403), "{origin}");
        }
        assert_eq!(status(&[("authorization", &bearer)], "/metrics"), Some(403), "no host");
    }
    use proptest::prelude::*;

    proptest! {
        /// Whatever else a request has: without the token, data is refused.
        #[test]
        fn no_header_replaces_the_token(
            path in "/[a-z/.?=#%0-9]{0,20}",
            host in prop::sample::select(&["127.0.0.1:80", "localhost", "[::1]:9", "evil", "127.0.0.1."][..]),
            authorization in prop::option::of("(Bearer |bearer |Basic )?[0-9a-f]{0,17}"),
            protocol in prop::option::of("(token[.:]?)?[0-9a-f]{0,17}(, token\\.[0-9a-f]{0,15})?"),
            cookie in prop::bool::ANY,
        ) {
            let mut headers = vec![("host", host)];
            headers.extend(authorization.as_deref().map(|text| ("authorization", text)));
            headers.extend(protocol.as_deref().map(|text| ("sec-websocket-protocol", text)));
            let token = format!("token={TOKEN}");
            headers.extend(cookie.then_some(("cookie", token.as_str())));
            prop_assume!(!headers.iter().any(|(name, text)| *name != "cookie" && text.contains(TOKEN)));
            let served = status(&headers, &path).is_none();
            prop_assert!(!served || is_asset(&path), "{:?} {}", headers, path);
        }

        #[test]
        fn a_token_is_itself_only(one in "[a-z]{16,20}", other in "[a-z]{0,20}", at in 0..16_usize) {
            let token = Token::chosen(one.clone()).unwrap();
            prop_assert_eq!(token.is(&other), one == other);
            let mut changed = one.clone().into_bytes();
            changed[at] ^= 1;
            prop_assert!(token.is(&one) && !token.is(&String::from_utf8(changed).unwrap()));
        }
    }
}
