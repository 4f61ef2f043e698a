//! The files of the host that a run needs in a guest with files of its own.

use super::wire::Request;
use experiment::Plan;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that a plan needs without naming them, and what in it says so.
const BY_WORD: [(&str, &[&str]); 3] =
    [("mqtt", &["mosquitto"]), ("dhcp", &["dnsmasq", "busybox"]), ("dns", &["dnsmasq"])];

/// What `request`'s run of `plan` needs: the tool's own files, every path and every program that
/// the plan names, and what interpreters among them load. What only a program itself names is
/// not found; an experiment names it in a command line or in `env`.
pub(crate) fn files(plan: &Plan, request: &Request) -> Vec<PathBuf> {
    let plan = serde_json::to_value(plan).unwrap_or_default();
    let mut words = BTreeSet::new();
    words_of(&plan, &mut words);
    let mut files: BTreeSet<PathBuf> =
        [request.file.clone(), request.workload.clone(), PathBuf::from("/bin/sh")].into();
    files.extend(request.replay.clone());
    files.extend(guest::in_path(&request.workload.to_string_lossy()));
    for word in &words {
        files.extend(named(word, &request.home));
    }
    // The file is read there again, and whether files of other cells exist is checked then.
    let text = std::fs::read_to_string(&request.file).unwrap_or_default();
    let parts = text.split(|c: char| c.is_whitespace() || "\"'`,[]{}()".contains(c));
    files.extend(parts.filter_map(|part| of_home(part, &request.home)));
    for (word, programs) in BY_WORD {
        if plan.to_string().contains(word) {
            files.extend(programs.iter().filter_map(|program| guest::in_path(program)));
        }
    }
    // Whatever shells call beside what is named here.
    files.extend(guest::in_path("sleep"));
    let loaded: Vec<PathBuf> = files.iter().flat_map(|file| loaded(file)).collect();
    files.extend(loaded);
    files.into_iter().collect()
}

/// The words of all texts in `value`, as a shell would separate them, and the texts themselves.
fn words_of(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            words.insert(text.clone());
            let parts = text.split(|c: char| c.is_whitespace() || "\"'`;|&()<>=$,".contains(c));
            words.extend(parts.filter(|part| !part.is_empty()).map(str::to_owned));
        }
        Value::Array(values) => values.iter().for_each(|value| words_of(value, words)),
        Value::Object(fields) => fields.values().for_each(|value| words_of(value, words)),
        _ => {}
    }
}

/// The file that a word names: an absolute path, one relative to `home`, or a program in PATH.
fn named(word: &str, home: &Path) -> Option<PathBuf> {
    let plain = !word.is_empty() && !word.contains(['/', '\0']);
    of_home(word, home).or_else(|| plain.then(|| guest::in_path(word)).flatten())
}

/// The file at an absolute path or one relative to `home`.
fn of_home(word: &str, home: &Path) -> Option<PathBuf> {
    // The root itself, or what is above the experiment, is nothing that somebody means.
    let plain = (1..4096).contains(&word.len()) && !word.contains('\0') && word != ".";
    let path = home.join(word);
    let system = ["/", "/dev", "/proc", "/sys", "/tmp", "/run", "/home", "/root", "/usr", "/etc"];
    let means = plain && path.exists() && !home.starts_with(&path);
    (means && !system.iter().any(|folder| path == Path::new(folder))).then_some(path)
}

/// The folders that an interpreter or a runtime loads its parts from.
fn loaded(program: &Path) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.starts_with("python3") {
        let asked = Command::new(program)
            .args(["-c", "import sys; print('\\n'.join(p for p in sys.path if p))"])
            .output();
        let text = asked.map(|output| output.stdout).unwrap_or_default();
        return String::from_utf8_lossy(&text).lines().map(PathBuf::from).collect();
    }
    if name == "java" {
        // JAVA_HOME/bin/java
        return real.ancestors().nth(2).map(Path::to_owned).into_iter().collect();
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_paths_in_a_command_line_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("data.csv"), "1").unwrap();
        let mut words = BTreeSet::new();
        let value = serde_json::json!({"run": ["sh", "-c", "sleep 1; cat data.csv|grep '/ 1'"]});
        words_of(&value, &mut words);
        let found: Vec<PathBuf> = words.iter().filter_map(|word| named(word, dir.path())).collect();
        let has = |name: &str| found.iter().any(|path| path.ends_with(name));
        assert!(has("sh") && has("sleep") && has("cat") && has("grep"), "{found:?}");
        assert!(has("data.csv") && !found.contains(&PathBuf::from("/")), "{found:?}");
    }

    #[test]
    fn pythons_library_comes_with_it() {
        let Some(python) = guest::in_path("python3") else { return };
        let folders = loaded(&python);
        assert!(folders.iter().any(|folder| folder.join("os.py").exists()), "{folders:?}");
    }
}
