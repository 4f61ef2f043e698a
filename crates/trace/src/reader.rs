//! Trace parser, line by line.

use crate::request::{Method, Request};
use crate::uri::{Target, UriError};
use std::io::{self, BufRead};

/// Maximum length of a line in bytes; a URI has at most 1,024 bytes.
const MAX_LINE: usize = 4_096;

/// An invalid or out-of-order line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct LineError {
    /// Line number, from 1.
    pub line: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Wrong number of columns.
    #[error(
        "{0} columns; a line has four (device, time in us, method, URI), or five with a size in \
         bytes"
    )]
    Columns(usize),
    /// The first column is not a device number.
    #[error("`{0}` is not a device number: use 0 to 4294967295")]
    Device(String),
    /// The second column is not a time.
    #[error("`{0}` is not a time in us since the start, such as 1000 or 1000.250")]
    Time(String),
    /// Earlier than a previous line.
    #[error(
        "{at} us is before {before} us of an earlier line; sort the trace by its second column"
    )]
    Back {
        /// The time, in us.
        at: u64,
        /// The latest time so far, in us.
        before: u64,
    },
    /// The third column is not a method.
    #[error("{0}")]
    Method(String),
    /// The fourth column is not a valid target URI.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The URI's protocol does not have the method.
    #[error("{method} is not a method of {scheme}://")]
    Unfit {
        /// The method.
        method: Method,
        /// The protocol.
        scheme: &'static str,
    },
    /// The fifth column is not a size.
    #[error("`{0}` is not a size in bytes: use 0 to 65000")]
    Size(String),
    /// The line is too long.
    #[error("longer than {MAX_LINE} bytes")]
    Long,
    /// The line is not UTF-8.
    #[error("not text (UTF-8)")]
    NotText,
}

/// Reads a trace from `input`. Memory does not grow with the trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    latest: u64,
}

impl<R: BufRead> Reader<R> {
    /// A reader at the start of `input`.
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::with_capacity(256), number: 0, latest: 0 }
    }

    /// The next request, or the error of the next line; you can continue after an error. Skips
    /// empty lines and lines that start with `#`. The outer error is an I/O error of the input.
    pub fn read(&mut self) -> io::Result<Option<Result<Request<'_>, LineError>>> {
        loop {
            self.line.clear();
            let long = match self.fill()? {
                Filled::End => return Ok(None),
                Filled::Line => false,
                Filled::Long => true,
            };
            self.number += 1;
            if long {
                return Ok(Some(Err(LineError { line: self.number, fault: Fault::Long })));
            }
            let text = self.line.trim_ascii();
            if !(text.is_empty() || text.starts_with(b"#")) {
                break;
            }
        }
        let line = self.number;
        let latest = &mut self.latest;
        let parsed = std::str::from_utf8(&self.line).map_err(|_| Fault::NotText).and_then(parse);
        let placed = parsed.and_then(|request| {
            let before = *latest / 1_000;
            if request.at < *latest {
                return Err(Fault::Back { at: request.at / 1_000, before });
            }
            *latest = request.at;
            Ok(request)
        });
        Ok(Some(placed.map_err(|fault| LineError { line, fault })))
    }

    /// Number of lines read.
    pub fn lines(&self) -> u64 {
        self.number
    }

    /// Reads a line without its newline, at most `MAX_LINE` bytes of it.
    fn fill(&mut self) -> io::Result<Filled> {
        let mut long = false;
        let mut any = false;
        loop {
            let buffer = match self.input.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                return Ok(if long {
                    Filled::Long
                } else if any {
                    Filled::Line
                } else {
                    Filled::End
                });
            }
            any = true;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            // The rest of the line is still consumed, so that the next call begins with a line.
            if self.line.len() + part.len() > MAX_LINE {
                long = true;
            } else if !long {
                self.line.extend_from_slice(part);
            }
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() {
                return Ok(if long { Filled::Long } else { Filled::Line });
            }
        }
    }
}

enum Filled {
    End,
    Line,
    Long,
}

/// Parses a line without its newline.
fn parse(line: &str) -> Result<Request<'_>, Fault> {
    let mut columns = line.split(',').map(str::trim);
    let mut next = || columns.next();
    let (Some(device), Some(at), Some(method), Some(uri)) = (next(), next(), next(), next()) else {
        return Err(Fault::Columns(line.split(',').count()));
    };
    let size = next();
    // A URI may contain a comma; the rest of it then fails as a size.
    if next().is_some() {
        return Err(Fault::Columns(line.split(',').count()));
    }
    let device = device.parse().map_err(|_| Fault::Device(excerpt(device)))?;
    let at = time(at).ok_or_else(|| Fault::Time(excerpt(at)))?;
    let method: Method = method
        .parse()
        .map_err(|_| Fault::Method(excerpt(method).parse::<Method>().err().unwrap_or_default()))?;
    let target = Target::parse(uri)?;
    if !method.fits(target.scheme) {
        return Err(Fault::Unfit { method, scheme: target.scheme.name() });
    }
    let size = match size {
        None => None,
        Some(size) => Some(
            size.parse()
                .ok()
                .filter(|size| *size <= 65_000)
                .ok_or_else(|| Fault::Size(excerpt(size)))?,
        ),
    };
    Ok(Request { device, at, method, uri, size })
}

