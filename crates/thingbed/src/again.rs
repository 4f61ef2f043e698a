//! Builds the command that repeats invalid runs.

use crate::sweep::Sweep;
use std::path::Path;

impl Sweep<'_> {
    /// The command line that repeats this sweep's invalid runs: same cells, same options.
    pub(crate) fn again(&self) -> String {
        // Not the words of this process: `--resume` or `--retry` may be among them already, and a
        // path with spaces would no longer be quoted.
        let run = self.arguments;
        let mut words = vec!["thingbed".to_owned(), "run".to_owned(), word_of(&run.file)];
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([format!("--{name}"), value]);
            }
        };
        for only in &run.only {
            option("only", Some(word_of(Path::new(only))));
        }
        for set in &run.settings.set {
            option("set", Some(word_of(Path::new(set))));
        }
        option("repeat", run.repeat.map(|repeat| repeat.to_string()));
        option("seed", run.seed.map(|seed| seed.to_string()));
        option("clock", run.clock.map(|clock| clock.to_string()));
        option(
            "cpu",
            (!run.cpu.is_empty())
                .then(|| run.cpu.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
        );
        option("replay", run.replay.as_deref().map(word_of));
        // A single run has no sweep to resume, and a replay is always a single run.
        let alone = run.replay.is_some() || self.folder.join("run.json").exists();
        // `runs` is the default of `--out`, and a resumed sweep already has its folder.
        let parent = Some(&run.out).filter(|out| alone && out.as_os_str() != "runs");
        option("out", parent.map(|out| word_of(out)));
        option("resume", (!alone).then(|| word_of(&self.folder)));
        option("retry", Some("3".to_owned()));
        option("threads", run.forwarding.threads.map(|threads| threads.to_string()));
        for (name, given) in [("--spin", run.forwarding.spin), ("--capture", run.capture)] {
            words.extend(given.then(|| name.to_owned()));
        }
        words.join(" ")
    }
}

/// A path as a shell word, quoted if needed.
fn word_of(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,:@%".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
