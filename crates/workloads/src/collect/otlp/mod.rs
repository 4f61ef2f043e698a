//! OpenTelemetry's protocol (OTLP) over HTTP and gRPC, for metrics: <https://opentelemetry.io/docs/specs/otlp/>.

mod export;
mod grpc;
mod histogram;
mod http;
mod server;

use histogram::{Distribution, is_statistic};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    DataPointFlags, Metric, NumberDataPoint, metric, number_data_point,
};
use record::{SeriesSelector, is_usable};
use std::collections::BTreeSet;

pub(super) use server::serve;

/// The values of one export, and the names in it that no metric of the experiment has.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Export {
    /// By the text of the experiment, such as `requests{code="200"}` or `delay.p99`.
    pub values: Vec<(String, f64)>,
    /// Names as an experiment would write them.
    pub unknown: BTreeSet<String>,
}

/// A metric of the experiment.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    text: String,
    selector: SeriesSelector,
}

impl Selection {
    /// `None` if the text is not a series.
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self { text: text.to_owned(), selector: SeriesSelector::parse(text)? })
    }

    /// The statistic of the metric `name` that this is; `None` if it is none.
    fn statistic<'a>(&'a self, name: &str) -> Option<&'a str> {
        let statistic = self.selector.name().strip_prefix(name)?.strip_prefix('.')?;
        is_statistic(statistic).then_some(statistic)
    }
}

/// The values that an export has for the metrics of an experiment. Points with the attributes of a metric are added, as
/// series of a Prometheus page are.
pub(super) fn values(request: &ExportMetricsServiceRequest, selections: &[Selection]) -> Export {
    let mut export = Export::default();
    let mut known = BTreeSet::new();
    for one in selections {
        // Nothing is carried over from one export to the next, so a delta does not become a total
        // (decision 90).
        let mut found = Found::default();
        for resource in &request.resource_metrics {
            let attributes = resource.resource.iter().flat_map(|own| &own.attributes);
            let attributes: Vec<&KeyValue> = attributes.collect();
            for metric in resource.scope_metrics.iter().flat_map(|scope| &scope.metrics) {
                if found.add(metric, &attributes, one) {
                    known.insert(&metric.name);
                }
            }
        }
        if let Some(value) = found.value().filter(|value| is_usable(*value)) {
            export.values.push((one.text.clone(), value));
        }
    }
    let all = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
    // Also the name of a histogram without a statistic.
    let is_selected = |name: &str| selections.iter().any(|one| one.selector.name() == name);
    let is_unknown = |metric: &&Metric| {
        !known.contains(&metric.name)
            || is_selected(&metric.name) && as_written(metric) != metric.name
    };
    let unknown = all.flat_map(|scope| &scope.metrics).filter(is_unknown);
    export.unknown = unknown.map(as_written).collect();
    export
}

/// A metric as an experiment names it.
fn as_written(metric: &Metric) -> String {
    match metric.data {
        // A histogram has no value without a statistic: a mean by default would be taken for a
        // percentile (decision 90).
        Some(
            metric::Data::Histogram(_)
            | metric::Data::ExponentialHistogram(_)
            | metric::Data::Summary(_),
        ) => format!("{}.p99", metric.name),
        _ => metric.name.clone(),
    }
}

/// What points of one metric of the experiment have in sum.
#[derive(Debug, Default)]
struct Found<'a> {
    number: Option<f64>,
    distribution: Option<Distribution>,
    statistic: &'a str,
}

