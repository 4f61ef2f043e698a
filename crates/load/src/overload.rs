//! Tests of who is responsible when requests wait, in virtual time. A simulated sender,
//! whose every step takes a given time, sends over a few connections to a server with a
//! given service time.

use crate::figures::{Figures, Series};
use crate::outstanding::Outstanding;
use crate::request_feed::{FeedSummary, Operation};
use crate::request_queue::{RequestQueue, SlotTimes, Waiting};
use crate::run::figures;
use crate::settings::Settings;
use record::event::Pace;
use std::collections::VecDeque;
use std::time::Duration;
use trace::Method;
use units::{Instant, Span};

const US: Span = Span::from_us(1);
const MS: Span = Span::from_ms(1);
const SECOND: Span = Span::from_s(1);

/// The parameters of a simulation.
struct Scenario {
    /// Time between two requests, and the number of requests.
    every: Span,
    count: u64,
    connections: usize,
    /// Requests that the server handles in parallel, and its service time.
    workers: usize,
    service: Span,
    /// The sender's CPU time to send a request or to receive an answer.
    step: Span,
    /// The sender gets no CPU: from when, and for how long.
    stall: (Instant, Span),
    timeout: Span,
}

const SLOW_SERVER: Scenario = Scenario {
    every: Span::from_ms(5),
    count: 1_000,
    connections: 4,
    workers: 2,
    service: Span::from_ms(20),
    step: Span::from_us(10),
    stall: (Instant::START, Span::ZERO),
    timeout: Span::from_s(2),
};

#[derive(Clone, Copy, Default)]
struct Connection {
    slot: SlotTimes,
    /// The request under way: its number, send time and answer time.
    in_flight: Option<(u64, Instant, Instant)>,
}

/// Runs the simulation with the loop of the real sender.
fn run(scenario: &Scenario) -> Figures {
    let mut outstanding = Outstanding::new(scenario.timeout, Instant::START, None);
    outstanding.series.push(Series::new(Method::Get, Some(0), 3));
    let mut queue = RequestQueue::default();
    let mut connections = vec![Connection::default(); scenario.connections];
    let mut free: VecDeque<usize> = (0..scenario.connections).collect();
    let mut workers = vec![Instant::START; scenario.workers];
    let (mut now, mut next, mut stalled) = (Instant::START, 0, false);
    let due_at = |number: u64| Instant::START + scenario.every * number;
    loop {
        if !stalled && scenario.stall.1 > Span::ZERO && now >= scenario.stall.0 {
            (now, stalled) = (now + scenario.stall.1, true);
        }
        let mut idle = true;
        while next < scenario.count && due_at(next) <= now {
            let operation = Operation { at: Span::ZERO, template: 0, series: 0 };
            let intended = due_at(next);
            let number = outstanding.queued(operation, intended, now);
            queue.push(Waiting { number, intended, operation });
            (next, idle) = (next + 1, false);
        }
        for (place, connection) in connections.iter_mut().enumerate() {
            let Some((number, sent, arrives)) = connection.in_flight else { continue };
            if arrives <= now {
                now += scenario.step;
                outstanding.answered(number, now, 0x45, false);
                let slot = SlotTimes::freed(arrives, arrives - sent);
                *connection = Connection { slot, in_flight: None };
                free.push_back(place);
                idle = false;
            }
        }
        while let Some(waiting) = queue.expired(now, scenario.timeout) {
            match queue.is_machine_bound() {
                true => outstanding.too_late(waiting.number),
                false => outstanding.no_connection(waiting.number),
            }
        }
        while let Some(place) = (!queue.is_empty()).then(|| free.pop_front()).flatten() {
            let Some(Waiting { number, intended, .. }) = queue.pop() else { break };
            let wait = queue.wait(&connections[place].slot, intended, now);
            outstanding.dequeued(number, now, wait, true);
            let worker = workers.iter_mut().min().unwrap();
            *worker = (*worker).max(now) + scenario.service;
            connections[place].in_flight = Some((number, now, *worker));
            (now, idle) = (now + scenario.step, false);
        }
        outstanding.expire(now);
        let arrivals = connections.iter().filter_map(|c| Some(c.in_flight?.2));
        let due = (next < scenario.count).then(|| due_at(next));
        match arrivals.chain(due).min() {
            None if queue.is_empty() => break,
            Some(at) if idle => now = now.max(at),
            _ => {}
        }
    }
    outstanding.close();
    let feed_summary = FeedSummary::default();
    figures(vec![outstanding], &feed_summary, &Settings::default(), Duration::ZERO)
}

#[test]
fn a_slow_server_is_responsible_for_what_waits_for_it() {
    let figures = run(&SLOW_SERVER);
    let all = figures.all();
    assert_eq!(figures.pace(), Pace::Kept);
    assert_eq!((all.counts.scheduled, all.counts.unsent), (1_000, 0));
    // The server handles 100 requests a second: 700 in the 5 s in which 1,000 are due and
    // the 2 s timeout of the last of them. The others are lost to the server, not to this
    // machine.
    assert!((290..=300).contains(&all.counts.no_connection), "{:?}", all.counts);
    assert_eq!(all.counts.timed_out, all.counts.no_connection);
    assert!(all.slip.quantile_ns(0.99) <= (50 * US).as_ns(), "{}", all.slip.quantile_ns(0.99));
    let wait = all.wait.as_ref().unwrap();
    assert!(
        wait.quantile_ns(0.5) > SECOND.as_ns() && wait.quantile_ns(1.0) <= (2 * SECOND).as_ns()
    );
    assert!(
        all.response.quantile_ns(1.0) > (2 * SECOND).as_ns(),
        "responses have the wait in them"
    );
    assert!(all.service.quantile_ns(1.0) <= (41 * MS).as_ns());
}

#[test]
fn a_single_stall_of_the_sender_does_not_make_it_responsible() {
    let figures = run(&Scenario { stall: (Instant::START + SECOND * 2, MS * 100), ..SLOW_SERVER });
    let all = figures.all();
    assert_eq!((figures.pace(), all.counts.unsent), (Pace::Kept, 0));
    assert!(all.wait.unwrap().quantile_ns(0.5) > SECOND.as_ns());
    // Slip shows the requests that the stall delayed.
    assert!(all.slip.quantile_ns(1.0) > (50 * MS).as_ns());
}

#[test]
fn a_sender_that_cannot_make_the_rate_is_responsible() {
    // 20,000 requests a second, each with 100 us of work for the sender, to a fast server.
    let figures = run(&Scenario {
        every: 50 * US,
        count: 100_000,
        connections: 16,
        workers: 16,
        service: 100 * US,
        step: 50 * US,
        ..SLOW_SERVER
    });
    let all = figures.all();
    assert_eq!(figures.pace(), Pace::NotKept);
    assert_eq!(all.counts.no_connection, 0, "the server was always quick");
    assert!(
        all.counts.unsent > 0 && all.slip.quantile_ns(0.9) > SECOND.as_ns(),
        "{:?}",
        all.counts
    );
    assert!(all.wait.unwrap().quantile_ns(0.9) < MS.as_ns());
}

#[test]
fn a_schedule_that_both_keep_waits_for_nothing() {
    let figures = run(&Scenario { every: 25 * MS, ..SLOW_SERVER });
    let all = figures.all();
    assert_eq!((figures.pace(), all.counts.answered), (Pace::Kept, 1_000));
    assert_eq!(all.wait.unwrap().quantile_ns(1.0), 0);
    assert_eq!(all.response.quantile_ns(1.0), all.service.quantile_ns(1.0));
}
