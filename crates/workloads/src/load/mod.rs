//! Load generators and devices as programs of a run. The crate `load` does the work; this module
//! handles start and stop messages and writes the results.

mod device;
mod prober;
mod sender;

pub use device::run as device;
pub use prober::run as probe;
pub use sender::run as load;

use crate::control::Control;
use crate::error::Error;
use crate::wait::Waiter;
use record::control::Command;
use serde::Serialize;
use std::fs;
use std::path::Path;
use units::Instant;

/// Pending control messages, without blocking.
fn pending_commands(control: &mut Control) -> Result<Vec<Command>, Error> {
    let mut waiter = Waiter::new(control.descriptor(), Vec::new());
    if waiter.wait(Some(Instant::START))? { control.read() } else { Ok(Vec::new()) }
}

/// Waits for a message that `accept` accepts.
fn wait_for<T>(
    control: &mut Control,
    mut accept: impl FnMut(&Command) -> Option<T>,
) -> Result<T, Error> {
    let mut waiter = Waiter::new(control.descriptor(), Vec::new());
    loop {
        // The stop message may have arrived together with another one, or while requests were
        // sent.
        if let Some(found) = control.is_stopped().then(|| accept(&Command::Stop {})).flatten() {
            return Ok(found);
        }
        waiter.wait(None)?;
        if let Some(found) = control.read()?.iter().find_map(&mut accept) {
            return Ok(found);
        }
    }
}

