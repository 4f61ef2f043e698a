//! Help after a mistaken option: the option that was likely meant, or those that the command has.

use crate::arguments::Arguments;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Error};
use std::ffi::OsString;

/// Names of options in other tools, and ours for the same.
const SYNONYMS: [(&[&str], &str); 11] = [
    (&["name", "id", "project", "project-name", "experiment", "topology", "topo"], "lab"),
    (&["output", "output-dir", "outdir", "dir", "directory", "folder", "results"], "out"),
    (&["cell", "filter", "matrix", "select", "axis"], "only"),
    (&["param", "parameter", "override", "var", "variable", "define"], "set"),
    (&["background", "daemon", "bg"], "detach"),
    (&["iface", "interface", "node"], "point"),
    (&["silent"], "quiet"),
    (&["cwd", "working-directory"], "workdir"),
    (&["runs", "repetitions", "iterations"], "repeats"),
    (&["parallel", "workers"], "jobs"),
    (&["virtual", "virtual-time"], "clock"),
];

/// An error of the command line, with the likely cause and the fix. Of other errors than unknown options,
/// it is unchanged.
pub(crate) fn explained(mut error: Error, line: impl IntoIterator<Item = OsString>) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    let given = match error.get(ContextKind::InvalidArg) {
        // Not further words, which have no dashes.
        Some(ContextValue::String(given)) if given.starts_with('-') => given.clone(),
        _ => return error,
    };
    let mut root = Arguments::command();
    root.build();
    let command = command_of(&mut root, line);
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    // The parser's usage lists only the options that were given.
    let usage = command.render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    let word = given.trim_start_matches('-').split('=').next().unwrap_or_default();
    let own = options_of(command);
    let tip = match known(&name, word, &own) {
        Some(tip) => {
            // The parser looks for similar letters: `--results` is not `--resume`.
            error.remove(ContextKind::SuggestedArg);
            tip
        }
        None if error.get(ContextKind::SuggestedArg).is_some() => return error,
        None => unknown(command, &name, word, &own),
    };
    let tip = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
    error.insert(ContextKind::Suggested, tip);
    error
}

/// The command of a line.
fn command_of(root: &mut Command, line: impl IntoIterator<Item = OsString>) -> &mut Command {
    let mut command = root;
    for word in line.into_iter().skip(1) {
        let is_option = word.to_string_lossy().starts_with('-');
        if command.find_subcommand(&word).is_none() {
            if is_option {
                continue;
            }
            break;
        }
        command = command.find_subcommand_mut(&word).expect("found above");
    }
    command
}

/// The names of a command's options.
fn options_of(command: &Command) -> Vec<String> {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
}

/// The fix for a word with a known meaning, for a command with the options `own`.
fn known(name: &str, word: &str, own: &[String]) -> Option<String> {
    let has = |option: &str| own.iter().any(|own| own == option);
    if let Some((_, ours)) = SYNONYMS.iter().find(|(others, _)| others.contains(&word))
        && has(ours)
    {
        return Some(format!("the option of '{name}' is '--{ours}'"));
    }
    // A lab gets its name here and nowhere else.
    if name.ends_with(" up") && ["name", "lab", "id", "project", "project-name"].contains(&word) {
        return Some(
            "a lab has the name of its experiment: use '--set experiment=NAME'".to_owned(),
        );
    }
    (has("set") && is_key(word))
        .then(|| format!("`{word}` is a key of the experiment file: use '--set {word}=VALUE'"))
}

/// What a command takes in place of a word that it does not know.
fn unknown(command: &Command, name: &str, word: &str, own: &[String]) -> String {
    let takes_keys = command.get_positionals().any(|positional| {
        positional.get_value_names().is_some_and(|names| names.iter().any(|n| n == "KEY=VALUE"))
    });
    if takes_keys {
        return format!("'{name}' takes keys without dashes, such as '{word}=VALUE'");
    }
    let own: Vec<String> = own.iter().map(|own| format!("--{own}")).collect();
    format!("options of '{name}': {}", own.join(", "))
}

/// Whether an experiment file has this key at its top.
fn is_key(word: &str) -> bool {
    experiment::schema()["properties"].get(word).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn error(line: &str) -> String {
        let words = || line.split(' ').map(OsString::from);
        explained(Arguments::try_parse_from(words()).unwrap_err(), words()).to_string()
    }

    #[test]
    fn a_mistaken_option_names_the_one_that_exists() {
        for (line, part) in [
            ("thingbed up --detach --name x f.yaml", "use '--set experiment=NAME'"),
            ("thingbed up --lab x f.yaml", "use '--set experiment=NAME'"),
            ("thingbed down --name x", "the option of 'thingbed down' is '--lab'"),
            ("thingbed exec --name=x a ls", "the option of 'thingbed exec' is '--lab'"),
            ("thingbed link show --name x", "the option of 'thingbed link show' is '--lab'"),
            ("thingbed run f.yaml --results x", "the option of 'thingbed run' is '--out'"),
            ("thingbed run --duration 5 f.yaml", "use '--set duration=VALUE'"),
            ("thingbed analyze f --iface x", "the option of 'thingbed analyze' is '--point'"),
            ("thingbed link set a --delay 5", "such as 'delay=VALUE'"),
            ("thingbed ps --wide", "options of 'thingbed ps': --lab, --json"),
            ("thingbed ps -x", "options of 'thingbed ps': "),
            ("thingbed --wide", "options of 'thingbed': "),
        ] {
            let text = error(line);
            assert!(text.contains(part), "{line}\n{text}");
            assert!(text.contains("unexpected argument"), "{line}\n{text}");
            assert!(!text.contains("as a value, use"), "{line}\n{text}");
        }
        assert!(error("thingbed up --detach --name x f").contains("thingbed up [OPTIONS] <FILE>"));
    }

    #[test]
    fn other_errors_stay() {
        for (line, part) in [
            ("thingbed run f --quite", "a similar argument exists: '--quiet'"),
            ("thingbed kill", "required arguments were not provided"),
            ("thingbed frobnicate", "unrecognized subcommand"),
            ("thingbed labs a b", "unexpected argument 'a'"),
        ] {
            let text = error(line);
            assert!(text.contains(part) && !text.contains("options of"), "{line}\n{text}");
        }
    }
}
