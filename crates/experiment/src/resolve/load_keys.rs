//! Refuses keys of loads and devices that would have no effect.

use crate::file::{Device, Load};
use crate::problem::Problem;
use crate::read::{At, Sink};
use crate::source::Place;
use trace::Scheme;
use units::Ratio;

/// Default of `connections`.
const CONNECTIONS: u32 = 16;

/// Reports keys of a load without effect. `scheme`: none if a trace names the protocols.
pub(super) fn check_load(typed: &Load, scheme: Option<Scheme>, sink: &mut Sink) {
    if let Some(scheme) = scheme {
        check_protocol(typed, scheme, sink);
    }
    if let Some(think) = typed.think.as_ref().filter(|_| typed.users.is_none()) {
        let problem = Problem::new("`think` without `users`").at(think.place);
        sink.add(problem.label(
            "only users of a closed loop wait after an answer: add `users` and `count`, or remove it",
        ));
    }
    let users = typed.users.as_ref().filter(|_| scheme.is_some());
    let is_unanswered = match scheme {
        Some(Scheme::Mqtt) => typed.qos.as_ref().is_none_or(|at| at.value == 0),
        Some(Scheme::Udp | Scheme::Tcp) => typed.answers.as_ref().is_some_and(|at| !at.value),
        _ => false,
    };
    if let Some(users) = users.filter(|_| is_unanswered) {
        let problem = Problem::new("`users` wait for answers, and these requests have none");
        let label = "over mqtt, add `qos: 1`; over udp and tcp, remove `answers: false`";
        sink.add(problem.at(users.place).label(label));
    }
    let together = typed.together.as_ref().filter(|at| at.value && typed.arrivals.is_none());
    if let Some(together) = together {
        let problem = Problem::new("`together` without `arrivals`").at(together.place);
        sink.add(problem.label("a closed loop has no arrival process: remove it"));
    }
}

fn check_protocol(typed: &Load, scheme: Scheme, sink: &mut Sink) {
    let place = |at: &Option<At<bool>>, value: bool| {
        at.as_ref().filter(|at| at.value == value).map(|at| at.place)
    };
    let number = |at: &Option<At<u32>>, default: u32| {
        at.as_ref().filter(|at| at.value != default).map(|at| at.place)
    };
    let streams_and_datagrams = [Scheme::Udp, Scheme::Tcp];
    // A key with its default value has no effect either, and does no harm: a matrix may have it.
    let with_paths = [Scheme::Coap, Scheme::Http, Scheme::Mqtt];
    let keys: [(&str, Option<Place>, &[Scheme]); 5] = [
        ("answers", place(&typed.answers, false), &streams_and_datagrams),
        ("path", typed.path.as_ref().map(|at| at.place), &with_paths),
        ("confirmable", place(&typed.confirmable, true), &[Scheme::Coap]),
        ("qos", number(&typed.qos, 0), &[Scheme::Mqtt]),
        ("connections", number(&typed.connections, CONNECTIONS), &[Scheme::Http]),
    ];
    for (key, place, schemes) in keys {
        let Some(place) = place.filter(|_| !schemes.contains(&scheme)) else { continue };
        let names: Vec<&str> = schemes.iter().map(|scheme| scheme.name()).collect();
        let text = format!("`{key}` has no effect on requests over {scheme}");
        let label = format!("it is for {}: remove it", names.join(", "));
        sink.add(Problem::new(text).at(place).label(label));
    }
}

/// Reports keys of devices without effect: the echo services of UDP and TCP return what they receive,
/// at once.
pub(super) fn check_device(typed: &Device, sink: &mut Sink) {
    let has_echo = typed.udp.is_some() || typed.tcp.is_some();
    if has_echo && typed.coap.is_none() && typed.http.is_none() {
        let share = |at: &Option<At<Ratio>>| {
            at.as_ref().filter(|at| at.value != Ratio::ZERO).map(|at| at.place)
        };
        let keys = [
            ("resources", typed.resources.as_ref().map(|at| at.place)),
            ("threads", typed.threads.as_ref().map(|at| at.place)),
            ("queue", typed.queue.as_ref().map(|at| at.place)),
            ("payload", typed.payload.as_ref().map(|at| at.place)),
            ("corrupt", share(&typed.corrupt)),
            ("duplicate", share(&typed.duplicate)),
            ("late", share(&typed.late)),
            ("silent", share(&typed.silent)),
        ];
        for (key, place) in keys {
            let Some(place) = place else { continue };
            let text = format!("`{key}` has no effect on an echo service");
            let label = "the services `udp` and `tcp` return each request at once: use `coap` or \
                         `http`, or remove it";
            sink.add(Problem::new(text).at(place).label(label));
        }
    }
    let spin = typed.spin.as_ref().filter(|at| at.value);
    let has_connections_only = typed.http.is_some() || typed.tcp.is_some();
    let has_connections_only = has_connections_only && typed.coap.is_none() && typed.udp.is_none();
    if let Some(spin) = spin.filter(|_| has_connections_only) {
        let problem = Problem::new("`spin` has no effect on `http` and `tcp`").at(spin.place);
        sink.add(
            problem.label("only services over UDP, `coap` and `udp`, can busy-wait: remove it"),
        );
    }
    if let Some(late_by) = typed.late_by.as_ref().filter(|_| typed.late.is_none()) {
        let problem = Problem::new("`late_by` without `late`").at(late_by.place);
        sink.add(problem.label("add the share of late answers, for example `late: 5 %`"));
    }
}
