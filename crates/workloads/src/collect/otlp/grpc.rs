//! OTLP over gRPC: an export is one message of a call, as gRPC has them over HTTP/2
//! (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).

use super::export::{Body, Exports, LIMIT, OVER, TOO_LARGE, gunzip, is};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use std::borrow::Cow;

const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
/// Programs may send traces and logs to the same endpoint; these are not kept.
const OTHERS: [&str; 2] = [
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
];
/// Bytes before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The status of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    InvalidArgument = 3,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
}

/// Whether a request is a call of gRPC.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    is(headers, CONTENT_TYPE.as_str(), "application/grpc")
        || is(headers, CONTENT_TYPE.as_str(), "application/grpc+proto")
}

/// Answers a call.
pub(super) async fn answer(request: Request<Incoming>, exports: &Exports) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    let Ok(body) = Limited::new(body, LIMIT).collect().await else {
        return failed(Code::ResourceExhausted, TOO_LARGE);
    };
    if OTHERS.contains(&path) {
        return done();
    }
    if path != METRICS {
        return failed(Code::Unimplemented, "only exports of OpenTelemetry are known");
    }
    let is_gzip = is(&head.headers, "grpc-encoding", "gzip");
    match read(&body.to_bytes(), is_gzip) {
        Ok(request) if exports.take(&request).await => done(),
        Ok(_) => failed(Code::Unavailable, OVER),
        Err(why) => {
            exports.log(&why);
            failed(Code::InvalidArgument, &why)
        }
    }
}

/// Decodes the message of a call.
fn read(body: &[u8], is_gzip: bool) -> Result<ExportMetricsServiceRequest, String> {
    let wrong = || "gRPC: the call has not exactly one message".to_owned();
    let (prefix, message) = body.split_at_checked(PREFIX).ok_or_else(wrong)?;
    let length = prefix[1..].iter().fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    if length != message.len() {
        return Err(wrong());
    }
    let bytes = match (prefix[0], is_gzip) {
        (0, _) => Cow::Borrowed(message),
        (1, true) => Cow::Owned(gunzip(message)?),
        _ => return Err("gRPC: compression other than gzip".to_owned()),
    };
    ExportMetricsServiceRequest::decode(&*bytes).map_err(|error| format!("protobuf: {error}"))
}

/// An empty message, and the status after it.
fn done() -> Response<Body> {
    let trailers = async {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Some(Ok(trailers))
    };
    let body = Full::new(Bytes::from_static(&[0; PREFIX])).with_trailers(trailers);
    of_grpc(body.boxed())
}

/// A call that failed has its status in the header.
fn failed(code: Code, why: &str) -> Response<Body> {
    let mut response = of_grpc(Full::new(Bytes::new()).boxed());
    let headers = response.headers_mut();
    headers.insert("grpc-status", HeaderValue::from(code as u16));
    // Other characters would have to be escaped.
    let plain = |c: char| if (' '..='~').contains(&c) && c != '%' { c } else { '?' };
    if let Ok(text) = HeaderValue::from_str(&why.chars().map(plain).collect::<String>()) {
        headers.insert("grpc-message", text);
    }
    response
}

fn of_grpc(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
        [&[flag][..], &(message.len() as u32).to_be_bytes(), message].concat()
    }

    #[test]
    fn a_call_has_one_message() {
        let message = ExportMetricsServiceRequest::default().encode_to_vec();
        assert!(read(&framed(0, &message), false).is_ok());
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&message).unwrap();
        let packed = packed.finish().unwrap();
        assert!(read(&framed(1, &packed), true).is_ok());
        assert!(read(&framed(1, &packed), false).unwrap_err().contains("other than gzip"));
        for wrong in
            [&[][..], &[0; 4], &[0, 0, 0, 0, 9], &framed(0, b"ab")[..6], &[0, 255, 255, 255, 255]]
        {
            assert!(read(wrong, false).unwrap_err().contains("one message"), "{wrong:?}");
        }
        assert!(read(&framed(0, b"\xff\xff"), false).unwrap_err().contains("protobuf"));
    }

    #[test]
    fn a_failed_call_says_why_in_plain_characters() {
        let response = failed(Code::InvalidArgument, "50 % of \u{e9}\nit");
        assert_eq!(response.headers()["grpc-status"], "3");
        assert_eq!(response.headers()["grpc-message"], "50 ? of ??it");
    }
}
