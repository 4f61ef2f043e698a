//! Help texts and the README in plain English.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Words and phrases with a plainer or more exact term; what to write instead.
const BANNED: [(&str, &str); 34] = [
    ("whoever", "name the role"),
    ("nobody", "no client, no node, none"),
    ("somebody", "name the role"),
    ("so many", "N, this number of"),
    ("is had", "is done, exists"),
    ("was had", "was run"),
    ("were had", "were run"),
    ("had before", "done before"),
    ("be had", "be used, be created"),
    ("befall", "inject a fault into"),
    ("befalls", "faults injected into"),
    ("stands", "is"),
    ("stand still", "pause"),
    ("asked of", "configured"),
    ("asked for", "configured, requested"),
    ("asked against got", "configured against measured"),
    ("hold against", "compare"),
    ("holds against", "compares"),
    ("held against", "compared"),
    ("against each other", "compare"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("told", "informational; reported"),
    ("stood in the way", "runtime error"),
    ("way out", "connection to the outside"),
    ("comes to pass", "happens"),
    ("of its own", "separate"),
    ("of their own", "separate"),
    ("beside", "next to, with"),
    ("leave it out", "remove it"),
    ("in good order", "cleanly"),
    ("weather", "impairment decisions"),
    ("goes on", "continues"),
    ("lives on", "keeps running"),
];

/// The banned phrases in a text; ignores case and line breaks.
fn banned(text: &str) -> Vec<String> {
    let words = text.to_lowercase();
    let words: Vec<&str> =
        words.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let words = format!(" {} ", words.join(" "));
    let found = BANNED.iter().filter(|(phrase, _)| words.contains(&format!(" {phrase} ")));
    found.map(|(phrase, instead)| format!("`{phrase}`: write {instead}")).collect()
}

fn help(command: &[String], option: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_thingbed"))
        .args(command)
        .arg(option)
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?} {option}");
    String::from_utf8(output.stdout).unwrap()
}

/// The subcommands that a help text lists.
fn subcommands(text: &str) -> Vec<String> {
    let Some((_, list)) = text.split_once("\nCommands:\n") else { return Vec::new() };
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Options, arguments and commands of a short help text that have no description: their line ends
/// after the name, and the next one does not continue it.
fn undescribed(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_entry = |line: &str| {
        let name = line.trim_start();
        line.starts_with("  ")
            && (name.starts_with('-') || name.starts_with('<') || name.starts_with('['))
    };
    let mut bad = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        // A continuation has a larger indent than any name.
        let indent = line.len() - line.trim_start().len();
        if !is_entry(line) || indent > 8 {
            continue;
        }
        let described = line.trim_start().contains("  ");
        let below = lines.get(n + 1).is_some_and(|next| {
            next.len() - next.trim_start().len() >= 10 && !next.trim().is_empty()
        });
        if !described && !below {
            bad.push(*line);
        }
    }
    bad
}

#[test]
fn every_help_text_is_complete_narrow_and_plain() {
    let mut commands = vec![Vec::<String>::new()];
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        seen += 1;
        for option in ["-h", "--help"] {
            let text = help(&command, option);
            let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > 100).collect();
            assert!(wide.is_empty(), "{command:?} {option}: over 100 columns: {wide:#?}");
            let found = banned(&text);
            assert!(found.is_empty(), "{command:?} {option}: {found:#?}\n{text}");
            let bad = undescribed(&text);
            assert!(bad.is_empty(), "{command:?} {option}: without a description: {bad:#?}");
        }
        for name in subcommands(&help(&command, "-h")) {
            commands.push(command.iter().cloned().chain([name]).collect());
        }
    }
    assert!(seen > 40, "only {seen} commands found");
}

#[test]
fn the_readme_is_plain() {
    let found = banned(&fs::read_to_string("../../README.md").unwrap());
    assert!(found.is_empty(), "README.md: {found:#?}");
}

#[test]
fn the_readmes_table_has_no_unknown_command() {
    let readme = fs::read_to_string("../../README.md").unwrap();
    let known = subcommands(&help(&[], "-h"));
    let table = readme.split("| command | purpose |").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = table.lines().filter_map(|line| line.split('|').nth(1));
    for name in names.flat_map(|cell| cell.split('`').skip(1).step_by(2)) {
        assert!(known.iter().any(|known| known == name), "{name}");
    }
}

/// In errors of experiment files: message and fix, not the quoted lines of the file.
#[test]
fn the_errors_of_experiment_files_are_plain() {
    let folder = Path::new("../experiment/tests/golden/bad");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        files += 1;
        let text = fs::read_to_string(&path).unwrap();
        let own = text.lines().filter(|line| line.starts_with("error") || line.contains('^'));
        let found = banned(&own.collect::<Vec<_>>().join("\n"));
        assert!(found.is_empty(), "{}: {found:#?}", path.display());
    }
    assert!(files > 50, "only {files} files");
}
