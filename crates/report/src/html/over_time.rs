//! Delay, loss and throughput over time.

use super::chart::{self, Axis, Line, colour};
use super::delay::key;
use super::page::{Page, View};
use crate::{CellRuns, MessageTimes, Spread};
use std::collections::BTreeMap;

/// Number of spans of time that messages are grouped into.
const BINS: usize = 60;

/// Points of a line: seconds from the start, and value.
type Points = Vec<(f64, f64)>;

/// What a chart shows.
struct Value {
    name: &'static str,
    unit: &'static str,
}

const DELAY: Value = Value { name: "delay", unit: "ms" };
const LOSS: Value = Value { name: "loss", unit: "%" };
const THROUGHPUT: Value = Value { name: "throughput", unit: "kbit/s" };

/// One of the lines of a course.
type Pick = fn(&Course) -> &Points;

/// The course of one cell's first run.
#[derive(Default)]
struct Course {
    median_ms: Points,
    p99_ms: Points,
    loss_pct: Points,
    throughput: Points,
}

/// Charts of the first repeat of each cell.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let courses: Vec<Course> = view.cells.iter().map(|cell| course(page, cell)).collect();
    let any = |of: Pick| courses.iter().any(|course| !of(course).is_empty());
    let (messages, rates) = (any(of_loss), any(of_throughput));
    if !messages && !rates {
        return;
    }
    page.section("time", "Over time");
    page.paragraph("The first repeat of each cell.");
    if any(of_median) {
        page.heading("Delay");
        page.paragraph(
            "From the scheduled time of a message to its answer, or to its receipt if nothing is \
             answered, by the time of sending: solid is the median, dashed the 99th percentile.",
        );
        draw(page, view, &courses, &[(of_median, false), (of_p99, true)], &DELAY);
    }
    if messages {
        page.heading("Loss");
        let lost = courses.iter().flat_map(|course| &course.loss_pct).any(|(_, pct)| *pct > 0.0);
        if lost {
            page.paragraph("Messages without an answer, or not received if nothing is answered.");
            draw(page, view, &courses, &[(of_loss, false)], &LOSS);
        } else {
            page.paragraph("No message was lost.");
        }
    }
    if rates {
        page.heading("Throughput");
        page.paragraph("What all nodes sent into their links, including headers.");
        draw(page, view, &courses, &[(of_throughput, false)], &THROUGHPUT);
    }
}

fn of_median(course: &Course) -> &Points {
    &course.median_ms
}

fn of_p99(course: &Course) -> &Points {
    &course.p99_ms
}

fn of_loss(course: &Course) -> &Points {
    &course.loss_pct
}

fn of_throughput(course: &Course) -> &Points {
    &course.throughput
}

/// A row of charts, one per panel. `which` has the lines of a cell, and whether they are dashed.
fn draw(
    page: &mut Page,
    view: &View<'_>,
    courses: &[Course],
    which: &[(Pick, bool)],
    value: &Value,
) {
    let Value { name, unit } = value;
    let all = courses.iter().flat_map(|course| which.iter().flat_map(|(of, _)| of(course)));
    let all: Vec<f64> = all.map(|(_, value)| *value).collect();
    page.begin_charts(&key(view));
    for panel in &view.panels.panels {
        let (mut lines, mut cells) = (Vec::new(), Vec::new());
        for (cell, series) in &panel.cells {
            for (of, dashed) in which {
                let points = of(&courses[*cell]).clone();
                if points.is_empty() {
                    continue;
                }
                let series_name = &view.panels.series[*series];
                let name = match (*dashed, series_name.as_str()) {
                    (true, "") => "p99".to_owned(),
                    (true, series) => format!("{series}, p99"),
                    (false, "") => (*name).to_owned(),
                    (false, series) => series.to_owned(),
                };
                let (colour, dashed) = (colour(*series), *dashed);
                lines.push(Line { name, colour, dashed, steps: false, points });
                cells.push(*cell);
            }
        }
        if lines.is_empty() {
            continue;
        }
        let x = Axis::linear("time from the start", "s");
        let y = match *unit {
            // Up to 100 %, small shares would be a line at the bottom.
            "%" if all.iter().any(|pct| *pct > 50.0) => Axis::linear(name, unit).hundred(),
            _ => Axis::fitting(name, unit, &all),
        };
        let label = format!("{name} over time, {}", panel.name);
        page.chart(&panel.name, chart::lines(&label, lines, x, y).of_cells(cells));
    }
    page.end_charts();
}

