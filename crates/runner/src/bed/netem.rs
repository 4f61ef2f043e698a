//! Links that the kernel impairs: netem's configuration and counters.

use crate::error::Error;
use engine::Place;
use experiment::{Backend, Plan};
use lab::{Chance, Direction, Lab, Loss, Netem, Passed, Slot};
use link::{Distribution, Framing, Impairment, Limit};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use units::Draw;

/// Queue limit of a link without a rate, in frames: more than any delay needs.
/// iproute2's default of 1,000 would drop frames that only wait for their delay.
const PLENTY: u32 = 100_000;
/// Number of entries in the tables of iproute2.
/// The kernel draws entries uniformly, so the number only sets the resolution.
const ENTRIES: usize = 4096;

/// A direction of a link that netem impairs.
#[derive(Debug)]
struct Impaired {
    /// The node, and the index of the interface among the node's.
    node: usize,
    interface: usize,
    way: Direction,
    place: Place,
    configured: Impairment,
    /// See [`Done::counted`].
    counted: bool,
    /// The medium's end, if frames leave by it.
    end: Option<OwnedFd>,
}

/// All links that netem impairs in a run.
#[derive(Debug, Default)]
pub(crate) struct Impairments {
    links: Vec<Impaired>,
    impairment_seed: u64,
}

/// Netem's counters of one link direction.
#[derive(Debug)]
pub(crate) struct Done {
    pub place: Place,
    pub way: Direction,
    pub configured: Arc<Impairment>,
    pub passed: Passed,
    /// Whether the counters are of frames. With `offload` they are not: of an unsegmented frame, the
    /// kernel counts the segments if it passes, none if a packet socket sent it, and one if it is
    /// lost.
    pub counted: bool,
}

/// Whether a plan uses netem.
pub(crate) fn is_used(plan: &Plan) -> bool {
    plan.networks.iter().any(|network| network.backend == Backend::Netem)
}

/// Tests whether this machine's kernel supports the networks of a plan. `tool` is a program whose
/// `main` serves as the fork server.
///
/// # Errors
/// When the plan has a network with `backend: netem` and the kernel has no netem.
pub fn check_backends(plan: &Plan, tool: &Path) -> Result<(), Error> {
    match plan.networks.iter().find(|network| network.backend == Backend::Netem) {
        Some(network) => lab::try_netem(tool)
            .map_err(|source| Error::Netem { network: network.name.clone(), source }),
        None => Ok(()),
    }
}

impl Impairments {
    /// The netem configuration of `plan`. `places` and `ends`, the medium's ends of all links, are
    /// in the order of the plan's links.
    ///
    /// # Errors
    /// When there are too many open files.
    pub fn of(plan: &Plan, places: &[Place], ends: &[OwnedFd]) -> std::io::Result<Self> {
        let mut links = Vec::new();
        let all = plan.nodes.iter().enumerate();
        let all = all.flat_map(|(node, planned)| {
            planned.links.iter().enumerate().map(move |(interface, link)| (node, interface, link))
        });
        for (((node, interface, link), place), end) in all.zip(places).zip(ends) {
            if plan.networks[place.segment].backend != Backend::Netem {
                continue;
            }
            let ways = [(Direction::Up, &link.up), (Direction::Down, &link.down)];
            for (way, configured) in
                ways.into_iter().filter(|(_, configured)| !configured.is_none())
            {
                // A copy, because the engine takes the descriptor over.
                let end = match way {
                    Direction::Up => None,
                    Direction::Down => Some(end.try_clone()?),
                };
                let (place, configured) = (*place, configured.clone());
                let counted = !plan.networks[place.segment].offload;
                links.push(Impaired { node, interface, way, place, configured, counted, end });
            }
        }
        Ok(Self { links, impairment_seed: plan.impairment_seed() })
    }

    /// Starts the impairments.
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn begin(&self, lab: &Lab) -> Result<(), Error> {
        for link in &self.links {
            if let Some(end) = &link.end {
                through_disciplines(end).map_err(Error::io("send frames through netem"))?;
            }
            // Random numbers for each direction of each link, so that they lose frames
            // independently.
            let Place { segment, endpoint } = link.place;
            let number = (segment as u64) << 32 | endpoint as u64;
            let draw =
                Draw::new(self.impairment_seed, number, u64::from(link.way == Direction::Down));
            let settings = netem(&link.configured, draw.seed());
            lab.nodes()[link.node].kind.impair(link.interface, link.way, &settings)?;
        }
        Ok(())
    }