impl<'a> Found<'a> {
    /// Adds the points of a metric; returns whether it is the one.
    fn add(&mut self, metric: &Metric, resource: &[&KeyValue], selection: &'a Selection) -> bool {
        let has = |attributes: &[KeyValue]| {
            let all = resource.iter().copied().chain(attributes);
            let all: Vec<_> = all.filter_map(|own| Some((own.key.as_str(), text(own)?))).collect();
            selection
                .selector
                .has_labels(|key, value| all.iter().any(|(k, v)| *k == key && v == value))
        };
        let is_number = selection.selector.name() == metric.name;
        let statistic = selection.statistic(&metric.name);
        let is_distribution = statistic.is_some();
        match &metric.data {
            Some(metric::Data::Gauge(gauge)) if is_number => {
                let points = gauge.data_points.iter().filter(|point| has(&point.attributes));
                points
                    .filter_map(number)
                    .for_each(|value| *self.number.get_or_insert(0.0) += value);
            }
            Some(metric::Data::Sum(sum)) if is_number => {
                let points = sum.data_points.iter().filter(|point| has(&point.attributes));
                points
                    .filter_map(number)
                    .for_each(|value| *self.number.get_or_insert(0.0) += value);
            }
            Some(metric::Data::Histogram(all)) if is_distribution => {
                let points = all.data_points.iter().filter(|point| is_recorded(point.flags));
                for point in points.filter(|point| has(&point.attributes)) {
                    self.distribution.get_or_insert_default().add(point);
                }
            }
            Some(metric::Data::ExponentialHistogram(all)) if is_distribution => {
                let points = all.data_points.iter().filter(|point| is_recorded(point.flags));
                for point in points.filter(|point| has(&point.attributes)) {
                    self.distribution.get_or_insert_default().add_exponential(point);
                }
            }
            Some(metric::Data::Summary(all)) if is_distribution => {
                let points = all.data_points.iter().filter(|point| is_recorded(point.flags));
                for point in points.filter(|point| has(&point.attributes)) {
                    self.distribution.get_or_insert_default().add_summary(point);
                }
            }
            _ => return false,
        }
        self.statistic = statistic.unwrap_or_default();
        true
    }

    fn value(&self) -> Option<f64> {
        self.number.or_else(|| self.distribution.as_ref()?.statistic(self.statistic))
    }
}

/// Flag of a point that marks a gap in a series.
const NO_RECORDED_VALUE: u32 = DataPointFlags::NoRecordedValueMask as u32;

/// Whether a point with these flags has a value.
fn is_recorded(flags: u32) -> bool {
    flags & NO_RECORDED_VALUE == 0
}

/// The value of a point; as on a page of Prometheus, one that is not finite has none.
fn number(point: &NumberDataPoint) -> Option<f64> {
    if !is_recorded(point.flags) {
        return None;
    }
    let value = match point.value? {
        number_data_point::Value::AsDouble(value) => value,
        number_data_point::Value::AsInt(value) => value as f64,
    };
    value.is_finite().then_some(value)
}

