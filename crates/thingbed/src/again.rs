//! Builds the commands that repeat runs which the machine disturbed.

use crate::environment::current_exe;
use crate::show::cells;
use crate::sweep::Sweep;
use crate::virtual_time;
use experiment::Cpu;
use std::path::Path;

impl Sweep<'_> {
    /// The command line that repeats this sweep's invalid runs: same cells, same options.
    pub(crate) fn again(&self) -> String {
        // Not the words of this process: `--resume` or `--retry` may be among them already, and a
        // path with spaces would no longer be quoted.
        let run = self.arguments;
        let mut words = self.selection();
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([format!("--{name}"), value]);
            }
        };
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

    /// The command line that runs the same cells in virtual time; none if a cell or this machine
    /// does not support it.
    pub(crate) fn in_virtual_time(&self) -> Option<String> {
        let (tool, cells) = (current_exe(), cells(self.experiment, &self.arguments.only).ok()?);
        let works = |cpu: &Cpu| {
            cells.iter().all(|cell| {
                let plan = self.experiment.plan(cell, 0, self.seed);
                plan.is_ok_and(|plan| virtual_time::check(&plan, *cpu, &tool).is_ok())
            })
        };
        let mut words = self.selection();
        words.extend(match Cpu::Infinite {
            cpu if works(&cpu) => ["--clock".to_owned(), "virtual".to_owned()],
            _ => {
                let cpu = "1".parse().ok().filter(works)?;
                ["--cpu".to_owned(), cpu.to_string()]
            }
        });
        Some(words.join(" "))
    }

    /// The words that select the file, its settings and cells.
    fn selection(&self) -> Vec<String> {
        let run = self.arguments;
        let mut words = vec!["thingbed".to_owned(), "run".to_owned(), word_of(&run.file)];
        for (name, values) in [("--only", &run.only), ("--set", &run.settings.set)] {
            for value in values {
                words.extend([name.to_owned(), word_of(Path::new(value))]);
            }
        }
        let numbers = [
            ("--repeat", run.repeat.map(|n| n.to_string())),
            ("--seed", run.seed.map(|n| n.to_string())),
        ];
        for (name, number) in numbers {
            words.extend(number.into_iter().flat_map(|number| [name.to_owned(), number]));
        }
        words
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
