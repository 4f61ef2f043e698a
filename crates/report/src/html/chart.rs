//! Options for the chart library.
//!
//! Its small build has axes, bars and lines, but no legend and no tooltip: colour keys are HTML
//! above the charts, and the page's script shows values.

use crate::format;
use serde_json::{Value, json};

/// Colours that are easy to distinguish, on light and dark backgrounds, also with most kinds of
/// colour blindness.
pub(super) const COLOURS: [&str; 8] =
    ["#3a7bd5", "#e08a2e", "#2e9e79", "#b562c4", "#c94f5d", "#8a7f3c", "#4aa8c4", "#7d8590"];
/// Colour of measured values.
pub(super) const MEASURED: &str = "#3a7bd5";
/// Colour of reference values.
pub(super) const REFERENCE: &str = "#a3abb5";

/// The colour of a series.
pub(super) fn colour(place: usize) -> &'static str {
    COLOURS[place % COLOURS.len()]
}

/// A chart with its data for the page.
pub(super) struct Chart {
    option: Value,
    lines: bool,
    x_unit: String,
    y_unit: String,
    /// The cell of each line, or of each group of bars; empty if they are not of single cells.
    cells: Vec<usize>,
    /// Title of the value axis. It is text of the page: the chart would cut it off.
    pub(super) values: String,
    /// Text alternative for screen readers.
    pub(super) label: String,
    /// Height in pixels.
    pub(super) height: u32,
}

impl Chart {
    pub(super) fn into_json(self) -> Value {
        json!({"option": self.option, "lines": self.lines, "x": self.x_unit, "y": self.y_unit,
               "title": self.label, "values": self.values, "cells": self.cells})
    }

    /// Names the cell of each line, or of each group of bars, so that the page can hide it.
    pub(super) fn of_cells(mut self, cells: Vec<usize>) -> Self {
        self.cells = cells;
        self
    }
}

/// An axis of values.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    name: String,
    unit: String,
    /// Ends of a logarithmic axis; both are powers of ten.
    log: Option<(f64, f64)>,
    /// Ends of a linear axis, and the step between its ticks.
    ends: Option<(f64, f64, f64)>,
}

impl Axis {
    /// A linear axis from zero.
    pub(super) fn linear(name: &str, unit: &str) -> Self {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Self { name, unit, log: None, ends: None }
    }

    /// An axis that fits these values: logarithmic if their range is too wide for a linear one. All
    /// charts with the same values get the same ends.
    pub(super) fn fitting(name: &str, unit: &str, values: &[f64]) -> Self {
        let axis = Self::linear(name, unit);
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // At a ratio of 50, the smallest bar of a linear axis is less than 5 of 230 pixels high.
        if min > 0.0 && max / min > 50.0 { axis.log(min, max) } else { axis.shared(min, max) }
    }

    /// Makes it a logarithmic axis that contains these values, which are above 0.
    pub(super) fn log(mut self, min: f64, max: f64) -> Self {
        // Without this margin, a bar of the smallest value would be invisible.
        // Not 0 below the smallest powers of ten, which a logarithmic axis does not have.
        let low = 10_f64.powf((min * 0.999).log10().floor()).max(f64::from_bits(1));
        // One power of ten at least: equal ends would be no axis.
        let high = 10_f64.powf(max.log10().ceil()).max(low * 10.0);
        // No power of ten is above the largest doubles.
        self.log = Some((low, high.min(f64::MAX)));
        self
    }

    /// Sets the same round ends for all charts with these values.
    pub(super) fn shared(mut self, min: f64, max: f64) -> Self {
        if min.is_finite() && max.is_finite() {
            let (low, high) = (min.min(0.0), max.max(0.0));
            // Leave room for the numbers at the ends of bars.
            let room = 0.09 * (high - low);
            let low = if low < 0.0 { low - room } else { 0.0 };
            let high = if high > 0.0 { high + room } else { 0.0 };
            // About five parts, with ticks at round numbers.
            let step = round_step((high - low) / 5.0);
            let low = (low / step).floor() * step;
            let high = if high > low { (high / step).ceil() * step } else { step };
            // Zero stays on the axis, so that heights of bars can be compared. At the ends of the range
            // of doubles there is no such step; there the chart library chooses.
            self.ends = Some((low, high, step))
                .filter(|(low, high, step)| (high - low).is_finite() && *step > 0.0 && low < high);
        }
        self
    }

    /// From 0 to 100 %.
    pub(super) fn hundred(mut self) -> Self {
        self.ends = Some((0.0, 100.0, 25.0));
        self
    }

    /// The title of the axis.
    fn title(&self) -> String {
        match (self.name.as_str(), self.unit.as_str()) {
            (name, "") => name.to_owned(),
            ("", unit) => unit.to_owned(),
            (name, unit) => format!("{name}, {unit}"),
        }
    }

