//! The files of the host that a guest with its own file system (QEMU) needs for a run.

use super::wire::Request;
use experiment::Plan;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that a plan needs without naming them, by the word in the plan that implies them.
const BY_WORD: [(&str, &[&str]); 3] =
    [("mqtt", &["mosquitto"]), ("dhcp", &["dnsmasq", "busybox"]), ("dns", &["dnsmasq"])];

/// The files that `request`'s run of `plan` needs: the tool's own files, each path and program
/// that the plan names, and the libraries of interpreters among them. Does not find files that
/// only a program itself names; an experiment names them in a command line, `env` or `files`.
pub(crate) fn files(plan: &Plan, request: &Request) -> Vec<PathBuf> {
    let has_filter = plan.capture.as_ref().is_some_and(|capture| capture.filter.is_some());
    let plan = serde_json::to_value(plan).unwrap_or_default();
    let mut words = BTreeSet::new();
    words_of(&plan, &mut words);
    // `/bin/sh`, because commands of experiments run in a shell.
    let mut files: BTreeSet<PathBuf> =
        [request.file.clone(), request.workload.clone(), PathBuf::from("/bin/sh")].into();
    files.extend(request.replay.clone());
    files.extend(guest::in_path(&request.workload.to_string_lossy()));
    for word in &words {
        files.extend(named(word, &request.home));
    }
    files.extend(request.files.iter().cloned());
    // The guest parses the file again, and then checks that the files of all cells exist.
    let text = std::fs::read_to_string(&request.file).unwrap_or_default();
    files.extend(named_in_text(&text, &request.home));
    for (word, programs) in BY_WORD {
        if plan.to_string().contains(word) {
            // A word that occurs for another reason only costs the guest a few files.
            files.extend(programs.iter().filter_map(|program| guest::in_path(program)));
        }
    }
    if has_filter {
        files.extend(measure::LIBPCAP.iter().filter_map(|name| guest::library(name)));
    }
    // Shells often call it, also in commands that do not name it.
    files.extend(guest::in_path("sleep"));
    let loaded: Vec<PathBuf> = files.iter().flat_map(|file| loaded(file)).collect();
    files.extend(loaded);
    files.into_iter().collect()
}

/// Collects all texts in `value`, and their words as a shell would split them.
fn words_of(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            words.insert(text.clone());
            // Splitting too much is harmless: words that name no file are ignored.
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
    // NUL ends a path in system calls, so such a word can name no file.
    let plain = !word.is_empty() && !word.contains(['/', '\0']);
    file_at(word, home).or_else(|| plain.then(|| guest::in_path(word)).flatten())
}

/// The files that the text of an experiment names, without its comments.
fn named_in_text(text: &str, home: &Path) -> Vec<PathBuf> {
    let lines = text.lines().map(|line| match line.trim_start().starts_with('#') {
        true => "",
        false => line.split(" #").next().unwrap_or_default(),
    });
    let words =
        lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"'`,[]{}()".contains(c)));
    words.filter_map(|word| file_at(word, home)).collect()
}

/// The file at an absolute path or at a path relative to `home`. None for a folder that contains
/// the experiment, the user's home and folders of the system: they would add all files there; and
/// none for what the kernel shows as files.
fn file_at(word: &str, home: &Path) -> Option<PathBuf> {
    const SYSTEM: [&str; 9] =
        ["/dev", "/proc", "/sys", "/run", "/tmp", "/var", "/usr", "/usr/local", "/usr/share"];
    // PATH_MAX is 4,096 with its final NUL; longer texts are no paths, but scripts.
    let plain = (1..4096).contains(&word.len()) && !word.contains('\0');
    let path = plain.then(|| home.join(word))?;
    let real = std::fs::canonicalize(&path).ok()?;
    // A guest has its own; files there belong to a process or cannot be read.
    let of_kernel = |path: &Path| path.starts_with("/proc") || path.starts_with("/sys");
    if of_kernel(&real) || of_kernel(&path) {
        return None;
    }
    let (depth, is_folder) = (real.components().count(), real.is_dir());
    let above = home.starts_with(&real);
    // The root and what is directly below it: /home, /etc, /opt.
    let system = depth <= 2 || SYSTEM.iter().any(|folder| real == Path::new(folder));
    let of_user = std::env::var_os("HOME").is_some_and(|own| real == Path::new(&own));
    // Files are taken from anywhere; only whole folders can be too large or private.
    (!is_folder || !(above || system || of_user)).then_some(path)
}

