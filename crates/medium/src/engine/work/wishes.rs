//! What others want, done between two frames.

use super::Work;
use crate::io::FrameIo;
use crate::observer::Observer;
use crate::remote::{self, Newcomer, Wish};
use crate::{Endpoint, Instant, Place, Tap};
use std::io;

impl<Io: FrameIo, O: Observer> Work<Io, O> {
    /// Fulfils what waits.
    pub(super) fn fulfil(&mut self, now: Instant) {
        for wish in self.wishes.take() {
            match wish {
                Wish::Change(segment, change) => {
                    remote::change(&mut self.segments, segment, change, now);
                }
                // Who asked may have gone.
                Wish::Tell(to) => drop(to.try_send(remote::asked(&self.segments))),
                Wish::Observer(what) => what(&mut self.observer),
                Wish::Attach(newcomer) => {
                    let Newcomer { segment, link, end, met } = *newcomer;
                    let place = self.attach(segment, link, end, now);
                    met(&mut self.observer, place);
                }
            }
        }
    }

    fn attach(
        &mut self,
        segment: usize,
        link: Endpoint,
        end: Tap,
        now: Instant,
    ) -> io::Result<Place> {
        let Some(own) = self.segments.get_mut(segment) else {
            return Err(io::Error::other(format!("there is no segment {segment}")));
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
