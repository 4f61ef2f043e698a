//! Finds values in the output of a program.

use experiment::{Pattern, ProgramMetric, Rule};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use units::Bytes;

/// Longest line that is searched, in bytes; the rest of a longer one is skipped.
const LINE_LIMIT: u64 = 1 << 20;
/// Largest output that is read as one JSON document, in bytes; a larger one is read by line.
const DOCUMENT_LIMIT: u64 = 64 << 20;
/// Most values of one metric of one program: a program may print without end.
const VALUE_LIMIT: usize = 10_000_000;

/// Passes the values of `metric` in an output to `take`, in its order. Returns why there may be more
/// of them.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn values<R: Read>(
    metric: &ProgramMetric,
    open: impl Fn() -> io::Result<R>,
    take: &mut dyn FnMut(f64),
) -> io::Result<Option<String>> {
    let (mut found, mut skipped) = (Found { count: 0, take }, 0);
    match &metric.rule {
        Rule::Json(path) => {
            let path: Vec<&str> = path.split('.').collect();
            if let Some(documents) = documents(open()?)? {
                documents.iter().for_each(|document| collect(document, &path, &mut found));
            } else {
                // Programs print JSON lines among other text.
                skipped = lines(open()?, |line| {
                    if let Ok(document) = serde_json::from_str(line) {
                        collect(&document, &path, &mut found);
                    }
                    !found.are_too_many()
                })?;
            }
        }
        // A pattern that the plan accepted compiles.
        Rule::Match(text) => match Pattern::new(text) {
            Ok(pattern) => {
                skipped = lines(open()?, |line| {
                    let values = pattern.values(line, &metric.unit);
                    values.into_iter().for_each(|value| found.add(value));
                    !found.are_too_many()
                })?;
            }
            Err(why) => return Err(io::Error::other(why)),
        },
        // Not in the output.
        Rule::Statsd(_) | Rule::Prometheus(_) | Rule::Opentelemetry(_) => {}
    }
    Ok(match found.are_too_many() {
        true => Some(format!(
            "the output has more than {VALUE_LIMIT} values, and only these are counted. Let the \
             program print fewer, or sums instead of single values"
        )),
        false if skipped > 0 => Some(format!(
            "{skipped} lines of the output are longer than {} and were searched up to there only. \
             Let the program print shorter lines",
            Bytes::new(LINE_LIMIT)
        )),
        false => None,
    })
}

/// The values of a metric in an output, up to [`VALUE_LIMIT`].
struct Found<'a> {
    /// Their number, with one more than allowed if there are more.
    count: usize,
    take: &'a mut dyn FnMut(f64),
}

impl Found<'_> {
    fn add(&mut self, value: f64) {
        if self.are_too_many() {
            return;
        }
        self.count += 1;
        if !self.are_too_many() {
            (self.take)(value);
        }
    }

    fn are_too_many(&self) -> bool {
        self.count > VALUE_LIMIT
    }
}

/// Whether `test` accepts a line of an output.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn any_line(output: impl Read, test: impl Fn(&str) -> bool) -> io::Result<bool> {
    let mut found = false;
    lines(output, |line| {
        found = test(line);
        !found
    })?;
    Ok(found)
}

/// All documents of an output that is JSON from begin to end.
fn documents(output: impl Read) -> io::Result<Option<Vec<Value>>> {
    let mut text = Vec::new();
    // One byte more shows that it is larger.
    output.take(DOCUMENT_LIMIT + 1).read_to_end(&mut text)?;
    if text.len() as u64 > DOCUMENT_LIMIT {
        return Ok(None);
    }
    let all: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_slice(&text).into_iter().collect();
    Ok(all.ok())
}

/// Passes each line to `take`, until it returns false; returns the number of lines that were cut.
fn lines(output: impl Read, mut take: impl FnMut(&str) -> bool) -> io::Result<u64> {
    let mut cut = 0;
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut output).take(LINE_LIMIT).read_until(b'\n', &mut line)? == 0 {
            return Ok(cut);
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == LINE_LIMIT {
            cut += u64::from(skip_line(&mut output)?);
        }
        // A program may print any bytes, and a line may be cut within a character.
        let text = String::from_utf8_lossy(&line);
        if !take(text.trim_end_matches(['\r', '\n'])) {
            return Ok(cut);
        }
    }
}

