//! Estimates the battery energy of a board from the work of a node.

use crate::bed::jobs::{Job, Role};
use crate::power::{self, OffTimes};
use crate::results::Results;
use experiment::Board;
use measure::LinkRow;
use units::Span;

/// Work of a node over an interval; all fields in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Work {
    /// Length of the interval.
    pub seconds: f64,
    /// CPU time on this host.
    pub cpu: f64,
    /// Time spent sending.
    pub sending: f64,
    /// Time spent receiving.
    pub receiving: f64,
    /// Time for which the node was off or paused.
    pub off: f64,
}

/// Energy that the work takes from the board's battery.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spent {
    /// Energy, in joules.
    pub joules: f64,
    /// Energy of the radio, of that: while it sends, receives, and neither.
    pub radio: [f64; 3],
    /// Time for which the node was off or paused, in s: no energy.
    pub off: f64,
    /// Battery life at this rate, in days; `None` without a battery.
    pub days: Option<f64>,
}

/// Sums charge over states, each its current multiplied by its time:
///
/// ```text
/// Q = I_active t_cpu + I_idle (T - t_off - t_cpu)
///   + I_transmit t_tx + I_receive t_rx
///   + (I_listen d + I_sleep (1 - d)) (T - t_off - t_tx - t_rx)
/// E = U Q,   days = Q_battery / (Q / T) / 86400
/// ```
///
/// The CPU time is scaled to the board's, no state lasts longer than the time in which the node was on,
/// and d is the share of the idle time in which the radio listens. This is the usual sum over states, as in the
/// power sections of data sheets. State changes are free, and the full battery capacity is usable.
pub(crate) fn spent(board: &Board, work: &Work) -> Spent {
    let off = work.off.clamp(0.0, work.seconds);
    let on = work.seconds - off;
    let active = (work.cpu * board.scale).clamp(0.0, on);
    let idle = on - active;
    let mut coulombs = board.active.amperes() * active + board.idle.amperes() * idle;
    let mut by_state = [0.0; 3];
    if let Some(radio) = &board.radio {
        let sending = work.sending.clamp(0.0, on);
        let receiving = work.receiving.clamp(0.0, on - sending);
        let rest = on - sending - receiving;
        let duty = radio.listening.fraction();
        let quiet = radio.listen.amperes() * duty + radio.sleep.amperes() * (1.0 - duty);
        let [transmit, receive] = [radio.transmit, radio.receive].map(|current| current.amperes());
        by_state = [transmit * sending, receive * receiving, quiet * rest];
        coulombs += by_state.iter().sum::<f64>();
    }
    let mean = coulombs / work.seconds;
    let days = board.battery.filter(|_| mean > 0.0);
    Spent {
        joules: board.supply.volts() * coulombs,
        radio: by_state.map(|coulombs| board.supply.volts() * coulombs),
        off,
        days: days.map(|battery| battery.ampere_hours() / mean / 24.0),
    }
}

/// Total energy of a group's boards, and the shortest battery life among them. `None` for a group without
/// a board, or with a radio over links without a rate.
pub(crate) fn of_group(results: &Results<'_>, links: &[LinkRow], nodes: &[usize]) -> Option<Spent> {
    let (from, to) = power::measured(results)?;
    let seconds = to.seconds_from(from);
    let mut all = Spent { joules: 0.0, radio: [0.0; 3], off: 0.0, days: None };
    for node in nodes {
        let board = results.plan.nodes[*node].board.as_ref()?;
        let spent = spent(board, &work(results, links, *node, board, seconds)?);
        all.joules += spent.joules;
        all.off += spent.off;
        all.radio.iter_mut().zip(spent.radio).for_each(|(all, own)| *all += own);
        all.days = match (all.days, spent.days) {
            (Some(least), Some(own)) => Some(f64::min(least, own)),
            (least, own) => least.or(own),
        };
    }
    Some(all)
}

