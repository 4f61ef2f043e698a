//! Executes commands of other threads between two frames.

use super::Work;
use crate::io::FrameIo;
use crate::observer::Observer;
use crate::remote::{self, Newcomer, Wish};
use crate::{End, Endpoint, Instant, Place};
use std::io;
use std::os::fd::OwnedFd;

impl<Io: FrameIo, O: Observer> Work<Io, O> {
    /// Executes all queued commands.
    pub(super) fn fulfil(&mut self, now: Instant) {
        for wish in self.wishes.take() {
            match wish {
                Wish::Change(segment, change) => {
                    remote::change(&mut self.segments, segment, change, now);
                }
                // The requester may no longer wait.
                Wish::Tell(to) => {
                    drop(to.try_send(remote::states(&self.segments, now)));
                }
                Wish::Observer(what) => what(&mut self.observer),
                Wish::Attach(newcomer) => {
                    let Newcomer { segment, link, end, met } = *newcomer;
                    let place = self.attach(segment, link, end, now);
                    met(&mut self.observer, place);
                }
                Wish::Detach(place, to) => {
                    let end = self.detach(place, now);
                    let _ = to.try_send(end);
                }
            }
        }
    }

    fn detach(&mut self, place: Place, now: Instant) -> Option<OwnedFd> {
        let own = self.segments.get_mut(place.segment)?;
        if place.endpoint >= own.endpoints() {
            return None;
        }
        own.detach(place.endpoint, now.max(self.clocks[place.segment]));
        self.io.detach(self.ports[place.segment][place.endpoint])
    }

    fn attach(
        &mut self,
        segment: usize,
        link: Endpoint,
        end: End,
        now: Instant,
    ) -> io::Result<Place> {
        let Some(own) = self.segments.get_mut(segment) else {
            return Err(io::Error::other(format!("segment {segment} does not exist")));
        };
        let port = self.io.attach(end)?;
        let endpoint = own.attach(link, now.max(self.clocks[segment]));
        let place = Place { segment, endpoint };
        debug_assert_eq!(port, self.places.len());
        self.places.push(place);
        self.ports[segment].push(port);
        Ok(place)
    }
}