/// The course of the cell's first run that has messages or intervals of links.
fn course(page: &mut Page, cell: &CellRuns<'_>) -> Course {
    let mut course = Course::default();
    // One repeat only: a mean over repeats would hide what happened at one moment (decision 91).
    for run in &cell.runs {
        match run.messages() {
            Ok(messages) => of_messages(&mut course, &messages),
            // Another section notes it, too; notes are not repeated.
            Err(error) => page.note(error.to_string()),
        }
        // Runs of earlier versions have no intervals.
        let rows = run.intervals().unwrap_or_default();
        // By the middle of the interval, in ms: bits, and seconds.
        let mut rates: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
        // Up only: each frame is sent into one link, and received from as many as it has receivers.
        for row in rows.iter().filter(|row| row.direction == "up" && row.end_s > row.start_s) {
            let middle = (500.0 * (row.start_s + row.end_s)).max(0.0) as u64;
            let rate = rates.entry(middle).or_default();
            // Intervals of all links together: bits add up, the time does not.
            *rate = [rate[0] + row.bytes * 8.0, rate[1].max(row.end_s - row.start_s)];
        }
        let rates = rates.into_iter();
        course.throughput =
            rates.map(|(ms, [bits, seconds])| (ms as f64 / 1e3, bits / seconds / 1e3)).collect();
        if !course.loss_pct.is_empty() || !course.throughput.is_empty() {
            break;
        }
    }
    course
}

fn of_messages(course: &mut Course, messages: &[MessageTimes]) {
    let answered = messages.iter().any(|message| message.reply_received_ns.is_some());
    let last = messages.iter().filter_map(|message| message.intended_ns).fold(0.0, f64::max);
    let bins = BINS.min(messages.len());
    if bins == 0 {
        return;
    }
    // If all messages were sent at 0, spans would have no length.
    let span = (last / bins as f64).max(1.0);
    let mut all: Vec<(usize, Vec<f64>)> = vec![(0, Vec::new()); bins];
    for message in messages {
        let Some(intended) = message.intended_ns else { continue };
        // By the time of sending, so that a lost message counts where it was lost.
        let bin = &mut all[((intended / span).max(0.0) as usize).min(bins - 1)];
        bin.0 += 1;
        bin.1.extend(if answered { message.round_trip_ms() } else { message.one_way_ms() });
    }
    for (place, (sent, mut times)) in all.into_iter().enumerate() {
        if sent == 0 {
            continue;
        }
        let at = (place as f64 + 0.5) * span / 1e9;
        course.loss_pct.push((at, 100.0 * (1.0 - times.len() as f64 / sent as f64)));
        times.sort_by(f64::total_cmp);
        // The smallest time that 99 % do not exceed.
        let p99 = times.get((times.len() * 99).div_ceil(100).saturating_sub(1)).copied();
        let median = Spread::of(times).map(|spread| spread.median);
        // A logarithmic axis has no zero.
        course.median_ms.extend(median.map(|ms| (at, ms.max(1e-3))));
        course.p99_ms.extend(p99.map(|ms| (at, ms.max(1e-3))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_and_loss_are_those_of_their_time() {
        // 120 messages, one each 10 ms; the second half takes longer, and each fourth is lost.
        let message = |k: u32| {
            let intended = f64::from(k) * 1e7;
            let late = k >= 60;
            let reply =
                (!late || !k.is_multiple_of(4)).then_some(intended + if late { 9e6 } else { 2e6 });
            MessageTimes {
                intended_ns: Some(intended),
                received_ns: None,
                reply_received_ns: reply,
            }
        };
        let messages: Vec<MessageTimes> = (0..120).map(message).collect();
        let mut course = Course::default();
        of_messages(&mut course, &messages);
        assert_eq!(course.loss_pct.len(), BINS);
        assert!(course.loss_pct[..29].iter().all(|(_, pct)| *pct == 0.0));
        let later: f64 = course.loss_pct[30..].iter().map(|(_, pct)| pct).sum::<f64>() / 30.0;
        assert!((later - 25.0).abs() < 2.0, "{later}");
        assert_eq!((course.median_ms[3].1, course.median_ms.last().unwrap().1), (2.0, 9.0));
        assert!((course.loss_pct[59].0 - 1.18).abs() < 0.02);
    }

    #[test]
    fn the_median_of_two_is_between_them_and_the_p99_of_few_is_the_greatest() {
        let message = |ms: f64| MessageTimes {
            intended_ns: Some(0.0),
            received_ns: Some(ms * 1e6),
            reply_received_ns: None,
        };
        let of = |times: &[f64]| {
            let messages: Vec<_> = times.iter().map(|ms| message(*ms)).collect();
            let mut course = Course::default();
            of_messages(&mut course, &messages);
            // All were sent at 0, so one span has them.
            assert_eq!((course.median_ms.len(), course.p99_ms.len()), (1, 1));
            (course.median_ms[0].1, course.p99_ms[0].1)
        };
        assert_eq!(of(&[100.0, 1.0]), (50.5, 100.0));
        assert_eq!(of(&[5.0]), (5.0, 5.0));
        // 99 % of 200 are 198: two are slower.
        let many: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(of(&many), (100.5, 198.0));
        assert_eq!(of(&[0.0]), (1e-3, 1e-3), "a logarithmic axis has no zero");
    }

    #[test]
    fn without_answers_delay_ends_at_the_receipt() {
        let one = MessageTimes {
            intended_ns: Some(0.0),
            received_ns: Some(4e6),
            reply_received_ns: None,
        };
        let mut course = Course::default();
        of_messages(&mut course, &[one]);
        assert_eq!((course.median_ms[0].1, course.loss_pct[0].1), (4.0, 0.0));
        of_messages(&mut Course::default(), &[]);
    }
}