/// Skips the rest of a line; returns whether there was any.
fn skip_line(output: &mut impl BufRead) -> io::Result<bool> {
    let mut skipped = false;
    loop {
        let available = output.fill_buf()?;
        let end = available.iter().position(|byte| *byte == b'\n');
        let (length, is_end) = (available.len(), end.is_some() || available.is_empty());
        skipped |= end.unwrap_or(length) > 0;
        output.consume(end.map_or(length, |end| end + 1));
        if is_end {
            return Ok(skipped);
        }
    }
}

/// Adds the numbers at the end of `path`.
fn collect(value: &Value, path: &[&str], found: &mut Found<'_>) {
    // Recursion is bounded: serde_json reads at most 128 levels.
    let Some((key, rest)) = path.split_first() else {
        match value {
            Value::Array(items) => items.iter().for_each(|item| collect(item, path, found)),
            other => number(other).into_iter().for_each(|number| found.add(number)),
        }
        return;
    };
    match (value, *key) {
        (Value::Array(items), "*") => items.iter().for_each(|item| collect(item, rest, found)),
        (Value::Object(keys), "*") => keys.values().for_each(|item| collect(item, rest, found)),
        (Value::Object(keys), key) => {
            keys.get(key).into_iter().for_each(|item| collect(item, rest, found));
        }
        (Value::Array(items), key) => {
            let item = key.parse().ok().and_then(|number: usize| items.get(number));
            item.into_iter().for_each(|item| collect(item, rest, found));
        }
        _ => {}
    }
}

