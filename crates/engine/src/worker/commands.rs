//! Executes commands of other threads between two frames.

use super::Worker;
use crate::io::FrameIo;
use crate::observer::{Observer, Place};
use crate::remote::{self, AttachTo, Command, NewPort};
use crate::spec::{Endpoint, VlanPort};
use std::io;
use std::os::fd::OwnedFd;
use units::Instant;

impl<Io: FrameIo, O: Observer> Worker<Io, O> {
    /// Executes all queued commands.
    pub(super) fn execute(&mut self, now: Instant) {
        for command in self.commands.take() {
            match command {
                Command::Change(segment, change) => {
                    remote::change(&mut self.segments, segment, change, now);
                }
                // The requester may no longer wait.
                Command::ReportStates(to) => {
                    drop(to.try_send(remote::states(&self.segments, now)));
                }
                Command::Observer(what) => self.observer.with(what),
                Command::Attach(new_port) => {
                    let NewPort { to, end, on_attached } = *new_port;
                    let place = match to {
                        AttachTo::Segment(segment, link) => self.attach(segment, *link, end, now),
                        AttachTo::Trunk(trunk, vlan) => self.attach_vlan(trunk, vlan, end),
                    };
                    self.observer.with(|observer| on_attached(observer, place));
                }
                Command::Reserve(place) => {
                    // Failure leaves the numbers as they are; the thread of the port reports it.
                    if self.io.attach(None).is_ok() {
                        self.places.push(place);
                    }
                }
                Command::Detach(place, to) => {
                    let ends = self.detach(place, now);
                    let _ = to.try_send(ends);
                }
            }
        }
    }

    /// Detaches an endpoint; returns the descriptors of its ports.
    fn detach(&mut self, Place { segment, endpoint }: Place, now: Instant) -> Vec<OwnedFd> {
        let Some(own) = self.segments.get_mut(segment) else { return Vec::new() };
        if endpoint >= own.endpoints() {
            return Vec::new();
        }
        own.detach(endpoint, now.max(self.clocks[segment]));
        let vlan_ports = self.vlan_ports.at(segment, endpoint).iter().map(|own| own.port);
        let ports = [self.ports[segment][endpoint]].into_iter().chain(vlan_ports);
        ports.filter_map(|port| self.io.detach(port)).collect()
    }

    fn attach(
        &mut self,
        segment: usize,
        link: Endpoint,
        end: OwnedFd,
        now: Instant,
    ) -> io::Result<Place> {
        let Some(own) = self.segments.get_mut(segment) else {
            return Err(io::Error::other(format!("segment {segment} does not exist")));
        };
        let port = self.io.attach(Some(end))?;
        let endpoint = own.attach(link, now.max(self.clocks[segment]));
        let place = Place { segment, endpoint };
        debug_assert_eq!(port, self.places.len());
        self.places.push(place);
        self.ports[segment].push(port);
        Ok(place)
    }

    /// Adds the port of a VLAN to a trunk.
    fn attach_vlan(&mut self, trunk: Place, vlan: u16, end: OwnedFd) -> io::Result<Place> {
        let Place { segment, endpoint } = trunk;
        if self.segments.get(segment).is_none_or(|own| endpoint >= own.endpoints()) {
            return Err(io::Error::other(format!(
                "segment {segment} has no endpoint {endpoint} for an interface of VLAN {vlan}"
            )));
        }
        let port = self.io.attach(Some(end))?;
        debug_assert_eq!(port, self.places.len());
        self.places.push(trunk);
        self.vlan_ports.add(segment, endpoint, VlanPort { vlan, port });
        Ok(trunk)
    }
}
