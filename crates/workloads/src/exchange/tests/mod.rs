//! Sides of exchanges over loopback, in this process: both sides, and one whose peer is hostile.

mod clients;
mod servers;
mod sessions;

use super::*;
use record::control::Command;
use record::event::{self, ExchangeEvent, Receipt, SectionEvent};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;
use units::Instant;

/// Sizes of the payloads, in bytes: none, too short for a number, one of only the number, and
/// several blocks of CoAP.
const SIZES: [usize; 5] = [0, 3, 8, 1_000, 5_000];
/// No test fails because the machine is busy.
const PATIENT: Duration = Duration::from_secs(120);

/// The spec of a driver at 127.0.0.1 with the server `peer` there; `more` has keys that differ.
pub(crate) fn spec(folder: &Path, protocol: &Value, more: &Value) -> ExchangeSpec {
    let exchanges: Vec<(usize, usize)> = SIZES.into_iter().enumerate().collect();
    let mut spec = json!({
        "side": "drive", "node": "driver", "protocol": protocol, "connection": "new",
        "address": "127.0.0.1", "interface": "lo", "mtu": 65_535,
        "peers": [{"name": "server", "address": "127.0.0.1"}],
        "port": 1, "exchanges": exchanges, "sizes": SIZES, "every_ns": 1_000_000, "pause_ns": 0,
        "timeout_ns": PATIENT.as_nanos() as u64, "seed": 7,
        "events": folder.join("driver.csv"), "sections": folder.join("sections.csv"),
    });
    let all = spec.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

/// The spec of the server of a driver.
fn server_of(driver: &ExchangeSpec) -> ExchangeSpec {
    let mut spec = ExchangeSpec { side: Side::Serve, node: "server".to_owned(), ..driver.clone() };
    spec.peers[0].name = "driver".to_owned();
    spec.events = driver.events.with_file_name("server.csv");
    spec
}

/// A program that runs in a thread.
pub(crate) struct Running<'s> {
    lines: BufReader<UnixStream>,
    side: ScopedJoinHandle<'s, Result<(), Error>>,
}

impl<'s> Running<'s> {
    fn start(scope: &'s Scope<'s, '_>, spec: &'s ExchangeSpec) -> Self {
        Self::with(scope, move |control| run(spec, control))
    }

    pub fn with(
        scope: &'s Scope<'s, '_>,
        side: impl FnOnce(&mut Control) -> Result<(), Error> + Send + 's,
    ) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let mut control = Control::over(far.as_raw_fd(), far.as_raw_fd()).unwrap();
        near.set_read_timeout(Some(PATIENT)).unwrap();
        Self { lines: BufReader::new(near), side: scope.spawn(move || side(&mut control)) }
    }

    pub fn wait_for(&mut self, word: &str) {
        let begin = format!("{{\"{word}\"");
        let mut line = String::new();
        while !line.starts_with(&begin) {
            line.clear();
            let length = self.lines.read_line(&mut line).unwrap();
            assert!(length > 0, "the side ended before it was {word}");
        }
    }

    pub fn send(&mut self, command: &Command) {
        let line = serde_json::to_string(command).unwrap();
        writeln!(self.lines.get_mut(), "{line}").unwrap();
    }

    pub fn stop(mut self) {
        self.send(&Command::Stop {});
        self.join().unwrap();
    }

    /// Waits for its end.
    pub fn join(self) -> Result<(), Error> {
        self.side.join().unwrap()
    }
}

pub(crate) fn events<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    event::read(&std::fs::read(path).unwrap()).unwrap()
}

/// Runs a driver to the end of its last exchange.
fn drive(spec: &ExchangeSpec) -> Vec<ExchangeEvent> {
    std::thread::scope(|scope| {
        let mut driver = Running::start(scope, spec);
        driver.wait_for("ready");
        driver.send(&Command::Start { at_ns: clock::now_ns() });
        driver.wait_for("done");
        driver.stop();
    });
    events(&spec.events)
}

/// Output files of both sides.
struct Both {
    exchanges: Vec<ExchangeEvent>,
    sections: Vec<SectionEvent>,
    receipts: Vec<Receipt>,
}

fn both(driver: &ExchangeSpec) -> Both {
    let server = server_of(driver);
    let exchanges = std::thread::scope(|scope| {
        let mut serving = Running::start(scope, &server);
        serving.wait_for("ready");
        let exchanges = drive(driver);
        serving.stop();
        exchanges
    });
    let (sections, receipts) = (events(&driver.sections), events(&server.events));
    Both { exchanges, sections, receipts }
}

fn free_port() -> u16 {
    // Free for both transports: TCP's is checked here, UDP's is likely.
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Runs `act` in an exchange of 100 B with this deadline.
pub(crate) fn with_turn<T>(deadline: Instant, act: impl FnOnce(&mut protocol::Turn) -> T) -> T {
    let folder = tempfile::tempdir().unwrap();
    let (_near, mut control) = crate::control::tests::pair();
    let mut watch = watch::Watch::new(&mut control);
    let path = folder.path().join("sections.csv");
    let filter = wire::FrameFilter::default();
    let mut sections = sections::Sections::create("lo", filter, &path).unwrap();
    let body = body::Body::new(7, 100);
    act(&mut protocol::Turn {
        number: 4,
        size: 100,
        deadline,
        body: &body,
        watch: &mut watch,
        sections: &mut sections,
    })
}
