//! The HTTP server that programs send their metrics to, with OpenTelemetry's SDKs.

use super::super::batch::{Batch, REPORTED};
use super::{Selection, values};
use crate::error::Error;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use record::event::CollectorSource;
use record::spec::OtlpSpec;
use std::convert::Infallible;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;

/// Largest export in bytes, also after decompression. SDKs send some kilobytes.
const LIMIT: usize = 4 << 20;
/// Most connections at once: programs may open any number.
const CONNECTIONS: usize = 32;
/// Longest wait for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Starts to listen; each export becomes a batch.
///
/// # Errors
/// The port is in use.
pub(in super::super) async fn serve(spec: &OtlpSpec, sender: Sender<Batch>) -> Result<(), Error> {
    let address = spec.address;
    let failed = |source| Error::Address {
        operation: format!("receive OpenTelemetry metrics on {address}"),
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let series = spec.series.iter().filter_map(|text| Selection::parse(text)).collect();
    let expected = Expected { series, wrong: AtomicUsize::new(0) };
    tokio::spawn(accept(listener, Arc::new(expected), sender));
    Ok(())
}

/// What a collector expects.
struct Expected {
    series: Vec<Selection>,
    /// Number of requests in another format.
    wrong: AtomicUsize,
}

async fn accept(listener: TcpListener, expected: Arc<Expected>, sender: Sender<Batch>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = connections.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // For example no descriptor is left.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (expected, sender) = (expected.clone(), sender.clone());
        tokio::spawn(async move {
            let answer = service_fn(|request| answer(request, &expected, &sender));
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            // A connection that breaks has no more exports.
            let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            drop(permit);
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    expected: &Expected,
    sender: &Sender<Batch>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if head.method != Method::POST {
        return Ok(response(StatusCode::METHOD_NOT_ALLOWED, None, "send exports by POST"));
    }
    // Programs may send traces and logs to the same endpoint; these are not kept.
    if path != "/v1/metrics" && path != "/v1/traces" && path != "/v1/logs" {
        return Ok(response(StatusCode::NOT_FOUND, None, "metrics belong to /v1/metrics"));
    }
    let Ok(body) = Limited::new(body, LIMIT).collect().await else {
        return Ok(response(StatusCode::PAYLOAD_TOO_LARGE, None, "an export has at most 4 MiB"));
    };
    let is_json = is(&head.headers, CONTENT_TYPE.as_str(), "application/json");
    let done = if is_json { "{}" } else { "" };
    if path == "/v1/metrics" {
        let export = match read(&body.to_bytes(), &head.headers, is_json) {
            Ok(request) => values(&request, &expected.series),
            Err(why) => {
                // A program may send them without end.
                if expected.wrong.fetch_add(1, Relaxed) < REPORTED {
                    println!("not an export of OpenTelemetry metrics: {why}");
                }
                return Ok(response(StatusCode::BAD_REQUEST, None, &why));
            }
        };
        let batch = Batch {
            time_ns: clock::now_ns(),
            source: CollectorSource::Opentelemetry,
            page: None,
            values: export.values,
            unknown: export.unknown.into_iter().collect(),
        };
        // Before the answer: what a program was told is kept.
        if sender.send(batch).await.is_err() {
            return Ok(response(StatusCode::SERVICE_UNAVAILABLE, None, "the run is over"));
        }
    }
    Ok(response(StatusCode::OK, Some(is_json), done))
}

/// Whether a header begins with a value, such as a content type that has a character set.
fn is(headers: &HeaderMap, name: &str, value: &str) -> bool {
    let own = headers.get(name).and_then(|own| own.to_str().ok()).unwrap_or_default();
    own.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(value)
}

/// Decodes an export.
fn read(
    body: &[u8],
    headers: &HeaderMap,
    is_json: bool,
) -> Result<ExportMetricsServiceRequest, String> {
    let mut unpacked = Vec::new();
    let bytes = if is(headers, CONTENT_ENCODING.as_str(), "gzip") {
        let limited = GzDecoder::new(body).take(LIMIT as u64 + 1).read_to_end(&mut unpacked);
        limited.map_err(|error| format!("gzip: {error}"))?;
        if unpacked.len() > LIMIT {
            return Err("gzip: more than 4 MiB after decompression".to_owned());
        }
        &unpacked
    } else {
        body
    };
    if is_json {
        return serde_json::from_slice(bytes).map_err(|error| format!("JSON: {error}"));
    }
    if !is(headers, CONTENT_TYPE.as_str(), "application/x-protobuf") {
        return Err("content-type must be application/x-protobuf or application/json".to_owned());
    }
    ExportMetricsServiceRequest::decode(bytes).map_err(|error| format!("protobuf: {error}"))
}

fn response(status: StatusCode, is_json: Option<bool>, text: &str) -> Response<Full<Bytes>> {
    let kind = match is_json {
        Some(true) => "application/json",
        Some(false) => "application/x-protobuf",
        None => "text/plain",
    };
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}