/// Work of a node during the measurement.
fn work(
    results: &Results<'_>,
    links: &[LinkRow],
    node: usize,
    board: &Board,
    seconds: f64,
) -> Option<Work> {
    // A collector belongs to the measurement, not to the node's board.
    let is_own = |job: &&Job| job.node == node && job.role != Role::Collector;
    let cpu: Span = results.jobs.iter().filter(is_own).map(|job| job.usage().cpu()).sum();
    // Without the set-up: the interval begins with the load phase.
    let cpu = cpu.as_s() - results.scheduled[node].before.as_s();
    let off = OffTimes::of_node(results, node).total().as_s();
    let mut work = Work { seconds, cpu: cpu.max(0.0), off, ..Work::default() };
    let Some(radio) = &board.radio else { return Some(work) };
    let name = &results.plan.nodes[node].name;
    let mut heard = 0.0;
    for row in links.iter().filter(|row| row.node == *name) {
        let channel = results.plan.network(&row.network).map(|network| &network.channel);
        let rate = match channel {
            // The channel knows what is on the air, who hears it, and when a radio is off.
            Some(link::Channel::Csma(_) | link::Channel::Wifi(_)) => {
                work.sending += row.measured.radio_sending.as_s();
                heard += row.measured.radio_receiving.as_s();
                continue;
            }
            _ if row.measured.frames == 0 => continue,
            Some(link::Channel::Shared(rate)) => Some(*rate),
            _ => row.configured.rate().or(radio.rate),
        };
        let time = match (row.measured.busy.as_ns(), rate) {
            // A link without a rate is never busy: the time on air then follows from the rate of
            // the channel, or of the board's radio.
            (0, rate) => row.measured.bytes as f64 * 8.0 / rate?.bit_s() as f64,
            (busy, _) => busy as f64 / 1e9,
        };
        match row.direction {
            "up" => work.sending += time,
            _ => work.receiving += time,
        }
    }
    // Other channels do not know when a node is off, and count what it would have received: it receives
    // the share of the time in which it is on.
    work.receiving *= ((seconds - off) / seconds).clamp(0.0, 1.0);
    work.receiving += heard;
    Some(work)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 mA and 1 mA of CPU; 20, 15, 5 and 0 mA of a radio that listens half its time.
    fn board(more: &str) -> Board {
        let text = format!(
            r#"{{"name": "", "source": "", "quality": "", "supply": "2 V", "battery": "24 mAh",
                "active": "10 mA", "idle": "1 mA", "scale": 1.0, "coremark": null {more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    const RADIO: &str = r#", "radio": {"transmit": "20 mA", "receive": "15 mA", "listen": "5 mA",
        "sleep": "0 A", "listening": "50 %", "rate": null}"#;

    #[test]
    fn each_state_takes_its_current_by_its_time() {
        let work = Work { seconds: 100.0, cpu: 10.0, sending: 1.0, receiving: 2.0, off: 0.0 };
        let cpu = spent(&board(r#", "radio": null"#), &work);
        // 0.1 As active and 0.09 As idle, at 2 V.
        assert!((cpu.joules - 0.38).abs() < 1e-12, "{cpu:?}");
        // 24 mAh at 1.9 mA.
        assert!((cpu.days.unwrap() - 24.0 / 1.9 / 24.0).abs() < 1e-9, "{cpu:?}");
        let all = spent(&board(RADIO), &work);
        // 0.02 As sending, 0.03 As receiving, 97 s at 2.5 mA.
        assert!((all.joules - 2.0 * (0.19 + 0.02 + 0.03 + 0.2425)).abs() < 1e-12, "{all:?}");
        let states = [0.04, 0.06, 0.485];
        assert!(all.radio.iter().zip(states).all(|(got, is)| (got - is).abs() < 1e-12), "{all:?}");
    }

    #[test]
    fn no_state_lasts_longer_than_there_was_time() {
        let mut slow = board(RADIO);
        slow.scale = 100.0;
        let work = Work { seconds: 10.0, cpu: 5.0, sending: 8.0, receiving: 8.0, off: 0.0 };
        let all = spent(&slow, &work);
        assert!((all.joules - 2.0 * (0.1 + 0.16 + 0.03)).abs() < 1e-12, "{all:?}");
    }

    #[test]
    fn a_node_that_is_off_takes_nothing_and_is_not_idle() {
        let work = Work { seconds: 100.0, cpu: 10.0, sending: 1.0, receiving: 2.0, off: 40.0 };
        let some = spent(&board(RADIO), &work);
        // 0.1 As active, 50 s at 1 mA, 0.02 As sending, 0.03 As receiving, 57 s at 2.5 mA.
        let coulombs = 0.1 + 0.05 + 0.02 + 0.03 + 0.1425;
        assert!((some.joules - 2.0 * coulombs).abs() < 1e-12, "{some:?}");
        assert_eq!(some.off, 40.0);
        // Over all of the time: the battery lasts longer.
        assert!((some.days.unwrap() - 24.0 / (1000.0 * coulombs / 100.0) / 24.0).abs() < 1e-9);
        let never = spent(&board(RADIO), &Work { off: 100.0, ..work });
        assert_eq!((never.joules, never.radio, never.days), (0.0, [0.0; 3], None));
    }

    #[test]
    fn no_battery_has_no_days() {
        let mut mains = board(r#", "radio": null"#);
        mains.battery = None;
        assert_eq!(spent(&mains, &Work { seconds: 1.0, ..Work::default() }).days, None);
    }
}