/// Writes the results for the parent process.
fn write_results(path: &Path, what: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(what).unwrap_or_default();
    fs::write(path, text).map_err(|source| Error::Events { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::pair;
    use crate::exchange::tests::Running;
    use record::event::{DeviceResults, SenderResults};
    use record::spec::{DeviceSpec, LoadSpec};
    use serde_json::json;
    use std::io::Write;
    use std::net::UdpSocket;

    #[test]
    fn an_order_to_stop_that_came_early_is_not_waited_for_again() {
        let (mut near, mut control) = pair();
        near.write_all(b"{\"start\":{\"at_ns\":17}}\n{\"stop\":{}}\n").unwrap();
        let start = wait_for(&mut control, |command| match command {
            Command::Start { at_ns } => Some(*at_ns),
            Command::Stop {} => None,
        });
        assert_eq!(start.unwrap(), 17);
        wait_for(&mut control, |command| (*command == Command::Stop {}).then_some(())).unwrap();
    }

    /// Runs a device and a load in this process; returns the results of both, as the runner reads
    /// them.
    fn both(trace: Option<&str>, more: &serde_json::Value) -> (SenderResults, DeviceResults) {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let device_spec = device_spec(port, &file("device.json"));
        let mut spec = load_spec(&json!({
            "targets": [format!("coap://127.0.0.1:{port}")], "path": "r", "events": file("load.json"),
            "log": file("log.csv"),
        }));
        if let Some(trace) = trace {
            std::fs::write(file("trace.csv"), trace.replace("PORT", &port.to_string())).unwrap();
            spec["trace"] = json!(file("trace.csv"));
        }
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec: LoadSpec = serde_json::from_value(spec).unwrap();
        std::thread::scope(|scope| {
            let (spec, device_spec) = (&spec, &device_spec);
            let mut serving = Running::with(scope, move |control| device(device_spec, control));
            serving.wait_for("ready");
            let mut sending = Running::with(scope, move |control| load(spec, control));
            sending.wait_for("ready");
            sending.send(&Command::Start { at_ns: clock::now_ns() });
            sending.wait_for("done");
            sending.stop();
            serving.stop();
        });
        let results = |name: &str| std::fs::read(file(name)).unwrap();
        let sent = serde_json::from_slice(&results("load.json")).unwrap();
        (sent, serde_json::from_slice(&results("device.json")).unwrap())
    }

    fn device_spec(port: u16, events: &Path) -> DeviceSpec {
        serde_json::from_value(json!({
            "number": 3, "coap": port,
            "resources": ["*, r, sleep, constant:0ns", "3, own, sleep, constant:0ns",
                "4, other, sleep, constant:0ns"],
            "threads": 1, "queue": 10, "payload": 4, "corrupt": 0.0, "duplicate": 0.0, "late": 0.0,
            "late_by_ns": 0, "silent": 0.0, "spin": false, "check": false, "seed": 1,
            "events": events,
        }))
        .unwrap()
    }

    fn load_spec(more: &serde_json::Value) -> serde_json::Value {
        let mut spec = json!({
            "targets": ["coap://127.0.0.1:1"], "arrivals": "constant:1ms", "method": "GET",
            "count": 20, "duration_ns": 60_000_000_000_u64, "timeout_ns": 60_000_000_000_u64,
            "confirmable": true, "answers": true, "qos": 0, "connections": 1, "senders": 1,
            "spin": false, "patience_ns": 60_000_000_000_u64, "seed": 1, "events": "/nowhere/e", "log": "/nowhere/l",
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    }

    #[test]
    fn a_load_and_a_device_have_results_that_agree() {
        let (sent, served) = both(None, &json!({}));
        assert_eq!((sent.load.counts.scheduled, sent.load.counts.answered), (20, 20));
        assert_eq!(sent.load.codes["2.05"], 20);
        let paths: Vec<_> = served.served.resources.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["r", "own"], "not those of other devices");
        assert_eq!(served.served.resources[0].requests, 20);
    }

    #[test]
    fn a_trace_of_one_request_has_results_and_one_of_none_is_an_error() {
        let one = "0, 0, GET, coap://127.0.0.1:PORT/own\n";
        let (sent, _) = both(Some(one), &json!({}));
        assert_eq!((sent.load.counts.scheduled, sent.load.codes["2.05"]), (1, 1));
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace.csv");
        std::fs::write(&trace, "# device, time, method, URI\n").unwrap();
        let spec = load_spec(&json!({"trace": trace}));
        let spec: LoadSpec = serde_json::from_value(spec).unwrap();
        let error = std::thread::scope(|scope| {
            let spec = &spec;
            let mut sending = Running::with(scope, move |control| load(spec, control));
            sending.wait_for("ready");
            sending.send(&Command::Start { at_ns: clock::now_ns() });
            sending.join().unwrap_err().to_string()
        });
        assert!(error.contains("nothing to send"), "{error}");
    }

    #[test]
    fn what_cannot_be_sent_or_served_is_an_error_before_the_start() {
        for (key, value, words) in [
            ("arrivals", json!("often"), "generate requests"),
            ("method", json!("GET 200%"), "generate requests"),
            ("size", json!("many"), "generate requests"),
            ("targets", json!(["ftp://127.0.0.1/r"]), "generate requests"),
            ("trace", json!("/nowhere/trace.csv"), "/nowhere/trace.csv"),
            ("think", json!("a while"), "think time"),
        ] {
            let spec = load_spec(&json!({key: value}));
            let spec: LoadSpec = serde_json::from_value(spec).unwrap();
            let (_near, mut control) = pair();
            let error = load(&spec, &mut control).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{key}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let spec = device_spec(1, &folder.path().join("device.json"));
        let invalid = ["*, r", "x, r, sleep, constant:0ns", "*, r, run, constant:0ns", ""];
        for resource in invalid {
            let spec = DeviceSpec { resources: vec![resource.to_owned()], ..spec.clone() };
            let (_near, mut control) = pair();
            let error = device(&spec, &mut control).unwrap_err().to_string();
            assert!(error.contains("serve a resource"), "{resource}: {error}");
        }
        let taken = UdpSocket::bind("[::]:0").or_else(|_| UdpSocket::bind("0.0.0.0:0")).unwrap();
        let port = taken.local_addr().unwrap().port();
        let spec = DeviceSpec { coap: Some(port), ..spec };
        let (_near, mut control) = pair();
        let error = device(&spec, &mut control).unwrap_err().to_string();
        assert!(error.contains(&port.to_string()) && error.contains("another program"), "{error}");
    }

    #[test]
    fn a_damaged_line_of_a_trace_is_left_out_with_its_reason() {
        for damage in ["0, 1, GET", "\0", "0, x, GET, coap://127.0.0.1:1/r", "0, 9, GET, ftp://x/"]
        {
            let line = "0, 10, GET, coap://127.0.0.1:PORT/r";
            let (sent, served) = both(Some(&format!("{line}\n{damage}\n{line}\n")), &json!({}));
            assert_eq!(sent.load.counts.answered, 2, "{damage:?}");
            assert_eq!(served.served.resources[0].requests, 2, "{damage:?}");
            let reasons: Vec<_> = sent.load.reasons.keys().collect();
            assert!(reasons.iter().any(|why| why.contains("line 2")), "{damage:?}: {reasons:?}");
        }
    }
}