/// Parses a time in us with up to three decimals, into ns.
fn time(text: &str) -> Option<u64> {
    // Without floating point, which would round large times.
    let (us, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // `parse` would also accept a sign.
    if !digits(us) || !digits(part) || part.len() > 3 {
        return None;
    }
    let ns = part.parse::<u64>().ok()? * 10u64.pow(3 - part.len() as u32);
    us.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(ns)
}

/// The start of a column for a message, escaped, since a column may contain anything.
fn excerpt(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Vec<Result<String, String>> {
        let mut reader = Reader::new(text.as_bytes());
        let mut out = Vec::new();
        while let Some(read) = reader.read().unwrap() {
            out.push(read.map(|r| r.to_string()).map_err(|e| e.to_string()));
        }
        out
    }

    #[test]
    fn reads_the_line_of_the_paper_and_writes_it_again() {
        let line = "0, 1000, GET, coap://172.18.0.60/resource123";
        let mut reader = Reader::new(line.as_bytes());
        let request = reader.read().unwrap().unwrap().unwrap();
        assert_eq!((request.device, request.at), (0, 1_000_000));
        assert_eq!((request.method, request.size), (Method::Get, None));
        assert_eq!(request.to_string(), line);
        assert!(reader.read().unwrap().is_none());
    }

    #[test]
    fn reads_parts_of_a_microsecond_and_sizes() {
        let text = "# made by hand\n\n3,7.25,post,coap://h/x,20\r\n3, 8, SEND, udp://h:9\n";
        assert_eq!(
            all(text),
            [Ok("3, 7.250, POST, coap://h/x, 20".into()), Ok("3, 8, SEND, udp://h:9".into())]
        );
    }

    #[test]
    fn every_mistake_has_its_line_and_reading_goes_on() {
        let text = "0, 10, GET, coap://h/x\n\
                    0, 9, GET, coap://h/x\n\
                    0, 10, FLY, coap://h/x\n\
                    0, 10, GET, gopher://h/x\n\
                    x, 10, GET, coap://h/x\n\
                    0, -1, GET, coap://h/x\n\
                    0, 10, GET\n\
                    0, 10, PUBLISH, coap://h/x\n\
                    0, 10, GET, coap://h/x, big\n\
                    0, 11, GET, coap://h/x\n";
        let read = all(text);
        let why: Vec<_> = read.iter().filter_map(|line| line.as_ref().err()).collect();
        assert!(why[0].contains("line 2: 9 us is before 10 us"), "{}", why[0]);
        assert!(why[1].contains("line 3: `FLY` is not a method; use one of GET"));
        assert!(why[2].contains("line 4: `gopher://h/x` does not start with coap://"));
        assert!(why[3].contains("line 5: `x` is not a device number"));
        assert!(why[4].contains("line 6: `-1` is not a time"));
        assert!(why[5].contains("line 7: 3 columns"));
        assert!(why[6].contains("line 8: PUBLISH is not a method of coap"));
        assert!(why[7].contains("line 9: `big` is not a size"));
        assert_eq!((read.len(), why.len()), (10, 8));
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut reader = Reader::new(io::BufReader::new(io::Read::take(io::repeat(b'x'), 1 << 24)));
        assert_eq!(reader.read().unwrap().unwrap().unwrap_err().fault, Fault::Long);
        assert!(reader.line.capacity() <= 2 * MAX_LINE);
        assert!(reader.read().unwrap().is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut reader = Reader::new(&bytes[..]);
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            while reader.read().unwrap().is_some() {}
            prop_assert!(reader.lines() <= lines);
        }

        #[test]
        fn what_is_written_reads_back(
            device in any::<u32>(), at in 0..u64::MAX / 2, size in proptest::option::of(0..65_000u32)
        ) {
            let request = Request { device, at, method: Method::Put, uri: "coap://h:1/p", size };
            let line = request.to_string();
            let mut reader = Reader::new(line.as_bytes());
            prop_assert_eq!(reader.read().unwrap().unwrap(), Ok(request));
        }
    }
}
