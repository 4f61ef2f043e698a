//! `thingbed device`: a device whose resources take as long as they are told to.

use crate::arguments::Device;
use crate::signals::watch_signals;
use crate::{Status, complain, remark, say, trace};
use ::trace::{Distribution, Resource};
use load::{Checked, DeviceSettings, Mischief, Served};
use units::{Ratio, Span};

/// Serves until it is told to end, and then says what it has done.
pub fn device(wanted: &Device) -> Status {
    let settings = match settings(wanted) {
        Ok(settings) => settings,
        Err(error) => {
            complain(error);
            return Status::Wrong;
        }
    };
    match serve(wanted, &settings) {
        Ok(()) => Status::Fine,
        Err(error) => {
            complain(error);
            Status::Failed
        }
    }
}

fn serve(wanted: &Device, settings: &DeviceSettings) -> Result<(), String> {
    let stop = watch_signals().map_err(|error| format!("cannot hear of signals: {error}"))?;
    if !wanted.no_check {
        load::check(settings)?.iter().filter(|checked| !checked.kept).for_each(warn);
    }
    let ready = |addresses: &[(&str, std::net::SocketAddr)]| {
        for (scheme, address) in addresses {
            say(format_args!("serves {scheme}://{address}"));
        }
    };
    let served = load::serve(settings, &stop, ready).map_err(|error| error.to_string())?;
    if wanted.json {
        say(serde_json::to_string_pretty(&served).unwrap_or_default());
    } else {
        show(&served);
    }
    Ok(())
}

fn warn(checked: &Checked) {
    remark(format_args!(
        "warning: {} ({}): asked for {:.1} us, had {:.1} us on average and {:.1} us in nine of ten \
         tries, which is more than 1 % or 20 us off; this machine is busy, or the core is shared",
        checked.path, checked.mode, checked.asked, checked.mean, checked.p90
    ));
}

fn show(served: &Served) {
    let requests: u64 = served.resources.iter().map(|resource| resource.requests).sum();
    say(format_args!(
        "served {requests}, refused {} (queue full), {} for unknown resources, {} that were no \
         requests; {} answers spoiled on purpose",
        served.refused, served.unknown, served.garbage, served.mischief
    ));
    let busy = served.resources.iter().filter(|resource| resource.asked.count > 0);
    for resource in busy.take(20) {
        say(format_args!(
            "{}: {} requests, service {:.1} us on average, {:.1} us asked for; p99 {:.1} us, {:.1} \
             us asked for",
            resource.path,
            resource.requests,
            resource.took.mean,
            resource.asked.mean,
            resource.took.p99,
            resource.asked.p99
        ));
    }
}

fn settings(wanted: &Device) -> Result<DeviceSettings, String> {
    let mut resources = Vec::new();
    if let Some(file) = &wanted.resources {
        let mine =
            |resource: &Resource| resource.device.is_none_or(|device| device == wanted.number);
        resources = trace::resources(file)?;
        resources.retain(mine);
        if resources.is_empty() {
            return Err(format!(
                "{}: holds no resource of device {}",
                file.display(),
                wanted.number
            ));
        }
    }
    for text in &wanted.resource {
        resources.push(resource(text, wanted)?);
    }
    if resources.is_empty() {
        resources.push(resource("", wanted)?);
    }
    let share = |ratio: Option<Ratio>| ratio.map_or(0.0, Ratio::fraction);
    let mischief = Mischief {
        garbage: share(wanted.garbage),
        twice: share(wanted.twice),
        late: share(wanted.late),
        late_by: wanted.late_by.as_ns(),
        silent: share(wanted.silent),
    };
    let sum = mischief.garbage + mischief.twice + mischief.late + mischief.silent;
    if sum > 1.0 {
        return Err("the shares of spoiled answers are more than 100 % together".to_owned());
    }
    if wanted.payload.get() > 1_024 {
        // RFC 7252, section 4.6: what crosses any link without being cut.
        return Err(format!("answers of {} are too large: 1024 B is the most", wanted.payload));
    }
    let none = [wanted.coap, wanted.http, wanted.udp, wanted.tcp].iter().all(Option::is_none);
    Ok(DeviceSettings {
        coap: wanted.coap.or(none.then(|| ([0, 0, 0, 0], 5683).into())),
        http: wanted.http,
        udp: wanted.udp,
        tcp: wanted.tcp,
        resources,
        threads: wanted.threads as usize,
        queue: wanted.queue,
        payload: wanted.payload.get() as usize,
        mischief,
        core: wanted.core,
        spin: wanted.spin,
        seed: wanted.seed,
    })
}

fn resource(text: &str, wanted: &Device) -> Result<Resource, String> {
    let (path, time) = match text.split_once('=') {
        Some((path, time)) => (path, time.parse().map_err(|error| format!("{error}"))?),
        None => (text, Distribution::Constant(Span::ZERO)),
    };
    let path = path.strip_prefix('/').unwrap_or(path).to_owned();
    Ok(Resource { device: None, path, mode: wanted.mode, time })
}
