//! Metrics of a run's summary that a check can name: the numbers of [`Summary`].

use crate::nearest::{advice, nearest};
use record::{Part, Shape, Summary};

/// Checks that a summary has `metric`. The error names the nearest known metric.
pub(crate) fn check<'a>(
    metric: &str,
    groups: impl IntoIterator<Item = &'a String>,
) -> Result<(), String> {
    let mut parts: Vec<&str> = metric.split('.').collect();
    let groups: Vec<&str> = groups.into_iter().map(String::as_str).chain(["*"]).collect();
    let correct = |part: &str, known: &[&'a str]| {
        let known = known.iter().copied();
        nearest(part, known.clone()).ok_or_else(|| advice(part, known))
    };
    if let ["groups", group, ..] = parts[..]
        && !groups.contains(&group)
    {
        parts[1] = correct(group, &groups)?;
    }
    // Each round replaces the first unknown part by the nearest known one.
    while let Err((place, here)) = Summary::shape().figure(&parts) {
        let known = here.names();
        match parts.get(place) {
            Some(part) if !known.is_empty() => parts[place] = correct(part, &known)?,
            _ => return Err(example(&parts[..place], here)),
        }
    }
    let near = parts.join(".");
    if near == metric { Ok(()) } else { Err(format!("did you mean `{near}`?")) }
}

/// What to write in place of a path that leads to `here`, which is not a number, or too long.
fn example(path: &[&str], here: Shape) -> String {
    let path: Vec<String> =
        path.iter().map(|part| (*part).to_owned()).chain(here.first()).collect();
    format!("write for example `{}`", path.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_the_nearest_is_named() {
        let groups = ["utility".to_owned()];
        assert_eq!(check("messages.rtd_ms.mean", &groups), Ok(()));
        assert_eq!(check("groups.utility.tx_bytes", &groups), Ok(()));
        let near = check("groups.utilty.tx_byte", &groups).unwrap_err();
        assert_eq!(near, "did you mean `groups.utility.tx_bytes`?");
    }

    #[test]
    fn figures_of_exchanges_are_known_by_their_form() {
        let groups: [String; 0] = [];
        for good in [
            "exchanges.coap.failed",
            "exchanges.coap.sizes.2500.time_ms",
            "exchanges.coap.sizes.2500.sections.payload_1.bytes",
        ] {
            assert_eq!(check(good, &groups), Ok(()), "{good}");
        }
        let near = check("exchanges.coap.sizes.2500.time", &groups).unwrap_err();
        assert!(near.contains("time_ms"), "{near}");
        let example = check("exchanges.coap.sizes.big.time_ms", &groups).unwrap_err();
        assert_eq!(example, "write for example `exchanges.coap.sizes.1.exchanges`");
        assert!(check("exchanges.coap.sizes.2500", &groups).is_err());
        assert!(check("messages.sent.mean", &groups).is_err());
        assert_eq!(check("loads.polling.response_ms.p99", &groups), Ok(()));
        assert_eq!(check("loads.polling.unanswered_pct", &groups), Ok(()));
        assert!(check("loads.polling.response_ms", &groups).is_err());
        assert!(check("loads.polling.slip_ms.p98", &groups).is_err());
    }
}
