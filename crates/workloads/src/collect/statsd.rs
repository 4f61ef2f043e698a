//! StatsD's line format: `name:value|type`, with `|@rate` and further fields after it. Lines of one
//! datagram are separated by line feeds. Also the extensions of DogStatsD that libraries send
//! unasked: several values (`name:1:2|ms`), and tags (`|#`), which are ignored.

use record::is_usable;
use std::collections::{HashMap, HashSet};

/// Most distinct values of a set that are told apart: programs may send any number.
const SET_LIMIT: usize = 65_536;

/// The values of a datagram's metrics, and the state that relative values need.
#[derive(Debug, Default)]
pub struct Statsd {
    gauges: HashMap<String, f64>,
    sets: HashMap<String, HashSet<String>>,
}

impl Statsd {
    /// The metrics of a line as name and values, or `None` if it has another format. Only the names
    /// that `is_kept` accepts leave state behind; others have no values.
    pub fn line<'a>(
        &mut self,
        line: &'a str,
        is_kept: impl Fn(&str) -> bool,
    ) -> Option<(&'a str, Vec<f64>)> {
        // A name may contain colons, if a value still follows.
        let (head, rest) = line.split_once('|')?;
        let (name, values) = head.split_once(':')?;
        let mut fields = rest.split('|');
        let kind = fields.next()?;
        let rate = fields.find_map(|field| field.strip_prefix('@'));
        let rate = match rate {
            Some(text) => text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0)?,
            None => 1.0,
        };
        if name.is_empty() || !matches!(kind, "c" | "g" | "ms" | "h" | "d" | "s") {
            return None;
        }
        let number = |text: &'a str| match kind {
            "s" => Some((text, 0.0)),
            _ => Some((text, text.parse().ok().filter(|value: &f64| is_usable(*value))?)),
        };
        // A line with a wrong value changes no state.
        let numbers = values.split(':').map(number).collect::<Option<Vec<_>>>()?;
        let mut found = Vec::new();
        for (text, value) in numbers.into_iter().filter(|_| is_kept(name)) {
            let value = match kind {
                // Each line that arrives stands for 1 / rate of them.
                "c" => value / rate,
                "g" => self.gauge(name, text, value),
                "s" => self.distinct(name, text),
                _ => value,
            };
            found.push(Some(value).filter(|value| is_usable(*value))?);
        }
        Some((name, found))
    }

    /// The value of a gauge; a sign makes it relative to the last one.
    fn gauge(&mut self, name: &str, text: &str, value: f64) -> f64 {
        let last = self.gauges.entry(name.to_owned()).or_default();
        // So a gauge cannot be set to a negative value at once, as in StatsD itself.
        let next = if text.starts_with(['+', '-']) { *last + value } else { value };
        *last = if is_usable(next) { next } else { *last };
        next
    }

    /// The number of distinct values of a set so far.
    fn distinct(&mut self, name: &str, text: &str) -> f64 {
        let set = self.sets.entry(name.to_owned()).or_default();
        if set.len() < SET_LIMIT {
            set.insert(text.to_owned());
        }
        set.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(lines: &[&str]) -> Vec<Option<Vec<f64>>> {
        let mut statsd = Statsd::default();
        lines.iter().map(|line| Some(statsd.line(line, |_| true)?.1)).collect()
    }

    #[test]
    fn each_type_has_its_value() {
        let found = values(&["a:1|c", "a:3|c|@0.5", "a:320|ms", "a:1.5|h|#x:y", "a:1:2|d"]);
        let expected = [vec![1.0], vec![6.0], vec![320.0], vec![1.5], vec![1.0, 2.0]];
        assert_eq!(found, expected.map(Some));
    }

    #[test]
    fn a_gauge_with_a_sign_is_relative_and_a_set_counts_distinct_values() {
        let found = values(&["g:10|g", "g:-3|g", "g:+1|g", "s:ann|s", "s:bob|s", "s:ann|s"]);
        let expected = [10.0, 7.0, 8.0, 1.0, 2.0, 2.0];
        assert_eq!(found, expected.map(|value| Some(vec![value])));
    }

    #[test]
    fn other_lines_are_refused() {
        let wrong = ["", "a", "a:1", "a|c", ":1|c", "a:x|c", "a:1|z", "a:1|c|@0", "a:inf|g"];
        assert_eq!(values(&wrong), vec![None; wrong.len()]);
    }

    #[test]
    fn values_do_not_become_infinite() {
        let found = values(&["c:1e299|c|@0.001", "g:9e299|g", "g:+9e299|g", "g:+1|g"]);
        assert_eq!(found, [None, Some(vec![9e299]), None, Some(vec![9e299])]);
    }

    #[test]
    fn names_of_no_interest_leave_nothing_behind() {
        let mut statsd = Statsd::default();
        for n in 0..10_000 {
            let line = format!("name-{n}:+1|g");
            assert_eq!(statsd.line(&line, |_| false).map(|found| found.1), Some(vec![]));
        }
        assert!(statsd.gauges.is_empty() && statsd.sets.is_empty());
    }
    use proptest::prelude::*;

    /// What failed: the values before the wrong one had changed the gauge.
    #[test]
    fn a_line_that_is_refused_changes_nothing() {
        let found = values(&["g:5|g", "g:+1:x|g", "g:+1|g", "g:+1:+2|g"]);
        let expected = [Some(vec![5.0]), None, Some(vec![6.0]), Some(vec![7.0, 9.0])];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_set_counts_up_to_its_limit() {
        let mut statsd = Statsd::default();
        let mut last = 0.0;
        for n in 0..SET_LIMIT + 10 {
            let line = format!("s:{n}|s");
            last = statsd.line(&line, |_| true).unwrap().1[0];
        }
        assert_eq!(last, SET_LIMIT as f64);
    }

    proptest! {
        /// A gauge is the sum of its changes since it was last set, whatever other lines come.
        #[test]
        fn a_gauge_follows_its_changes(
            steps in prop::collection::vec((-1000..1000_i32, 0..3_u8, any::<bool>()), 1..40),
        ) {
            let (mut statsd, mut expected) = (Statsd::default(), 0.0);
            for (value, what, foreign) in steps {
                let text = match what {
                    0 => format!("{}", value.abs()),
                    1 => format!("{value:+}"),
                    _ => format!("{value:+}:bad"),
                };
                let line = format!("g:{text}|g");
                let found = statsd.line(&line, |_| true);
                match what {
                    0 => expected = f64::from(value.abs()),
                    1 => expected += f64::from(value),
                    _ => {}
                }
                prop_assert_eq!(found, (what < 2).then(|| ("g", vec![expected])));
                if foreign {
                    let _ = statsd.line("other:+5|g", |_| true);
                }
            }
        }

        #[test]
        fn any_line_has_usable_values_or_none(line in "[a-c:|@#.+0-9cgmshd-]{0,40}") {
            let mut statsd = Statsd::default();
            for _ in 0..2 {
                let found = statsd.line(&line, |_| true);
                let Some((name, values)) = found else { continue };
                prop_assert!(!name.is_empty(), "{}", line);
                prop_assert!(values.iter().all(|value| is_usable(*value)), "{}", line);
            }
        }
    }
}