    /// Netem's counters since then.
    ///
    /// # Errors
    /// When the kernel does not return them.
    pub fn done(&self, lab: &Lab) -> Result<Vec<Done>, lab::Error> {
        let each = self.links.iter().map(|link| {
            let passed = lab.nodes()[link.node].kind.passed(link.interface, link.way)?;
            let configured = Arc::new(link.configured.clone());
            Ok(Done { place: link.place, way: link.way, configured, passed, counted: link.counted })
        });
        each.collect()
    }
}

/// Configured drops that appear in other kernel counters.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Excused {
    /// Frames: those of the medium that a full netem queue refused, and those that a flipped bit
    /// may have made invalid.
    pub kernel: u64,
    /// Datagrams: those of a node that a full netem queue refused.
    pub sockets: u64,
}

/// The drops that netem explains.
pub(crate) fn excused(done: &[Done]) -> Excused {
    let mut excused = Excused::default();
    for done in done {
        match done.way {
            // The node's end drops what its sockets send, the medium's end what the medium sends
            // (decision 16). Both are configured, and no fault of the machine.
            Direction::Up => excused.sockets += done.passed.dropped,
            Direction::Down => excused.kernel += done.passed.dropped,
        }
        // Netem does not count the corrupted frames.
        let turned = done.passed.frames as f64 * done.configured.corrupt.share.fraction();
        excused.kernel += turned.ceil() as u64;
    }
    excused
}

/// Sends a packet socket's frames through the interface's queueing discipline, which the medium
/// bypasses for speed.
fn through_disciplines(socket: &OwnedFd) -> std::io::Result<()> {
    let off: libc::c_int = 0;
    // SAFETY: the option's value lives over the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_QDISC_BYPASS,
            (&raw const off).cast(),
            size_of_val(&off) as u32,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}

/// The netem configuration of a link. Settings that netem lacks never occur in a plan with
/// `backend: netem`.
fn netem(configured: &Impairment, seed: u64) -> Netem {
    let chance = |share, correlation| Chance { share, correlation };
    // All stages by name, so that the compiler reports a new one. Netem has no outages and no path MTU.
    let Impairment {
        delay,
        reorder,
        loss,
        corrupt,
        duplicate,
        transmission,
        queue,
        slot,
        handover: _,
        outage: _,
        path_mtu: _,
    } = configured;
    let loss = match *loss {
        link::Loss::Random(random) => Loss::Random(chance(random.share, random.correlation)),
        link::Loss::GilbertElliott(model) => Loss::GilbertElliott {
            p: model.p,
            r: model.r,
            bad: model.loss_bad,
            good: model.loss_good,
        },
        link::Loss::Markov(m) => {
            Loss::Markov { p13: m.p13, p31: m.p31, p32: m.p32, p23: m.p23, p14: m.p14 }
        }
    };
    // Without a rate the queue has only delayed frames, which must not be dropped.
    let limit = match queue.limit {
        Limit::Frames(frames) if transmission.rate().is_some() => frames,
        _ => PLENTY,
    };
    let Framing { overhead, cell } = transmission.framing;
    Netem {
        delay: delay.mean,
        jitter: delay.jitter,
        correlation: delay.correlation,
        distribution: table(&delay.distribution),
        loss,
        corrupt: chance(corrupt.share, corrupt.correlation),
        duplicate: chance(duplicate.share, duplicate.correlation),
        reorder: chance(reorder.share, reorder.correlation),
        gap: reorder.gap,
        rate: transmission.rate(),
        overhead,
        cell: cell.map(|cell| (cell.size, cell.overhead)),
        limit,
        slot: slot.0.map(|slot| Slot {
            min: slot.min,
            max: slot.max,
            packets: slot.packets,
            bytes: slot.bytes,
        }),
        seed,
    }
}

