//! OTLP over HTTP: protobuf or JSON in the body of a request.

use super::export::{Body, Exports, LIMIT, OVER, TOO_LARGE, gunzip, is};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use std::borrow::Cow;

/// Answers a request.
pub(super) async fn answer(request: Request<Incoming>, exports: &Exports) -> Response<Body> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if head.method != Method::POST {
        return response(StatusCode::METHOD_NOT_ALLOWED, None, "send exports by POST");
    }
    // Programs may send traces and logs to the same endpoint; these are not kept.
    if path != "/v1/metrics" && path != "/v1/traces" && path != "/v1/logs" {
        return response(StatusCode::NOT_FOUND, None, "metrics belong to /v1/metrics");
    }
    let Ok(body) = Limited::new(body, LIMIT).collect().await else {
        return response(StatusCode::PAYLOAD_TOO_LARGE, None, TOO_LARGE);
    };
    let is_json = is(&head.headers, CONTENT_TYPE.as_str(), "application/json");
    let done = if is_json { "{}" } else { "" };
    if path == "/v1/metrics" {
        match read(&body.to_bytes(), &head.headers, is_json) {
            Ok(request) if exports.take(&request).await => {}
            Ok(_) => return response(StatusCode::SERVICE_UNAVAILABLE, None, OVER),
            Err(why) => {
                exports.log(&why);
                return response(StatusCode::BAD_REQUEST, None, &why);
            }
        }
    }
    response(StatusCode::OK, Some(is_json), done)
}

/// Decodes an export.
fn read(
    body: &[u8],
    headers: &HeaderMap,
    is_json: bool,
) -> Result<ExportMetricsServiceRequest, String> {
    let bytes = match is(headers, CONTENT_ENCODING.as_str(), "gzip") {
        true => Cow::Owned(gunzip(body)?),
        false => Cow::Borrowed(body),
    };
    if is_json {
        return serde_json::from_slice(&bytes).map_err(|error| format!("JSON: {error}"));
    }
    if !is(headers, CONTENT_TYPE.as_str(), "application/x-protobuf") {
        return Err("content-type must be application/x-protobuf or application/json".to_owned());
    }
    ExportMetricsServiceRequest::decode(&*bytes).map_err(|error| format!("protobuf: {error}"))
}

fn response(status: StatusCode, is_json: Option<bool>, text: &str) -> Response<Body> {
    let kind = match is_json {
        Some(true) => "application/json",
        Some(false) => "application/x-protobuf",
        None => "text/plain",
    };
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
