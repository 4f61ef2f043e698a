//! Converts command-line options to a trace specification.

use crate::arguments::Shape;
use std::path::Path;
use trace::{
    Distribution, Group, Method, Mix, Resource, Service, Target, TraceSpec, read_resources,
};

/// The specification of a trace or of a load without a trace.
pub(crate) fn trace_spec(shape: &Shape) -> Result<TraceSpec, String> {
    let arrivals = shape.arrivals.clone().ok_or(
        "no arrival process; add --arrivals, for example --arrivals exponential:300us, or name a \
         trace",
    )?;
    let first = shape
        .target
        .first()
        .ok_or("no target; add --target, for example --target coap://10.0.0.1/")?;
    let last = shape
        .first
        .checked_add(shape.devices)
        .ok_or("device numbers exceed 4294967295; lower --first or --devices")?;
    // Any number: only the scheme matters here, and `{device}` alone is no valid host.
    let usual = Target::parse(&first.replace("{device}", "0"))
        .map_or(Method::Get, |target| Method::usual(target.scheme));
    let service = service(shape)?;
    let group = Group {
        devices: shape.first..last,
        targets: shape.target.clone(),
        arrivals,
        together: shape.together,
        methods: shape.method.clone().unwrap_or_else(|| Mix::of(usual)),
        paths: shape.path.clone().unwrap_or_else(|| Mix::of(String::new())),
        service,
        sizes: match &shape.size {
            Some(sizes) => Some(bytes(sizes)?),
            None => None,
        },
    };
    let span = shape.span.map(units::Span::as_ns);
    Ok(TraceSpec { seed: shape.seed, groups: vec![group], span, requests: shape.requests })
}

fn bytes(sizes: &Mix<units::Bytes>) -> Result<Mix<u32>, String> {
    // 65,000 B fit into one UDP datagram with room for headers of CoAP (65,507 B over IPv4).
    if let Some(size) = sizes.values().find(|size| size.get() > 65_000) {
        return Err(format!("a request of {size} is too large; the maximum is 65000 B"));
    }
    Ok(sizes.map(|size| size.get() as u32))
}

/// The resources that match the configured service times: generated, or selected from a file.
fn service(shape: &Shape) -> Result<Option<Service>, String> {
    let Some(distribution) = &shape.service else { return Ok(None) };
    let Some(file) = &shape.resources else {
        return Ok(Some(Service::made(distribution.clone(), shape.ladder as usize)));
    };
    let constant = |resource: &Resource| match &resource.time {
        Distribution::Constant(time) => Ok((resource.path.clone(), time.as_ns())),
        other => Err(format!(
            "{}: {} has service times of {other}; --service needs resources with constant service \
             times",
            file.display(),
            resource.path
        )),
    };
    // All devices of a group have the same resources: those of the first device, and those without
    // a device.
    let resources = resources(file)?
        .iter()
        .filter(|resource| resource.device.is_none_or(|device| device == shape.first))
        .map(constant)
        .collect::<Result<Vec<_>, _>>()?;
    let service = Service::chosen(distribution.clone(), resources);
    service
        .map(Some)
        .ok_or_else(|| format!("{}: no resource of device {}", file.display(), shape.first))
}

/// Reads a file with resources.
pub(crate) fn resources(file: &Path) -> Result<Vec<Resource>, String> {
    read_resources(super::files::open(file)?)
        .map_err(|error| format!("{}: {error}", file.display()))
}
