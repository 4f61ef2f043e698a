//! Resolves `expect` of programs.

use crate::file::{OutputKeys, ProgramExpect};
use crate::problem::Problem;
use crate::program_check::{OutputCheck, OutputRule, ProgramCheck};
use crate::program_metric::Pattern;
use crate::read::{At, Sink};
use crate::source::Place;
use units::Span;

/// The conditions of a program.
pub(super) fn of(typed: &Option<At<ProgramExpect>>, sink: &mut Sink) -> ProgramCheck {
    let Some(At { value: typed, place }) = typed else { return ProgramCheck::default() };
    let exit = typed.exit.iter().flat_map(|exit| &exit.value.0);
    let exit = exit.map(|status| status.value.0).collect();
    let within = typed.within.as_ref().map(|within| {
        if within.value == Span::ZERO {
            sink.add(Problem::new("`within` must be longer than 0").at(within.place));
        }
        within.value
    });
    let output = typed.output.iter().flat_map(|output| &output.value.0);
    let output = output.filter_map(|output| one_output(&output.0, *place, sink)).collect();
    ProgramCheck { exit, output, within }
}

fn one_output(typed: &OutputKeys, place: Place, sink: &mut Sink) -> Option<OutputCheck> {
    let rule = match (&typed.contains, &typed.matches) {
        (Some(text), None) if text.value.is_empty() || text.value.contains('\n') => {
            sink.add(Problem::new("`contains` is a text within one line").at(text.place));
            return None;
        }
        (Some(text), None) => OutputRule::Contains(text.value.clone()),
        (None, Some(pattern)) => {
            if let Err(why) = Pattern::new(&pattern.value) {
                let text = format!("`matches` is not a regular expression: {why}");
                let problem = Problem::new(text).at(pattern.place);
                sink.add(problem.label("write it in single quotes, such as `'^[0-9]+ received'`"));
                return None;
            }
            OutputRule::Matches(pattern.value.clone())
        }
        (both, _) => {
            let text = match both {
                Some(_) => "a condition on output has either `contains` or `matches`",
                None => "a condition on output needs `contains` or `matches`",
            };
            let label = "write for example `output: '0 lost'`";
            sink.add(Problem::new(text).at(place).label(label));
            return None;
        }
    };
    let from = typed.from.as_ref().map(|from| from.value).unwrap_or_default();
    Some(OutputCheck { from, rule })
}
