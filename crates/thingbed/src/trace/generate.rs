//! `thingbed trace generate`.

use super::files::{Failure, check_write, create, usage_error};
use super::shape::trace_spec;
use crate::arguments::Generate;
use crate::{Status, remark};
use std::io::{self, Write};
use trace::{Distribution, Requests, Resource, TraceSpec};
use units::Histogram;

/// Writes the trace, and the resources generated for it.
pub fn generate(arguments: &Generate) -> Result<Status, Failure> {
    let trace_spec = trace_spec(&arguments.shape).map_err(usage_error)?;
    let mut requests = trace_spec.requests().map_err(usage_error)?;
    if let Some(file) = &arguments.resources_out {
        let mut out = create(file)?;
        check_write(file, resources(arguments, &trace_spec, &mut out))?;
    }
    let mut service = Histogram::new();
    let mut out = create(&arguments.out)?;
    check_write(&arguments.out, lines(&mut requests, &mut service, arguments.fine, &mut out))?;
    drop(out);
    if let Some(configured) = trace_spec.groups.first().and_then(|group| group.service.as_ref()) {
        let configured = configured.distribution();
        remark(format_args!(
            "service times: mean {:.1} us, configured {:.1} us; their distribution is {:.1} % \
             from the configured one (Kolmogorov-Smirnov)",
            service.mean_ns() / 1e3,
            configured.mean_ns() / 1e3,
            100.0 * service.distance_from(|ns| configured.cdf(ns))
        ));
    }
    Ok(Status::Fine)
}

fn lines(
    requests: &mut Requests,
    service: &mut Histogram,
    fine: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    while let Some(mut request) = requests.read() {
        // Rounded down, so the order of requests does not change.
        if !fine {
            request.at = request.at / 1_000 * 1_000;
        }
        writeln!(out, "{request}")?;
        // Of what is written, not of the distribution: a ladder of resources only approximates it.
        if let Some(ns) = requests.service_ns() {
            service.record(ns);
        }
    }
    out.flush()
}

fn resources(arguments: &Generate, trace_spec: &TraceSpec, out: &mut dyn Write) -> io::Result<()> {
    for group in &trace_spec.groups {
        let Some(service) = &group.service else { continue };
        for device in group.devices.clone() {
            for (path, time) in service.resources() {
                let time = Distribution::Constant(time);
                let (path, mode) = (path.to_owned(), arguments.mode);
                writeln!(out, "{}", Resource { device: Some(device), path, mode, time })?;
            }
        }
    }
    out.flush()
}
