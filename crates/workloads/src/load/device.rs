//! A device: serves requests until a stop message.

use super::{wait_for, write_results};
use crate::address::unspecified;
use crate::control::Control;
use crate::error::Error;
use load::{DeviceSettings, MisbehaviourShares};
use record::control::{Command, Status};
use record::event::DeviceResults;
use record::spec::DeviceSpec;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::channel;
use trace::Resource;
use units::Span;

/// Serves as `spec` describes until a stop message.
///
/// # Errors
/// A resource is invalid, or a port is not available.
pub fn run(spec: &DeviceSpec, control: &mut Control) -> Result<(), Error> {
    let settings = settings(spec)?;
    let checked = match spec.check {
        // Before it serves: requests would distort the check.
        true => load::check(&settings).map_err(|why| Error::protocol("test service times", why))?,
        false => Vec::new(),
    };
    let stop = AtomicBool::new(false);
    let (ready_sender, ready) = channel();
    let served = std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            load::serve(&settings, &stop, move |_| {
                let _ = ready_sender.send(());
            })
        });
        // The thread ended before it was ready; its result has the error.
        let control_result = match ready.recv() {
            Ok(()) => control.send_status(&Status::Ready {}).and_then(|()| {
                wait_for(control, |command| (*command == Command::Stop {}).then_some(()))
            }),
            Err(_) => Ok(()),
        };
        stop.store(true, Relaxed);
        let served = serving.join();
        control_result.map(|()| served)
    })?;
    let served = match served {
        Ok(Ok(served)) => served,
        Ok(Err(error)) => return Err(Error::protocol("run the device", error)),
        Err(_) => return Err(Error::protocol("run the device", "its thread panicked")),
    };
    write_results(&spec.events, &DeviceResults { checked, served })
}

fn settings(spec: &DeviceSpec) -> Result<DeviceSettings, Error> {
    let mut resources = Vec::new();
    for line in &spec.resources {
        let resource: Resource =
            line.parse().map_err(|error| Error::protocol("serve a resource", error))?;
        // A resource without a device belongs to all.
        if resource.device.is_none_or(|device| device == spec.number) {
            resources.push(resource);
        }
    }
    let notify = spec.notify.as_deref().map(str::parse).transpose();
    let notify: Result<_, trace::ParseError> = notify;
    let any = unspecified();
    let address = |port: Option<u16>| port.map(|port| SocketAddr::from((any, port)));
    Ok(DeviceSettings {
        coap: address(spec.coap),
        http: address(spec.http),
        udp: address(spec.udp),
        tcp: address(spec.tcp),
        resources,
        threads: spec.threads as usize,
        queue: spec.queue as usize,
        payload: spec.payload as usize,
        notify: notify.map_err(|error| Error::protocol("make the resource observable", error))?,
        misbehaviour: MisbehaviourShares {
            corrupt: spec.corrupt,
            duplicate: spec.duplicate,
            late: spec.late,
            late_by: Span::from_ns(spec.late_by_ns),
            silent: spec.silent,
        },
        core: None,
        spin: spec.spin,
        seed: spec.seed,
    })
}