    fn into_json(self, horizontal: bool) -> Value {
        let mut axis = if horizontal {
            json!({"name": self.title(), "nameLocation": "middle", "nameGap": 26})
        } else {
            json!({"splitNumber": 4})
        };
        axis["type"] = json!(if self.log.is_some() { "log" } else { "value" });
        if let Some((min, max)) = self.log {
            axis["min"] = json!(min);
            axis["max"] = json!(max);
            // Bars begin there, since a logarithmic axis has no zero.
            axis["startValue"] = json!(min);
        } else if let Some((min, max, step)) = self.ends {
            axis["min"] = json!(short(min));
            axis["max"] = json!(short(max));
            axis["interval"] = json!(short(step));
        }
        axis
    }
}

/// The next of 1, 2, 2.5, 5 times a power of ten; 1 if `value` is not positive.
fn round_step(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0].into_iter().find(|step| step * power >= value);
    step.unwrap_or(10.0) * power
}

/// A series of bars, one per category.
pub(super) struct Bars {
    pub(super) name: String,
    /// One colour for all, or one per category.
    pub(super) colours: Vec<&'static str>,
    pub(super) values: Vec<Option<f64>>,
    /// Bars of the same stack are drawn on top of each other.
    pub(super) stack: Option<&'static str>,
    /// Labels instead of the values. Stacked bars without `texts` have no labels.
    pub(super) texts: Option<Vec<String>>,
}

/// A bar chart with a group of bars per category.
pub(super) fn bars(label: &str, categories: &[String], series: Vec<Bars>, axis: Axis) -> Chart {
    let longest = categories.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    // About 36 characters fit below one chart.
    let slanted = longest * categories.len() > 36;
    // Rotate labels if there are many, so that they do not overlap.
    let upright =
        series.len() * categories.len() > 10 && series.iter().all(|bars| bars.stack.is_none());
    let (y_unit, values) = (axis.unit.clone(), axis.title());
    let series: Vec<Value> = series
        .into_iter()
        .map(|bars| {
            let shown = bars.stack.is_none() || bars.texts.is_some();
            let data: Vec<Value> = bars
                .values
                .iter()
                .enumerate()
                .map(|(place, value)| {
                    let colour = bars.colours[place % bars.colours.len()];
                    let own = || value.map(format::number).unwrap_or_default();
                    let text = bars.texts.as_ref().map_or_else(own, |texts| texts[place].clone());
                    json!({"value": value, "itemStyle": {"color": colour},
                           "label": {"show": shown && value.is_some(), "formatter": text,
                           "position": if value.is_some_and(|v| v < 0.0) { "bottom" } else { "top" }}})
                })
                .collect();
            json!({"type": "bar", "name": bars.name, "stack": bars.stack, "data": data,
                   "barMaxWidth": 38, "barGap": "8%", "barCategoryGap": "28%",
                   "label": if upright {
                       json!({"fontSize": 10, "rotate": 90, "align": "left",
                              "verticalAlign": "middle", "distance": 6})
                   } else {
                       json!({"fontSize": if categories.len() > 3 { 10 } else { 11 }})
                   },
                   "emphasis": {"disabled": true}})
        })
        .collect();
    let option = json!({
        "animation": false,
        "grid": {"left": 6, "right": 10, "top": if upright { 34 } else { 16 }, "bottom": 4, "containLabel": true},
        "xAxis": {"type": "category", "data": categories, "axisTick": {"show": false},
                  "axisLabel": {"interval": 0, "rotate": if slanted { 28 } else { 0 }}},
        "yAxis": axis.into_json(false),
        "series": series,
    });
    Chart {
        option,
        lines: false,
        x_unit: String::new(),
        y_unit,
        cells: Vec::new(),
        values,
        label: label.to_owned(),
        height: if slanted { 270 } else { 230 },
    }
}

/// A line through points.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: &'static str,
    pub(super) dashed: bool,
    /// Whether each value holds until the next point (step line).
    pub(super) steps: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// A line chart.
pub(super) fn lines(label: &str, lines: Vec<Line>, x: Axis, y: Axis) -> Chart {
    let (x_unit, y_unit, values) = (x.unit.clone(), y.unit.clone(), y.title());
    let series: Vec<Value> = lines
        .into_iter()
        .map(|line| {
            let points: Vec<_> = line.points.iter().map(|(x, y)| [short(*x), short(*y)]).collect();
            // "end": the value changes at the next point.
            let step = if line.steps { json!("end") } else { json!(false) };
            let kind = if line.dashed { "dashed" } else { "solid" };
            json!({"type": "line", "name": line.name, "data": points, "step": step,
                   "showSymbol": false, "silent": true,
                   "lineStyle": {"width": if line.dashed { 1.2 } else { 1.8 }, "type": kind,
                                 "color": line.colour},
                   "itemStyle": {"color": line.colour}})
        })
        .collect();
    let option = json!({
        "animation": false,
        "grid": {"left": 6, "right": 30, "top": 12, "bottom": 24, "containLabel": true},
        "xAxis": x.into_json(true),
        "yAxis": y.into_json(false),
        "series": series,
    });
    let (cells, label) = (Vec::new(), label.to_owned());
    Chart { option, lines: true, x_unit, y_unit, cells, values, label, height: 260 }
}

