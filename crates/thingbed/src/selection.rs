//! Selects the runs of a sweep.

use crate::arguments::Run;
use crate::show;
use experiment::{Cell, Experiment};
use record::selection::AxisValues;
use serde_json::Value;

/// Key that selects one repeat in `--only`, in addition to axes.
const REPEAT: &str = "repeat";

/// The selected cells, repeats and seed. A replay is one run and uses those of the replayed run.
pub(crate) struct Selection {
    pub cells: Vec<Cell>,
    pub repeats: std::ops::Range<u32>,
    pub seed: u64,
}

impl Selection {
    /// Selection by the command line, the experiment file or the run to replay.
    pub fn of(arguments: &Run, experiment: &Experiment) -> Result<Self, String> {
        let Some(folder) = &arguments.replay else {
            let (only, repeat) = without_repeat(&arguments.only, experiment)?;
            return Ok(Self {
                cells: show::cells(experiment, &only).map_err(|e| e.to_string())?,
                repeats: match repeat {
                    Some(repeat) => repeat..repeat.saturating_add(1),
                    None => 0..arguments.repeat.unwrap_or(experiment.repeats),
                },
                seed: arguments.seed.unwrap_or(experiment.seed),
            });
        };
        let path = folder.join("plan.json");
        let read = input::read_to_string(&path, input::MAX_DATA).map_err(|error| error.to_string());
        let plan: Value = read
            .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()))
            .map_err(|error| {
                format!(
                    "could not read {}: {error}\n  --replay takes the folder of one run",
                    path.display()
                )
            })?;
        if plan["experiment"] != experiment.name.as_str() {
            return Err(format!(
                "the run in {} belongs to the experiment {}, not to `{}`",
                folder.display(),
                plan["experiment"],
                experiment.name
            ));
        }
        let cell: Cell = serde_json::from_value(plan["cell"].clone()).unwrap_or_default();
        let repeat = plan["repeat"].as_u64().unwrap_or(0) as u32;
        let seed = plan["seed"].as_u64().unwrap_or(experiment.seed);
        Ok(Self { cells: vec![cell], repeats: repeat..repeat + 1, seed })
    }
}

/// Splits the key `repeat` off `only`.
fn without_repeat(
    only: &[String],
    experiment: &Experiment,
) -> Result<(Vec<String>, Option<u32>), String> {
    // Then `repeat=` selects values of that axis, as it did before.
    if experiment.axes().any(|(name, _)| name == REPEAT) {
        return Ok((only.to_vec(), None));
    }
    let mut picked = None;
    let mut rest = Vec::new();
    for text in only {
        // An error is that of `Only::parse`, which reads the text again.
        let Ok(parts) = AxisValues::parse_all(text) else {
            rest.push(text.clone());
            continue;
        };
        let (own, others): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.axis == REPEAT);
        for part in own {
            let value = part.values.join("|");
            let number = value.parse();
            let number = number
                .map_err(|_| format!("`{value}` is not a repeat; repeats are numbered from 0"))?;
            picked = Some(number);
        }
        if !others.is_empty() {
            // The other parts stay together: a comma combines axes, repeated options are
            // alternatives.
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            rest.push(others.join(","));
        }
    }
    Ok((rest, picked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(only: &[&str]) -> Result<(Vec<String>, Option<u32>), String> {
        let text = "experiment: e\nnodes: {a: {run: [x, '${mix}']}}\nduration: 1 s\n\
                    matrix: {mix: ['a,b', 'repeat=3', c]}\n";
        let experiment = Experiment::parse(text, "e.yaml", "").unwrap();
        let only: Vec<String> = only.iter().map(|text| (*text).to_owned()).collect();
        let (rest, repeat) = without_repeat(&only, &experiment)?;
        // What is left selects cells.
        show::cells(&experiment, &rest).map_err(|errors| errors.to_string())?;
        Ok((rest, repeat))
    }

    #[test]
    fn the_repeat_is_split_off_and_quoted_values_stay() {
        for (only, rest, repeat) in [
            (&["repeat=2"][..], &[][..], Some(2)),
            (&["mix=c"], &["mix=c"], None),
            (&["repeat=2, mix = c"], &["mix=c"], Some(2)),
            (&[r#"mix="a,b"|c,repeat=0"#], &[r#"mix="a,b"|c"#], Some(0)),
            (&[r#"mix="repeat=3""#], &[r#"mix="repeat=3""#], None),
            (&["mix=c", "repeat=1", "repeat=4"], &["mix=c"], Some(4)),
        ] {
            let rest: Vec<String> = rest.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(split(only), Ok((rest, repeat)), "{only:?}");
        }
    }

    #[test]
    fn what_is_no_repeat_and_no_selection_is_an_error() {
        for (only, words) in [
            ("repeat=x", "`x` is not a repeat; repeats are numbered from 0"),
            ("repeat=1|2", "`1|2` is not a repeat"),
            ("repeat", "`repeat` is not AXIS=VALUE"),
            (r#"mix="a,b"#, "has no closing quote"),
        ] {
            let error = split(&[only]).unwrap_err();
            assert!(error.contains(words), "{only}: {error}");
        }
    }
}