/// The jitter distribution as a netem table; empty for a uniform one.
fn table(shape: &Distribution) -> Vec<i16> {
    let entries = match shape {
        Distribution::Uniform => return Vec::new(),
        // A file may have as many entries as the kernel accepts.
        Distribution::Table(_) => lab::DISTRIBUTION_MOST,
        _ => ENTRIES,
    };
    let entry = |place: usize| {
        // The middle of the entry's share.
        let jitters = shape.quantile((place as f64 + 0.5) / entries as f64);
        // Saturates, as the tables themselves do.
        (jitters * lab::DISTRIBUTION_SCALE).round() as i16
    };
    (0..entries).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn impairment(json: serde_json::Value) -> Impairment {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn words_are_taken_over() {
        let configured = impairment(serde_json::json!({
            "delay": "20 ms", "jitter": "5 ms", "correlation": "25 %", "loss": "3 %",
            "loss_correlation": "4 %", "duplicate": "5 %", "duplicate_correlation": "6 %",
            "corrupt": "7 %", "corrupt_correlation": "8 %", "reorder": "9 %",
            "reorder_correlation": "10 %", "gap": 11, "rate": "1 Mbit/s", "overhead": "-14 B",
            "cell": {"size": "48 B", "overhead": "5 B"}, "queue": 12,
            "slot": {"min": "1 ms", "max": "2 ms", "packets": 13, "bytes": "14 B"},
        }));
        let settings = netem(&configured, 15);
        let percent = |of: f64| units::Ratio::from_fraction(of / 100.0).unwrap();
        assert_eq!(
            (settings.delay, settings.jitter, settings.correlation),
            (configured.delay.mean, configured.delay.jitter, percent(25.0))
        );
        let chance = |share, correlation| Chance {
            share: percent(share),
            correlation: percent(correlation),
        };
        assert_eq!(settings.loss, Loss::Random(chance(3.0, 4.0)));
        assert_eq!(
            [settings.duplicate, settings.corrupt, settings.reorder],
            [chance(5.0, 6.0), chance(7.0, 8.0), chance(9.0, 10.0)]
        );
        assert_eq!(
            (settings.gap, settings.overhead, settings.limit, settings.seed),
            (11, -14, 12, 15)
        );
        assert_eq!(settings.rate, configured.rate());
        assert_eq!(
            settings.cell.map(|(size, overhead)| (size.get(), overhead.get())),
            Some((48, 5))
        );
        let slot = settings.slot.unwrap();
        assert_eq!((slot.min.as_ms(), slot.max.as_ms(), slot.packets), (1.0, 2.0, Some(13)));
        assert_eq!(slot.bytes.map(units::Bytes::get), Some(14));
    }

    #[test]
    fn what_a_full_netem_drops_is_forgiven_where_the_kernel_counts_it() {
        let done = |way: Direction, corrupt: &str| Done {
            place: Place { segment: 0, endpoint: 0 },
            way,
            configured: Arc::new(impairment(serde_json::json!({ "corrupt": corrupt }))),
            passed: Passed { frames: 1000, bytes: 0, dropped: 7 },
            counted: true,
        };
        assert_eq!(excused(&[done(Direction::Up, "0 %")]), Excused { kernel: 0, sockets: 7 });
        assert_eq!(excused(&[done(Direction::Down, "5 %")]), Excused { kernel: 57, sockets: 0 });
    }

    #[test]
    fn a_link_without_a_rate_holds_plenty() {
        assert_eq!(netem(&impairment(serde_json::json!({"delay": "1 s"})), 0).limit, PLENTY);
    }

    #[test]
    fn shapes_are_tables_of_8192_a_jitter() {
        assert!(table(&Distribution::Uniform).is_empty());
        let normal = table(&Distribution::Normal);
        assert_eq!(normal.len(), ENTRIES);
        let near = |place: f64, want: i16| {
            let settings = normal[(place * ENTRIES as f64) as usize];
            assert!((settings - want).abs() < 60, "{settings} at {place}");
        };
        // The normal distribution's quantiles: -1, 0 and 1 standard deviation.
        near(0.158_66, -8192);
        near(0.5, 0);
        near(0.841_34, 8192);
        let two = link::Table::parse(Path::new("two.dist"), "-8192 16384").unwrap();
        let two = table(&Distribution::Table(two));
        let (low, high) = two.split_at(two.len() / 2);
        assert!(low.iter().all(|entry| *entry == -8192) && high.iter().all(|e| *e == 16384));
    }
}