/// Rounds to four significant digits: more are invisible and make the page larger.
fn short(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_values_and_are_logarithmic_when_needed() {
        assert_eq!(round_step(0.23), 0.25);
        assert_eq!(round_step(1300.0), 2000.0);
        let axis = Axis::fitting("delay", "ms", &[2.2, 21500.0]).into_json(false);
        assert_eq!(
            (&axis["type"], &axis["min"], &axis["max"]),
            (&json!("log"), &json!(1.0), &json!(100000.0))
        );
        let axis = Axis::fitting("", "%", &[-35.5, 70.4]).into_json(false);
        assert_eq!((&axis["min"], &axis["max"]), (&json!(-50.0), &json!(100.0)));
        let axis = Axis::fitting("loss", "%", &[0.0, 0.0]).into_json(false);
        assert_eq!(axis["max"], json!(1.0));
        assert_eq!(short(1234.567), 1235.0);
    }

    /// An axis of the chart library contains all values, has round ticks, and zero if it is linear.
    fn fits(values: &[f64]) {
        let axis = Axis::fitting("name", "unit", values).into_json(false);
        let text = format!("{values:?}: {axis}");
        let end = |name: &str| axis.get(name).map(|end| end.as_f64().expect(&text));
        let (min, max) = (end("min"), end("max"));
        let (Some(min), Some(max)) = (min, max) else {
            // Then the library chooses: without values, or where doubles end.
            let range = values.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
            assert!(values.is_empty() || !(1e-300..1e300).contains(&range), "{text}");
            return;
        };
        // Powers of ten are rounded.
        let slack = 1e-12 * max.abs().max(min.abs());
        assert!(
            min < max && values.iter().all(|v| (min..=max + slack).contains(&(v + slack))),
            "{text}"
        );
        if axis["type"] == "log" {
            assert!(min > 0.0 && end("startValue") == Some(min), "{text}");
        } else {
            assert!(min <= 0.0 && max >= 0.0, "{text}");
            let ticks = (max - min) / end("interval").expect("a step");
            assert!((1.0..=10.0).contains(&ticks), "{ticks} parts of {text}");
        }
    }

    #[test]
    fn axes_fit_no_value_one_value_equal_values_and_values_of_any_size() {
        for values in [
            &[][..],
            &[0.0],
            &[-0.0, 0.0],
            &[7.0],
            &[-7.0],
            &[3.0; 400],
            &[1e-9, 1.0],
            &[0.0, 1e-9, 1.0],
            &[-1e-9, 1e9],
            &[49.9, 1.0],
            &[50.1, 1.0],
            &[f64::MAX],
            &[f64::MIN, f64::MAX],
            &[1.0, f64::MAX],
            &[f64::MIN_POSITIVE, 1.0],
            &[5e-324],
            &[5e-324, 1e-300],
        ] {
            fits(values);
        }
        let mut seed = 1_u64;
        for _ in 0..5_000 {
            let mut unit = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 11) as f64 / (1_u64 << 53) as f64
            };
            let scale = 10_f64.powf(unit() * 40.0 - 20.0);
            let shift = if unit() < 0.3 { unit() } else { 0.0 };
            let count = 1 + (unit() * 5.0) as usize;
            let values: Vec<f64> = (0..count).map(|_| (unit() - shift) * scale).collect();
            fits(&values);
        }
    }

    #[test]
    fn missing_values_are_gaps_and_not_zeros() {
        let series = Bars {
            name: "s".to_owned(),
            colours: vec!["#000"],
            values: vec![Some(0.0), None, Some(f64::NAN)],
            stack: None,
            texts: None,
        };
        let names = ["a", "b", "c"].map(str::to_owned);
        let chart = bars("label", &names, vec![series], Axis::fitting("", "", &[0.0])).into_json();
        let data = &chart["option"]["series"][0]["data"];
        assert_eq!((&data[0]["value"], &data[0]["label"]["formatter"]), (&json!(0.0), &json!("0")));
        assert_eq!((&data[1]["value"], &data[1]["label"]["show"]), (&json!(null), &json!(false)));
        assert_eq!(data[2]["value"], json!(null));
    }
}
