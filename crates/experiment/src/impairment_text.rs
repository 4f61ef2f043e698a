//! Text form of a link's impairments, for people.

use medium::{Distribution, GrantSpec, Impairment, Limit, LossUnit, Outage};
use units::{Bytes, Ratio, Span};

/// Formats the impairments of one direction, in the file's terms and in the order in which a frame
/// passes them.
pub fn impairment(it: &Impairment) -> String {
    if it.is_none() {
        return "no impairments".to_owned();
    }
    let mut parts = Vec::new();
    parts.extend(it.outages.iter().map(outage));
    parts.extend(share("duplicate", it.duplicate, it.duplicate_correlation));
    if let Some(rate) = rate(it) {
        parts.push(rate);
    }
    parts.extend(loss(it));
    parts.extend(share("corrupt", it.corrupt, it.corrupt_correlation));
    parts.extend(delay(it));
    if let Some(reorder) = share("reorder", it.reorder, it.reorder_correlation) {
        let gap = if it.gap > 1 { format!(", gap {}", it.gap) } else { String::new() };
        parts.push(reorder + &gap);
    }
    if let Some(slot) = it.slot {
        let between = if slot.min == slot.max {
            time(slot.min)
        } else {
            format!("{} .. {}", time(slot.min), time(slot.max))
        };
        parts.push(format!("slots of {between}"));
    }
    parts.join(", ")
}

fn rate(it: &Impairment) -> Option<String> {
    let mut text = match (&it.grant, &it.trace, it.rate) {
        (Some(grant), ..) => granted(grant),
        (None, Some(trace), _) => {
            format!("trace {} ({:.0} kbit/s)", trace.file.display(), trace.mean_bit_s() / 1e3)
        }
        (None, None, Some(rate)) => rate.to_string(),
        (None, None, None) => return None,
    };
    if it.burst != Bytes::ZERO {
        text += &format!(" (burst {} B)", it.burst.get());
    }
    if it.overhead != 0 {
        text += &format!(" ({:+} B per frame)", it.overhead);
    }
    if let Some(cell) = it.cell {
        text += &format!(" (cells of {} + {} B)", cell.size.get(), cell.overhead.get());
    }
    text += &match it.queue {
        Limit::Frames(frames) => format!(", queue {frames}"),
        Limit::Bytes(bytes) => format!(", queue {bytes}"),
    };
    if it.codel.is_some() {
        text += " (CoDel)";
    }
    if it.red.is_some() {
        text += " (RED)";
    }
    Some(text)
}

/// Formats the grants of a cellular uplink.
fn granted(grant: &GrantSpec) -> String {
    let mut text = format!("grants of {} B every {}", grant.transport_block.get(), time(grant.tti));
    if grant.efficiency.fraction() < 1.0 {
        text += &format!(" at {} efficiency", grant.efficiency);
    }
    let mut terms = Vec::new();
    terms.extend(grant.cycle.map(|cycle| format!("cycle {}", time(cycle))));
    terms.extend(grant.request_period.map(|period| format!("request period {}", time(period))));
    terms.extend(grant.delay.map(|delay| format!("delay {}", time(delay))));
    terms.extend(grant.initial.map(|bytes| format!("initial {} B", bytes.get())));
    terms.extend(grant.hold.map(|hold| format!("hold {}", time(hold))));
    if grant.overhead != Bytes::ZERO {
        terms.push(format!("overhead {} B per packet", grant.overhead.get()));
    }
    if grant.offset != Span::ZERO {
        terms.push(format!("offset {}", time(grant.offset)));
    }
    if !terms.is_empty() {
        text += &format!(" ({})", terms.join(", "));
    }
    text
}

fn delay(it: &Impairment) -> Option<String> {
    if it.delay == Span::ZERO && it.jitter == Span::ZERO {
        return None;
    }
    let mut text = format!("delay {}", time(it.delay));
    if it.jitter != Span::ZERO {
        text += &format!(" +/- {}", time(it.jitter));
        text += &match &it.distribution {
            Distribution::Uniform => String::new(),
            Distribution::Normal => " (normal)".to_owned(),
            Distribution::Pareto => " (pareto)".to_owned(),
            Distribution::ParetoNormal => " (paretonormal)".to_owned(),
            Distribution::Table(table) => format!(" ({})", table.file.display()),
        };
        if it.correlation.fraction() > 0.0 {
            text += &format!(" (correlation {})", it.correlation);
        }
        if it.keep_order {
            text += ", order kept";
        }
    }
    Some(text)
}

fn loss(it: &Impairment) -> Option<String> {
    if let Some(model) = it.gilbert_elliott {
        return Some(format!(
            "Gilbert-Elliott loss: p {}, r {}, 1-h {}, 1-k {}",
            model.p, model.r, model.loss_bad, model.loss_good
        ));
    }
    if let Some(model) = it.markov {
        return Some(format!(
            "four-state loss: p13 {}, p31 {}, p32 {}, p23 {}, p14 {}",
            model.p13, model.p31, model.p32, model.p23, model.p14
        ));
    }
    let unit = match it.loss_unit {
        LossUnit::Frame => "frame",
        LossUnit::Datagram => "datagram",
        LossUnit::Train => "train",
    };
    let loss = share("loss", it.loss, it.loss_correlation)?;
    Some(format!("{loss} per {unit}"))
}

fn share(what: &str, share: Ratio, correlation: Ratio) -> Option<String> {
    if share.fraction() == 0.0 {
        return None;
    }
    let correlated = match correlation.fraction() {
        0.0 => String::new(),
        _ => format!(" (correlation {correlation})"),
    };
    Some(format!("{what} {share}{correlated}"))
}

fn outage(outage: &Outage) -> String {
    match outage {
        Outage::Scheduled { at, lasts, every } => {
            let every = every.map_or(String::new(), |every| format!(", every {}", time(every)));
            format!("down at {} for {}{every}", time(*at), time(*lasts))
        }
        Outage::Random { mean_up, mean_down } => {
            format!("up {} and down {} on average", time(*mean_up), time(*mean_down))
        }
    }
}

/// Formats a time in a convenient unit.
pub(crate) fn time(span: Span) -> String {
    let ns = span.as_ns();
    match ns {
        0 => "0 s".to_owned(),
        n if n < 1_000_000 => span.to_string(),
        n if n < 1_000_000_000 => format!("{} ms", n as f64 / 1e6),
        n if n < 120_000_000_000 => format!("{} s", n as f64 / 1e9),
        n => format!("{} min", (n as f64 / 6e8).round() / 100.0),
    }
}
