//! What both protocols do with an export.

use super::super::batch::{Batch, REPORTED};
use super::{Selection, values};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::combinators::BoxBody;
use hyper::header::HeaderMap;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use record::event::CollectorSource;
use std::convert::Infallible;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::mpsc::Sender;

/// Largest export in bytes, also after decompression. SDKs send some kilobytes.
pub(super) const LIMIT: usize = 4 << 20;
/// What a larger one is told.
pub(super) const TOO_LARGE: &str = "an export has at most 4 MiB";
/// What an export after the end of the run is told.
pub(super) const OVER: &str = "the run is over";

/// The body of an answer.
pub(super) type Body = BoxBody<Bytes, Infallible>;

/// Where exports go.
pub(super) struct Exports {
    pub series: Vec<Selection>,
    pub sender: Sender<Batch>,
    /// Number of requests in another format.
    pub wrong: AtomicUsize,
}

impl Exports {
    /// Keeps the values of an export; returns whether the run still takes any. What a program was told
    /// is kept, so this comes before the answer.
    pub async fn take(&self, request: &ExportMetricsServiceRequest) -> bool {
        let export = values(request, &self.series);
        let batch = Batch {
            time_ns: clock::now_ns(),
            source: CollectorSource::Opentelemetry,
            page: None,
            values: export.values,
            remarks: export.unknown.into_iter().collect(),
        };
        self.sender.send(batch).await.is_ok()
    }

    /// Logs a request in another format; a program may send them without end.
    pub fn log(&self, why: &str) {
        if self.wrong.fetch_add(1, Relaxed) < REPORTED {
            crate::log!("not an export of OpenTelemetry metrics: {why}");
        }
    }
}

/// Decompresses an export.
pub(super) fn gunzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut unpacked = Vec::new();
    // One byte more than allowed shows that there is more.
    let limited = GzDecoder::new(bytes).take(LIMIT as u64 + 1).read_to_end(&mut unpacked);
    limited.map_err(|error| format!("gzip: {error}"))?;
    match unpacked.len() > LIMIT {
        true => Err("gzip: more than 4 MiB after decompression".to_owned()),
        false => Ok(unpacked),
    }
}

/// Whether a header begins with a value, such as a content type that has a character set.
pub(super) fn is(headers: &HeaderMap, name: &str, value: &str) -> bool {
    let own = headers.get(name).and_then(|own| own.to_str().ok()).unwrap_or_default();
    own.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use hyper::header::{CONTENT_TYPE, HeaderValue};
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_small_export_cannot_become_a_large_one() {
        assert_eq!(gunzip(&packed(b"")).unwrap(), b"");
        assert_eq!(gunzip(&packed(&vec![b' '; LIMIT])).unwrap().len(), LIMIT);
        let bomb = packed(&vec![b' '; 64 << 20]);
        assert!(bomb.len() < 100_000);
        assert!(gunzip(&bomb).unwrap_err().contains("more than 4 MiB"));
        let whole = packed(b"abc");
        for wrong in [&b""[..], b"abc", &whole[..whole.len() - 1], &whole[..5], &[0x1f, 0x8b]] {
            assert!(gunzip(wrong).unwrap_err().starts_with("gzip: "), "{wrong:?}");
        }
    }

    #[test]
    fn a_header_is_compared_without_its_parameters() {
        let has = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_bytes(value).unwrap());
            is(&headers, "content-type", "application/json")
        };
        assert!(has(b"application/json") && has(b"Application/JSON ; charset=utf-8"));
        for other in [&b""[..], b"application/jsonx", b"text/plain;application/json", b"\xff"] {
            assert!(!has(other), "{other:?}");
        }
        assert!(!is(&HeaderMap::new(), "content-type", "application/json"));
    }
}
