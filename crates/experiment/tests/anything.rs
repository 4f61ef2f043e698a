//! Any text results in an experiment or a list of errors, never in a panic.

use experiment::{Experiment, Only};
use proptest::prelude::*;

const GOOD: &str = include_str!("golden/good/everything.yaml");

/// Reads `text`, formats its errors, and resolves every cell if there are none.
fn survives(text: &str) {
    match Experiment::parse(text, "any.yaml", "tests/golden/good") {
        Ok(experiment) => {
            for cell in experiment.cells(&Only::all()).unwrap().iter().take(3) {
                let _ = experiment.plan(cell, 0, 1).map(|plan| plan.nodes.len());
            }
        }
        Err(errors) => {
            assert!(!errors.problems().is_empty());
            assert!(errors.to_string().contains("error: "));
        }
    }
}

/// A piece of text with a meaning somewhere in a file.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("${"),
        Just("${network}"),
        Just("}"),
        Just("[]"),
        Just("{}"),
        Just(": "),
        Just("\n"),
        Just("- "),
        Just("*a"),
        Just("&a "),
        Just("!x "),
        Just("\t"),
        Just("#"),
        Just("'"),
        Just("\""),
        Just("|"),
        Just("---\n"),
        Just("-1"),
        Just("1e308 s"),
        Just("99999999999999"),
        Just("0"),
        Just("µ"),
        Just("\u{0}"),
        Just("\u{feff}"),
        Just("null"),
        Just("matrix:"),
        Just("<<: "),
        Just("10.0.0.0/8"),
        Just("0 B"),
        Just("? ")
    ]
    .prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn any_text(text in any::<String>()) {
        survives(&text);
    }

    #[test]
    fn any_heap_of_pieces(pieces in prop::collection::vec(piece(), 0..40)) {
        survives(&pieces.concat());
    }

    #[test]
    fn a_good_file_with_pieces_put_in(
        edits in prop::collection::vec((0..GOOD.len(), 0..12usize, piece()), 1..4)
    ) {
        let mut text = GOOD.to_owned();
        for (at, cut, piece) in edits {
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            let end = (at..=text.len()).find(|e| *e >= at + cut && text.is_char_boundary(*e));
            text.replace_range(at..end.unwrap_or(text.len()), &piece);
        }
        survives(&text);
    }

    #[test]
    fn a_good_file_cut_short(at in 0..GOOD.len()) {
        survives(&GOOD[..at]);
    }
}
