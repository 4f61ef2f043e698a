//! `thingbed trace generate`.

use super::{Stopped, create, recipe, written, wrong};
use crate::arguments::Generate;
use crate::{Status, remark};
use std::io::{self, Write};
use trace::{Distribution, Recipe, Requests, Resource, Spread};

/// Writes the trace, and the resources generated for it.
pub fn generate(wanted: &Generate) -> Result<Status, Stopped> {
    let recipe = recipe(&wanted.shape).map_err(wrong)?;
    let mut requests = recipe.requests().map_err(wrong)?;
    if let Some(file) = &wanted.resources_out {
        let mut out = create(file)?;
        written(file, resources(wanted, &recipe, &mut out))?;
    }
    let mut service = Spread::new();
    let mut out = create(&wanted.out)?;
    written(&wanted.out, lines(&mut requests, &mut service, wanted.fine, &mut out))?;
    drop(out);
    if let Some(asked) = recipe.groups.first().and_then(|group| group.service.as_ref()) {
        let asked = asked.asked();
        remark(format_args!(
            "service times: mean {:.1} us, configured {:.1} us; their distribution is {:.1} % \
             from the configured one (Kolmogorov-Smirnov)",
            service.mean_ns() / 1e3,
            asked.mean_ns() / 1e3,
            100.0 * service.distance_from(|ns| asked.cdf(ns))
        ));
    }
    Ok(Status::Fine)
}

fn lines(
    requests: &mut Requests,
    service: &mut Spread,
    fine: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    while let Some(mut request) = requests.read() {
        if !fine {
            request.at = request.at / 1_000 * 1_000;
        }
        writeln!(out, "{request}")?;
        if let Some(ns) = requests.service_ns() {
            service.record(ns);
        }
    }
    out.flush()
}

fn resources(wanted: &Generate, recipe: &Recipe, out: &mut dyn Write) -> io::Result<()> {
    for group in &recipe.groups {
        let Some(service) = &group.service else { continue };
        for device in group.devices.clone() {
            for (path, time) in service.resources() {
                let time = Distribution::Constant(time);
                let (path, mode) = (path.to_owned(), wanted.mode);
                writeln!(out, "{}", Resource { device: Some(device), path, mode, time })?;
            }
        }
    }
    out.flush()
}