/// A number, also as text or as a truth value.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(is) => Some(f64::from(u8::from(*is))),
        _ => None,
    };
    number.filter(|number: &f64| record::is_usable(*number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::Stream;
    use proptest::prelude::*;

    fn found(rule: Rule, output: &[u8]) -> Vec<f64> {
        let metric = ProgramMetric {
            name: "m".to_owned(),
            from: Stream::Stdout,
            rule,
            unit: "ms".to_owned(),
            optional: false,
        };
        let mut found = Vec::new();
        values(&metric, || Ok(output), &mut |value| found.push(value)).unwrap();
        found
    }

    fn json(path: &str, output: &str) -> Vec<f64> {
        found(Rule::Json(path.to_owned()), output.as_bytes())
    }

    #[test]
    fn a_path_leads_through_objects_and_lists() {
        let output =
            r#"{"end": {"sum": {"rate": 9.5}}, "parts": [{"n": 1}, {"n": "2"}, {"m": 3}]}"#;
        assert_eq!(json("end.sum.rate", output), [9.5]);
        assert_eq!(json("parts.*.n", output), [1.0, 2.0]);
        assert_eq!(json("parts.2.m", output), [3.0]);
        assert_eq!(json("parts.3.m", output), [] as [f64; 0]);
        assert_eq!(json("end.sum", output), [] as [f64; 0]);
        assert_eq!(json("x", r#"{"x": [1, [2, 3], "many", true, null]}"#), [1.0, 2.0, 3.0, 1.0]);
    }

    #[test]
    fn json_may_be_lines_among_other_text() {
        assert_eq!(json("t", "{\"t\": 1}\n{\"t\": 2}\n"), [1.0, 2.0]);
        assert_eq!(json("t", "connecting\n{\"t\": 1}\nlost {\"t\": 9}\n{\"t\": 2}"), [1.0, 2.0]);
    }

    #[test]
    fn a_pattern_applies_to_each_line_of_any_bytes() {
        let rule = || Rule::Match(r"time=(\d+)".to_owned());
        assert_eq!(found(rule(), b"time=1\r\ntime=2 \xff\xfe time=3\ntime="), [1.0, 2.0, 3.0]);
        let mut long = vec![b'x'; LINE_LIMIT as usize + 10];
        long.extend(b" time=5\ntime=6\n");
        assert_eq!(found(rule(), &long), [6.0], "beyond the limit a line is skipped");
        assert!(incomplete(&long).unwrap().contains("1 lines"));
        assert_eq!(incomplete(&[&vec![b'x'; LINE_LIMIT as usize][..], b"\n"].concat()), None);
    }

    fn incomplete(output: &[u8]) -> Option<String> {
        let metric = ProgramMetric {
            name: "m".to_owned(),
            from: Stream::Stdout,
            rule: Rule::Match(r"\d".to_owned()),
            unit: String::new(),
            optional: false,
        };
        let mut count = 0;
        let incomplete = values(&metric, || Ok(output), &mut |_| count += 1).unwrap();
        assert!(count <= VALUE_LIMIT);
        incomplete
    }

    #[test]
    fn values_above_the_limit_are_said() {
        let many = b"1\n".repeat(VALUE_LIMIT);
        assert_eq!(incomplete(&many), None);
        assert!(incomplete(&[&many[..], b"2\n"].concat()).unwrap().contains("more than 10000000"));
    }
    proptest! {
        /// However an output arrives in pieces, and whatever bytes it has.
        #[test]
        fn lines_are_those_of_the_whole_text(
            text in prop::collection::vec(prop::sample::select(&b"a1\r\n\xff"[..]), 0..200),
            piece in 1..9_usize,
        ) {
            let mut expected: Vec<_> =
                text.split(|byte| *byte == b'\n').map(String::from_utf8_lossy).collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let expected: Vec<_> =
                expected.iter().map(|line| line.trim_end_matches('\r').to_owned()).collect();
            let mut found = Vec::new();
            let pieces = text.chunks(piece).map(|piece| io::Cursor::new(piece.to_vec()));
            let output = pieces.fold(Box::new(io::empty()) as Box<dyn Read>, |all, next| {
                Box::new(all.chain(next))
            });
            let cut = lines(output, |line| {
                found.push(line.to_owned());
                true
            });
            prop_assert_eq!((cut.unwrap(), found), (0, expected));
        }

        /// Documents and paths of any form.
        #[test]
        fn any_path_through_any_document_is_harmless(
            path in "[a-c*0-2.]{0,8}",
            text in r#"[\[\]{}:,"ab01\n ]{0,60}"#,
        ) {
            for value in json(&path, &text) {
                prop_assert!(value.is_finite());
            }
        }
    }

    #[test]
    fn numbers_that_figures_cannot_be_computed_from_are_left_out() {
        let output = r#"{"x": ["inf", "-inf", "NaN", "1e400", " 2.5 ", "", "0x10", false, {}]}"#;
        assert_eq!(json("x", output), [2.5, 0.0]);
        assert_eq!(json("x", r#"{"x": 1e400}"#), [] as [f64; 0], "JSON has no such number");
    }

    #[test]
    fn documents_one_after_another_are_read_as_one_output_and_a_cut_one_by_line() {
        assert_eq!(json("t", "{\"t\": 1} {\"t\":\n 2}"), [1.0, 2.0]);
        assert_eq!(json("t", "{\"t\": 1}\n{\"t\":\n 2"), [1.0], "the program was killed");
        assert_eq!(json("t", ""), [] as [f64; 0]);
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(json("*", &deep), [] as [f64; 0]);
    }

    #[test]
    fn a_search_ends_with_the_first_line_that_fits() {
        let mut seen = 0;
        let endless = io::repeat(b'\n').take(1 << 20);
        let found = any_line(endless.chain(&b"text\n"[..]), |line| line == "text").unwrap();
        assert!(found);
        let cut = lines(&b"one\ntwo\nthree\n"[..], |line| {
            seen += 1;
            line != "two"
        });
        assert_eq!((cut.unwrap(), seen), (0, 2));
        assert!(!any_line(&b""[..], |_| true).unwrap(), "an empty output has no line");
    }

    #[test]
    fn a_long_line_hides_none_of_the_next() {
        // Lines around the limit: what is beyond it is cut, the next one is whole.
        for (length, cut) in [(-1, 0), (0, 0), (1, 1), (2, 1)] {
            let length = (LINE_LIMIT as i64 + length) as usize;
            let text = [&vec![b'x'; length][..], b"\nnext\n"].concat();
            let mut lengths = Vec::new();
            let found = lines(&text[..], |line| {
                lengths.push(line.len());
                true
            });
            assert_eq!((found.unwrap(), lengths), (cut, vec![length.min(LINE_LIMIT as usize), 4]));
        }
    }
}
