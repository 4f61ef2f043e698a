//! `thingbed profiles`: link profiles per technology, and the quality of their values.

use crate::arguments::Profiles;
use crate::{Status, complain, say};
use experiment::{LinkProfile, Value};
use serde_json::json;
use std::path::Path;

/// Lists the built-in profiles, or shows one.
pub fn profiles(what: Option<&Profiles>, json: bool) -> Status {
    let done = match what {
        None => all().map(|all| list(&all, json)),
        Some(Profiles::Show { name }) => {
            LinkProfile::find(name, Path::new("")).map(|profile| show(&profile, json))
        }
    };
    match done {
        Ok(()) => Status::Fine,
        Err(errors) => {
            complain(errors);
            Status::Wrong
        }
    }
}

fn all() -> Result<Vec<LinkProfile>, experiment::Errors> {
    LinkProfile::known().map(|name| LinkProfile::find(name, Path::new(""))).collect()
}

fn list(profiles: &[LinkProfile], json: bool) {
    if json {
        let row = |profile: &LinkProfile| {
            let [up, down] = profile.rates();
            json!({
                "name": profile.name, "technology": profile.technology,
                "up_bit_s": up, "down_bit_s": down,
                "up_delay_ms": profile.up.delay.mean.as_ms(), "down_delay_ms": profile.down.delay.mean.as_ms(),
                "quality": profile.quality(),
            })
        };
        let rows: Vec<_> = profiles.iter().map(row).collect();
        return say(serde_json::to_string_pretty(&rows).unwrap_or_default());
    }
    let head = ["name", "technology", "up", "down", "delay ms", "values"].map(str::to_owned);
    let rows = profiles.iter().map(|profile| {
        let [up, down] = profile.rates();
        let (name, technology) = (profile.name.clone(), profile.technology.clone());
        let delay =
            format!("{} / {}", profile.up.delay.mean.as_ms(), profile.down.delay.mean.as_ms());
        [name, technology, rate(up), rate(down), delay, profile.quality()]
    });
    table(&std::iter::once(head).chain(rows).collect::<Vec<_>>());
    say("\n`thingbed profiles show NAME` shows each value and its source.");
}

fn show(profile: &LinkProfile, json: bool) {
    if json {
        return say(serde_json::to_string_pretty(profile).unwrap_or_default());
    }
    say(format_args!("{}: {}\n{}\n", profile.name, profile.technology, profile.about));
    let row = |value: &Value| {
        let range = value.range.as_ref().map_or(String::new(), |range| format!(" ({range})"));
        let text = format!("{}{range}", value.value);
        let (key, quality) = (value.key.clone(), value.quality.text().to_owned());
        let note = value.note.clone().unwrap_or_default();
        [key, text, quality, value.sources.join(", "), note]
    };
    let head =
        |note: &str| ["value", "value (range)", "quality", "source", note].map(str::to_owned);
    let rows = profile.values.iter().map(row);
    table(&std::iter::once(head("")).chain(rows).collect::<Vec<_>>());
    if !profile.not_modelled.is_empty() {
        say("\nknown but not modelled:");
        let rows = profile.not_modelled.iter().map(row);
        table(&std::iter::once(head("because")).chain(rows).collect::<Vec<_>>());
    }
    say("\nsources:");
    for (name, text) in &profile.sources {
        say(format_args!("  {name}: {text}"));
    }
    if profile.values.iter().any(|value| value.quality == experiment::Quality::Fitted) {
        say(
            "\nFitted values make a model reproduce a paper's figures; they have not been checked \
             against a real link.",
        );
    }
}

/// Prints columns as wide as their widest cell.
fn table<const N: usize>(rows: &[[String; N]]) {
    let widths: Vec<usize> = (0..N)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        say(cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// Human-readable rate: `59.2 kbit/s`.
fn rate(bit_s: Option<f64>) -> String {
    let Some(bit_s) = bit_s else { return "any".to_owned() };
    let (value, unit) = match bit_s {
        rate if rate >= 1e6 => (rate / 1e6, "Mbit/s"),
        rate => (rate / 1e3, "kbit/s"),
    };
    format!("{} {unit}", (value * 100.0).round() / 100.0)
}