/// The value of an attribute as text; `None` for lists and bytes.
fn text(attribute: &KeyValue) -> Option<String> {
    let Some(AnyValue { value: Some(value) }) = &attribute.value else { return None };
    match value {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::BoolValue(value) => Some(value.to_string()),
        any_value::Value::IntValue(value) => Some(value.to_string()),
        any_value::Value::DoubleValue(value) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An export in OTLP's JSON form, as in the specification's example.
    const EXPORT: &str = r#"{"resourceMetrics":[{
        "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"meter"}}]},
        "scopeMetrics":[{"scope":{"name":"x"},"metrics":[
          {"name":"requests","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[
            {"asInt":"5","startTimeUnixNano":"1","timeUnixNano":"2","attributes":[{"key":"code","value":{"intValue":"200"}}]},
            {"asDouble":2,"startTimeUnixNano":"1","timeUnixNano":"2","attributes":[{"key":"code","value":{"stringValue":"500"}}]}]}},
          {"name":"queue.depth","gauge":{"dataPoints":[{"asDouble":7.5,"timeUnixNano":"2"}]}},
          {"name":"delay","unit":"ms","histogram":{"aggregationTemporality":2,"dataPoints":[
            {"startTimeUnixNano":"1","timeUnixNano":"2","count":"4","sum":50,"min":5,"max":25,
             "bucketCounts":["1","2","1"],"explicitBounds":[10,20]}]}}
        ]}]}]}"#;

    fn of(text: &str, selections: &[&str]) -> Export {
        let request = serde_json::from_str(text).unwrap();
        let selections: Vec<_> =
            selections.iter().map(|text| Selection::parse(text).unwrap()).collect();
        values(&request, &selections)
    }

    #[test]
    fn numbers_with_the_attributes_are_added() {
        let selections = [
            "requests",
            "requests{code=\"200\"}",
            "requests{code=\"404\"}",
            "queue.depth{service.name=\"meter\"}",
        ];
        let found = of(EXPORT, &selections);
        let values: Vec<_> =
            found.values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(
            values,
            [("requests", 7.0), ("requests{code=\"200\"}", 5.0), (selections[3], 7.5)]
        );
        assert_eq!(found.unknown, ["delay.p99".to_owned()].into());
    }

    #[test]
    fn a_histogram_has_statistics() {
        let selections =
            ["delay.count", "delay.sum", "delay.mean", "delay.min", "delay.max", "delay.p50"];
        let found = of(EXPORT, &selections);
        let values: Vec<_> = found.values.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [4.0, 50.0, 12.5, 5.0, 25.0, 15.0]);
        assert_eq!(found.unknown.len(), 2, "{:?}", found.unknown);
    }

    #[test]
    fn names_of_no_metric_are_reported_as_they_are_written() {
        let found = of(EXPORT, &["delay", "delay.p50x", "requests.p50"]);
        assert_eq!(found.values, []);
        let unknown = ["delay.p99", "queue.depth", "requests"].map(str::to_owned);
        assert_eq!(found.unknown, unknown.into());
    }
    /// What failed: a gap in the series of a histogram was a count of 0.
    #[test]
    fn points_without_a_recorded_value_have_none_of_any_kind() {
        let point = |flags: u32| {
            format!(
                r#"{{"resourceMetrics":[{{"resource":{{"attributes":[]}},"scopeMetrics":[{{"metrics":[
                {{"name":"n","gauge":{{"dataPoints":[{{"asInt":"3","timeUnixNano":"2","flags":{flags}}}]}}}},
                {{"name":"h","histogram":{{"aggregationTemporality":2,"dataPoints":[
                  {{"timeUnixNano":"2","count":"0","bucketCounts":["0"],"explicitBounds":[],"flags":{flags}}}]}}}},
                {{"name":"e","exponentialHistogram":{{"aggregationTemporality":2,"dataPoints":[
                  {{"timeUnixNano":"2","count":"0","scale":0,"zeroCount":"0","flags":{flags}}}]}}}},
                {{"name":"s","summary":{{"dataPoints":[
                  {{"timeUnixNano":"2","count":"0","sum":0,"quantileValues":[],"flags":{flags}}}]}}}}
                ]}}]}}]}}"#
            )
        };
        let selections = ["n", "h.count", "e.count", "s.count"];
        let found = of(&point(0), &selections);
        let values: Vec<_> = found.values.iter().map(|(_, value)| *value).collect();
        assert_eq!(values, [3.0, 0.0, 0.0, 0.0]);
        let gap = of(&point(NO_RECORDED_VALUE), &selections);
        assert_eq!(gap.values, []);
        assert!(gap.unknown.is_empty(), "they are known: {:?}", gap.unknown);
    }

    /// What failed: one point that is not a number hid all others, which a page of Prometheus does
    /// not.
    #[test]
    fn points_that_are_no_number_are_left_out_of_the_sum() {
        let point = |value: f64, code: &str| NumberDataPoint {
            value: Some(number_data_point::Value::AsDouble(value)),
            attributes: vec![KeyValue {
                key: "code".to_owned(),
                value: Some(AnyValue {
                    value: Some(any_value::Value::StringValue(code.to_owned())),
                }),
                ..KeyValue::default()
            }],
            ..NumberDataPoint::default()
        };
        let points = [
            point(3.0, "a"),
            point(f64::NAN, "b"),
            point(f64::INFINITY, "c"),
            point(-0.0, "d"),
            point(4.5, "e"),
        ];
        let mut request: ExportMetricsServiceRequest = serde_json::from_str(EXPORT).unwrap();
        let metric = &mut request.resource_metrics[0].scope_metrics[0].metrics[1];
        let Some(metric::Data::Gauge(gauge)) = &mut metric.data else { panic!("a gauge") };
        gauge.data_points = points.to_vec();
        let series = ["queue.depth", "queue.depth{code=\"b\"}", "queue.depth{code=\"d\"}"];
        let selections = series.map(|text| Selection::parse(text).unwrap());
        let found = values(&request, &selections);
        assert_eq!(found.values, [(series[0].to_owned(), 7.5), (series[2].to_owned(), 0.0)]);
    }

    /// What failed: a misspelt statistic was not reported.
    #[test]
    fn statistics_that_do_not_exist_are_reported_with_one_that_does() {
        for wrong in ["p50x", "p101", "p-1", "pNaN", "p", "median", "p1e999", "count.x", ""] {
            let found = of(EXPORT, &[&format!("delay.{wrong}"), "queue.depth", "requests"]);
            assert_eq!(found.unknown, ["delay.p99".to_owned()].into(), "{wrong}");
            assert_eq!(found.values.len(), 2, "{wrong}");
        }
        for right in ["p0", "p100", "p99.9", "count", "mean"] {
            let found = of(EXPORT, &[&format!("delay.{right}"), "queue.depth", "requests"]);
            assert_eq!((found.values.len(), found.unknown.len()), (3, 0), "{right}");
        }
    }
}
