//! Results of an engine.

use crate::observer::Observer;
use crate::overflow::Overflow;
use crate::priority::Priority;
use crate::shared_observer::SharedObserver;
use crate::stalls::Stalls;
use crate::threads::Threads;
use link::Totals;

/// Results of an engine, or of one of its threads.
pub struct Outcome<O> {
    /// The observer, with everything it recorded.
    pub observer: O,
    /// Scheduling of the threads; the lowest of several.
    pub priority: Priority,
    /// Counters of each link during the measurement, by segment and endpoint: up, then
    /// down.
    pub totals: Vec<Vec<[Totals; 2]>>,
    /// What each endpoint sent beyond the limits of tables, by segment.
    pub overflows: Vec<Vec<Overflow>>,
    /// Why changes failed.
    pub refused: Vec<String>,
    /// Stalls of the threads during the measurement.
    pub stalls: Stalls,
}

impl<O: Observer> Outcome<O> {
    /// The results of all threads together; `None` without a thread.
    pub(crate) fn join(
        mut parts: Vec<Outcome<SharedObserver<O>>>,
        threads: &Threads,
    ) -> Option<Self> {
        let segments = 0..parts.first()?.totals.len();
        let totals = segments
            .clone()
            .map(|segment| std::mem::take(&mut parts[threads.of(segment)].totals[segment]))
            .collect();
        let overflows = segments
            .map(|segment| std::mem::take(&mut parts[threads.of(segment)].overflows[segment]))
            .collect();
        Some(Self {
            priority: parts.iter().map(|part| part.priority).max()?,
            totals,
            overflows,
            refused: parts.iter_mut().flat_map(|part| std::mem::take(&mut part.refused)).collect(),
            stalls: parts.iter().map(|part| part.stalls).fold(Stalls::default(), Stalls::with),
            observer: SharedObserver::join(parts.into_iter().map(|part| part.observer).collect())?,
        })
    }
}
