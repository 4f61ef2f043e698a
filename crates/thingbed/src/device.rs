//! `thingbed device`: emulates a device with configured service times.

use crate::arguments::Device;
use crate::signals::watch_signals;
use crate::{Status, complain, remark, say, trace};
use ::trace::{Distribution, Resource};
use load::{DeviceSettings, MisbehaviourShares};
use record::event::{Checked, Served};
use units::{Ratio, Span};

/// Maximum answer size, as in experiments.
const LARGEST_ANSWER: u64 = 1_000_000;

/// Serves until interrupted, then prints statistics.
pub fn device(arguments: &Device) -> Status {
    let settings = match settings(arguments) {
        Ok(settings) => settings,
        Err(error) => {
            complain(error);
            return Status::Wrong;
        }
    };
    match serve(arguments, &settings) {
        Ok(()) => Status::Fine,
        Err(error) => {
            complain(error);
            Status::Failed
        }
    }
}

fn serve(arguments: &Device, settings: &DeviceSettings) -> Result<(), String> {
    let stop = watch_signals()
        .map_err(|error| format!("could not install the handler for Ctrl-C: {error}"))?;
    if !arguments.no_check {
        // Before the first request: the self-test uses the CPU, and would delay answers.
        load::check(settings)?.iter().filter(|checked| !checked.kept).for_each(warn);
    }
    let ready = |addresses: &[(&str, std::net::SocketAddr)]| {
        for (scheme, address) in addresses {
            say(format_args!("serving {scheme}://{address}"));
        }
    };
    let served = load::serve(settings, &stop, ready).map_err(|error| error.to_string())?;
    if arguments.json {
        say(serde_json::to_string_pretty(&served).unwrap_or_default());
    } else {
        show(&served);
    }
    Ok(())
}

fn warn(checked: &Checked) {
    remark(format_args!(
        "warning: service time of {} ({}): configured {:.1} us, measured mean {:.1} us and p90 \
         {:.1} us, more than 1 % or 20 us off; this machine is busy, or another program uses the \
         core",
        checked.path, checked.mode, checked.configured, checked.mean, checked.p90
    ));
}

fn show(served: &Served) {
    let requests: u64 = served.resources.iter().map(|resource| resource.requests).sum();
    say(format_args!("served {requests} requests"));
    for (count, what) in [
        (served.refused, "requests refused: the queue was full"),
        (served.unknown, "requests for unknown resources"),
        (served.malformed, "malformed requests"),
        (served.bad_options, "requests with an unknown critical option"),
        (served.duplicates, "duplicates answered from the cache"),
        (served.blocks, "further blocks of requests and answers"),
        (served.body_bytes, "bytes received in requests"),
        (served.notifications, "notifications sent"),
        (served.misbehaved, "answers changed by fault injection"),
    ] {
        if count > 0 {
            say(format_args!("  {count} {what}"));
        }
    }
    // A ladder of `trace generate` has 100 resources per device by default, more than a screen
    // shows.
    let busy = served.resources.iter().filter(|resource| resource.configured.count > 0);
    for resource in busy.take(20) {
        say(format_args!(
            "{}: {} requests; service time measured mean {:.1} us, configured {:.1} us; p99 \
             measured {:.1} us, configured {:.1} us",
            resource.path,
            resource.requests,
            resource.took.mean,
            resource.configured.mean,
            resource.took.p99,
            resource.configured.p99
        ));
    }
}

fn settings(arguments: &Device) -> Result<DeviceSettings, String> {
    let mut resources = Vec::new();
    if let Some(file) = &arguments.resources {
        let mine =
            |resource: &Resource| resource.device.is_none_or(|device| device == arguments.number);
        resources = trace::resources(file)?;
        resources.retain(mine);
        if resources.is_empty() {
            return Err(format!("{}: no resource of device {}", file.display(), arguments.number));
        }
    }
    for text in &arguments.resource {
        resources.push(resource(text, arguments)?);
    }
    if resources.is_empty() {
        resources.push(resource("", arguments)?);
    }
    // Refused and not accepted as aliases, so that scripts and documentation have one name for each
    // fault (decision 72).
    for (former, name, given) in [
        ("--garbage", "--corrupt", &arguments.garbage),
        ("--twice", "--duplicate", &arguments.twice),
    ] {
        if let Some(value) = given {
            return Err(format!("`{former}` is now `{name}`: write `{name} {value}`"));
        }
    }
    let share = |ratio: Option<Ratio>| ratio.map_or(0.0, Ratio::fraction);
    let misbehaviour = MisbehaviourShares {
        corrupt: share(arguments.corrupt),
        duplicate: share(arguments.duplicate),
        late: share(arguments.late),
        late_by: arguments.late_by,
        silent: share(arguments.silent),
    };
    let sum =
        misbehaviour.corrupt + misbehaviour.duplicate + misbehaviour.late + misbehaviour.silent;
    if sum > 1.0 {
        return Err(
            "the shares of --corrupt, --duplicate, --late and --silent add up to more than 100 %"
                .to_owned(),
        );
    }
    if arguments.payload.get() > LARGEST_ANSWER {
        return Err(format!("answers of {} are too large; the maximum is 1 MB", arguments.payload));
    }
    let none =
        [arguments.coap, arguments.http, arguments.udp, arguments.tcp].iter().all(Option::is_none);
    Ok(DeviceSettings {
        // Port 5683 is CoAP's (RFC 7252, section 6.1).
        coap: arguments.coap.or(none.then(|| ([0, 0, 0, 0], 5683).into())),
        http: arguments.http,
        udp: arguments.udp,
        tcp: arguments.tcp,
        resources,
        threads: arguments.threads as usize,
        queue: arguments.queue,
        payload: arguments.payload.get() as usize,
        notify: arguments.notify.clone(),
        misbehaviour,
        core: arguments.core,
        spin: arguments.spin,
        seed: arguments.seed,
    })
}

fn resource(text: &str, arguments: &Device) -> Result<Resource, String> {
    let (path, time) = match text.split_once('=') {
        Some((path, time)) => (path, time.parse().map_err(|error| format!("{error}"))?),
        None => (text, Distribution::Constant(Span::ZERO)),
    };
    let path = path.strip_prefix('/').unwrap_or(path).to_owned();
    Ok(Resource { device: None, path, mode: arguments.mode, time })
}