/// The folders from which an interpreter or a runtime loads its library.
fn loaded(program: &Path) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_version = |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || c == '.');
    if name.strip_prefix("python3").is_some_and(is_version) {
        // Isolated: without the current folder and PYTHONPATH, whose folders are named below.
        let output = Command::new(program)
            .args(["-I", "-c", "import sys; print('\\n'.join(p for p in sys.path if p))"])
            .output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let own = String::from_utf8_lossy(&text).into_owned();
        let given = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let given = std::env::split_paths(&given).filter(|path| path.is_absolute());
        let given = given.filter_map(|path| file_at(path.to_str()?, Path::new("/")));
        return own.lines().map(PathBuf::from).chain(given).collect();
    }
    if let Some(arch) = name.strip_prefix("qemu-system-") {
        // The firmware of its machines and adapters.
        let output = Command::new(program).args(["-L", "help"]).output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        return text.lines().map(PathBuf::from).chain(translator(&real, arch)).collect();
    }
    if name == "java" {
        // JAVA_HOME/bin/java
        return real.ancestors().nth(2).map(Path::to_owned).into_iter().collect();
    }
    Vec::new()
}

/// The module with which the QEMU at `program` translates the code of machines of `arch`, if it has one: those that
/// can use KVM do. QEMU does not print where its modules are; these are the folders of distributions.
fn translator(program: &Path, arch: &str) -> Option<PathBuf> {
    let prefix = program.ancestors().nth(2)?;
    let of_triplet = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let folders = [prefix.join("lib"), prefix.join("lib64")].into_iter();
    let mut folders = folders.chain(of_triplet.map(|entry| entry.path()));
    folders.find_map(|folder| {
        let module = folder.join("qemu").join(format!("accel-tcg-{arch}.so"));
        module.exists().then_some(module)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

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
    fn what_is_above_an_experiment_and_what_comments_say_stays_at_home() {
        let dir = tempfile::tempdir().unwrap();
        let home = std::fs::canonicalize(dir.path()).unwrap().join("project");
        std::fs::create_dir_all(home.join("data")).unwrap();
        std::fs::write(home.join("../secret"), "").unwrap();
        std::fs::write(home.join("a.csv"), "").unwrap();
        let text = "# 1 .. 10 nodes, see a.csv\nrun: [sh, -c, 'cd .. && ls ../.. . /etc /home']\n\
                    payload: data # or a.csv\n";
        assert_eq!(named_in_text(text, &home), [home.join("data")]);
        for word in ["..", ".", "../..", "data/..", "data/../..", "/", "/etc", "/usr/..", ""] {
            assert_eq!(file_at(word, &home), None, "{word}");
        }
        for word in ["/proc/1/fd", "/proc/self/exe", "/proc/version", "/sys/kernel"] {
            assert_eq!(file_at(word, &home), None, "{word}");
        }
        // A file that is named explicitly is added.
        assert_eq!(file_at("../secret", &home), Some(home.join("../secret")));
    }

    #[test]
    fn only_pythons_are_asked_what_they_load() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("python3_bridge.sh");
        let mark = dir.path().join("mark");
        std::fs::write(&script, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(loaded(&script).is_empty() && !mark.exists());
    }

    #[test]
    fn qemus_translator_comes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("bin/qemu-system-x86_64");
        assert_eq!(translator(&program, "x86_64"), None);
        for folder in ["lib/x86_64-linux-gnu/qemu", "lib64/qemu", "lib/qemu"] {
            let folder = dir.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let module = folder.join("accel-tcg-x86_64.so");
            std::fs::write(&module, "").unwrap();
            assert_eq!(translator(&program, "x86_64"), Some(module.clone()));
            assert_eq!(translator(&program, "arm"), None);
            std::fs::remove_file(module).unwrap();
        }
    }

    #[test]
    fn pythons_library_comes_with_it() {
        let Some(python) = guest::in_path("python3") else { return };
        let folders = loaded(&python);
        assert!(folders.iter().any(|folder| folder.join("os.py").exists()), "{folders:?}");
    }
}
