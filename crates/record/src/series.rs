//! Selects series of OpenTelemetry metrics, and of a page in Prometheus's text format, version 0.0.4: `name{label="value",...} value [time]`, and comments.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

/// A series to look for: a name, and the labels that it must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesSelector {
    name: String,
    labels: Vec<(String, String)>,
}

impl SeriesSelector {
    /// Parses `name` or `name{label="value"}`; `None` if it has another format.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, labels, rest) = series(text.trim())?;
        let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        rest.is_empty().then(|| Self { name: name.to_owned(), labels })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether `has` holds for all labels and values.
    pub fn has_labels(&self, has: impl Fn(&str, &str) -> bool) -> bool {
        self.labels.iter().all(|(key, value)| has(key, value))
    }

    /// The sum of the page's series with this name and these labels; `None` if there is none.
    pub fn sum(&self, page: &str) -> Option<f64> {
        let mut sum = None;
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, labels, rest)) = series(line.trim()) else { continue };
            let has = |(key, value): &(String, String)| {
                labels.iter().any(|(k, v)| *k == key.as_str() && v == value)
            };
            if name != self.name || !self.labels.iter().all(has) {
                continue;
            }
            // A time may follow the value.
            let value = rest.split_whitespace().next().and_then(|text| text.parse().ok());
            if let Some(value) = value.filter(|value: &f64| value.is_finite()) {
                *sum.get_or_insert(0.0) += value;
            }
        }
        sum.filter(|sum| is_usable(*sum))
    }
}

/// Largest absolute value of a program's metric: the sum of millions of them is a number too.
const LARGEST: f64 = 1e300;

/// Whether figures can be computed from a value of a program.
pub fn is_usable(value: f64) -> bool {
    value.abs() <= LARGEST
}

/// Name, labels and the rest of a line.
type Series<'a> = (&'a str, Vec<(&'a str, String)>, &'a str);

fn series(line: &str) -> Option<Series<'_>> {
    let end = line.find(|c: char| c == '{' || c.is_whitespace()).unwrap_or(line.len());
    let (name, mut rest) = line.split_at(end);
    let valid = |c: char| c.is_ascii_alphanumeric() || "_:.-/".contains(c);
    if name.is_empty() || !name.chars().all(valid) {
        return None;
    }
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            // A comma after the last label is allowed.
            rest = rest.trim_start_matches([',', ' ']);
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (key, value) = rest.split_once('=')?;
            let (value, after) = quoted(value.trim_start())?;
            labels.push((key.trim(), value));
            rest = after;
        }
    }
    Some((name, labels, rest.trim()))
}

/// A text in double quotes, without its escapes, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match characters.next()?.1 {
                // The format has `\n`, `\"` and `\\` only.
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"# HELP requests_total Requests
# TYPE requests_total counter
requests_total{method="post",code="200"} 1027 1395066363000
requests_total{method="post",code="400"}    3 1395066363000
requests_total{ method = "get" , code="200", } 5
path{dir="C:\\DIR\\FILE.TXT",error="no \"such\" }\n"} 1.458255915e9
up 1
temperature NaN
rtt_seconds_bucket{le="+Inf"} 144320
"#;

    fn sum(selector: &str) -> Option<f64> {
        SeriesSelector::parse(selector).unwrap().sum(PAGE)
    }

    #[test]
    fn series_with_the_labels_are_added() {
        assert_eq!(sum("requests_total"), Some(1035.0));
        assert_eq!(sum(r#"requests_total{code="200"}"#), Some(1032.0));
        assert_eq!(sum(r#"requests_total{code="200",method="get"}"#), Some(5.0));
        assert_eq!(sum(r#"requests_total{code="500"}"#), None);
        assert_eq!(sum("up"), Some(1.0));
        assert_eq!(sum("requests"), None);
        assert_eq!(sum("temperature"), None, "not a number is no value");
        assert_eq!(sum(r#"rtt_seconds_bucket{le="+Inf"}"#), Some(144_320.0));
    }

    #[test]
    fn escapes_in_labels_are_resolved() {
        let selector = SeriesSelector::parse(r#"path{error="no \"such\" }\n"}"#).unwrap();
        assert_eq!(selector.labels[0].1, "no \"such\" }\n");
        assert_eq!(selector.sum(PAGE), Some(1.458255915e9));
    }

    #[test]
    fn other_selectors_are_refused() {
        for wrong in ["", "{a=\"b\"}", "a{b}", "a{b=c}", "a{b=\"c\"", "a b", "a{b=\"c\"} 5"] {
            assert_eq!(SeriesSelector::parse(wrong), None, "{wrong}");
        }
    }
    use proptest::prelude::*;

    proptest! {
        /// Any labels, written as the format demands, are found on a page among others.
        #[test]
        fn labels_of_any_text_are_read_back(
            name in "[a-z_:][a-z0-9_:.]{0,8}",
            labels in prop::collection::btree_map("[a-z]{1,4}", "[a \"\\\\{}=,\n\u{e9}]{0,6}", 0..4),
            value in -1000..1000_i32,
        ) {
            let escaped = |text: &str| {
                text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
            };
            let written = |labels: &mut dyn Iterator<Item = (&String, &String)>| {
                let all = labels.map(|(key, value)| format!("{key}=\"{}\"", escaped(value)));
                format!("{name}{{{}}}", all.collect::<Vec<_>>().join(","))
            };
            let whole = written(&mut labels.iter());
            let page = format!("# {whole} 7\nother{whole} 5\n{whole} {value} 1395066363000\n");
            for selector in [whole.clone(), written(&mut labels.iter().take(1)), name.clone()] {
                let found = SeriesSelector::parse(&selector).map(|selector| selector.sum(&page));
                prop_assert_eq!(found, Some(Some(f64::from(value))), "{} in {}", selector, page);
            }
            if let Some((key, text)) = labels.iter().next() {
                let other = format!("{name}{{{key}=\"{}x\"}}", escaped(text));
                prop_assert_eq!(SeriesSelector::parse(&other).unwrap().sum(&page), None);
            }
        }

        #[test]
        fn any_page_has_a_usable_sum_or_none(page in "[a{}=\",\\\\0-9.e+ \n#-]{0,80}") {
            for selector in ["a", "a{a=\"0\"}"] {
                let sum = SeriesSelector::parse(selector).unwrap().sum(&page);
                prop_assert!(sum.is_none_or(is_usable), "{sum:?}");
            }
        }
    }
}
