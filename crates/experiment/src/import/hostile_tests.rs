//! Files that try to write their own keys, comments or shell commands.

use super::*;
use crate::Experiment;
use crate::tree::{Content, Node};
use std::process::Command;

const HOSTILE: [&str; 32] = [
    "x: {attach: [a], subnet: 10.9.0.0/24, nat: true}\n  y",
    "1500 B\n    nat: true\n    dns: true #",
    "x\nworkloads: [{command: {on: a, run: [id]}}]\n",
    "x; touch /tmp/pwned; $(id) `id`",
    "'; id; '",
    "\" # {[",
    "a]\n    privileged: true",
    "\u{1b}[2J\u{1b}]0;x\u{7}",
    "a\rb",
    "a\u{85}nat: true",
    "a\u{2028}nat: true",
    "\u{202e}\u{feff}",
    "\u{0}\u{7f}\u{9b}",
    "null",
    "~",
    "true",
    "- a",
    "&a",
    "*a",
    "!!python/object:x",
    "%YAML 9",
    "---",
    "...",
    "<<: x",
    "? a",
    "@a",
    "-v",
    "--output=/etc/x",
    "../../etc/passwd",
    "${",
    "${axis} $${x} ${env:A",
    "localhost",
];

/// The text as YAML in ASCII letters, without help from the code under test.
fn foreign(text: &str) -> String {
    let escaped: String = text.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
    format!("\"{escaped}\"")
}

/// The keys of a map.
fn keys<'n>(node: &'n Node, name: &str) -> Vec<&'n str> {
    let Some(Content::Map(entries)) = node.get(name).map(|node| &node.content) else {
        return Vec::new();
    };
    entries.iter().map(|(key, _)| key.text.as_str()).collect()
}

/// Asserts that the experiment has these numbers of groups and networks, and nothing that imports do not
/// write.
fn assert_tame(imported: &Imported, groups: usize, networks: usize) {
    let text = &imported.text;
    let hidden =
        |c: char| c.is_control() && c != '\n' || "\u{2028}\u{2029}\u{feff}\u{202e}".contains(c);
    assert!(!text.contains(hidden), "{text:?}");
    assert!(imported.notes.iter().all(|note| !note.text.contains(|c: char| c.is_control())));
    let (root, problems) = tree::parse(text).unwrap_or_else(|e| panic!("{}\n{text}", e.message));
    assert!(problems.is_empty(), "{text}");
    let Content::Map(entries) = &root.content else { panic!("{text}") };
    let top: Vec<&str> = entries.iter().map(|(key, _)| key.text.as_str()).collect();
    let top: Vec<&str> = top.into_iter().filter(|key| *key != "workloads").collect();
    assert_eq!(top, ["experiment", "nodes", "networks", "duration"], "{text}");
    assert_eq!(keys(&root, "nodes").len(), groups, "{text}");
    assert_eq!(keys(&root, "networks").len(), networks, "{text}");
    let inside = |map: &str, known: &[&str]| {
        let map = root.get(map).unwrap();
        let Content::Map(entries) = &map.content else { panic!("{text}") };
        for (name, _) in entries {
            assert!(keys(map, &name.text).iter().all(|key| known.contains(key)), "{text}");
        }
    };
    inside("networks", &["attach", "subnet", "mtu"]);
    inside("nodes", &["count", "limits", "root", "run", "env", "ready", "after", "expect"]);
    let dir = tempfile::tempdir().unwrap();
    for (_, archive) in &imported.images {
        assert!(!archive.contains('/') && !archive.starts_with('-'), "{archive}");
        std::fs::write(dir.path().join(archive), "").unwrap();
    }
    Experiment::parse(text, "e.yaml", dir.path()).unwrap_or_else(|e| panic!("{e}\n{text}"));
}

#[test]
fn compose_files_cannot_write_keys() {
    for text in HOSTILE {
        let h = foreign(text);
        let set = foreign(&format!("A={text}"));
        let rest = format!(
            "    image: {h}\n    environment: {{{h}: {h}}}\n    deploy: {{replicas: {h}, resources: {{limits: {{cpus: {h}, \
             memory: {h}}}}}}}\n    cap_add: [{h}]\n    ports: [{h}]\n    depends_on: {{{h}: {{condition: \
             service_completed_successfully}}}}\n    networks: [{h}, front]\n    network_mode: {h}\n    {h}: {h}\n"
        );
        for command in [h.clone(), format!("[{h}, {h}]")] {
            let file = format!(
                "name: {h}\n{h}: {h}\nservices:\n  {h}:\n    command: {command}\n{rest}  b:\n    build: {h}\n    \
                 environment: [{h}, {set}]\n    entrypoint: {h}\n    restart: {h}\nnetworks:\n  {h}: {{driver: {h}, {h}: {h}, ipam: {{config: \
                 [{{subnet: {h}}}]}}}}\n  front: {{}}\n"
            );
            for host_programs in [true, false] {
                let path = format!("/x/{}/compose.yaml", text.replace(['/', '\0'], ""));
                let imported = import(&file, Path::new(&path), host_programs)
                    .unwrap_or_else(|errors| panic!("{text:?}: {errors}"));
                assert_tame(&imported, 2, 3);
            }
        }
    }
}

#[test]
fn topologies_cannot_write_keys() {
    for text in HOSTILE {
        let h = foreign(text);
        let node = format!(
            "kind: {h}, group: {h}, image: {h}, cmd: {h}, entrypoint: {h}, exec: [{h}], env: {{{h}: {h}}}"
        );
        let file = format!(
            "name: {h}\n{h}: {h}\ntopology:\n  {h}: {h}\n  defaults: {{{node}, {h}: {h}}}\n  kinds: {{{h}: {{{node}}}}}\n  \
             groups: {{{h}: {{{node}}}}}\n  nodes:\n    {h}: {{{node}, {h}: {h}}}\n    b: {{}}\n    \"{{\": {{kind: bridge}}\n  links:\n  \
             - endpoints: [{{node: {h}, interface: {h}}}, {{node: b, interface: {h}}}]\n    mtu: {h}\n    {h}: {h}\n  \
             - endpoints: [{{node: {h}, interface: {h}}}, {{node: \"{{\", interface: {h}}}]\n  \
             - endpoints: [{{node: {h}, interface: {h}}}, {{node: none, interface: {h}}}]\n"
        );
        for host_programs in [true, false] {
            let imported = import(&file, Path::new("/x/t.yaml"), host_programs)
                .unwrap_or_else(|errors| panic!("{text:?}: {errors}"));
            assert_tame(&imported, 2, 2);
        }
    }
}

#[test]
fn bridges_cannot_write_keys() {
    for text in HOSTILE {
        let h = foreign(text);
        let file = format!(
            "topology:\n  nodes: {{a: {{}}, {h}: {{kind: bridge}}}}\n  links:\n  - endpoints: [{{node: a, interface: x}}, \
             {{node: {h}, interface: x}}]\n"
        );
        assert_tame(&import(&file, Path::new("/x/t.yaml"), true).unwrap(), 1, 1);
    }
}

/// The printed hint is `docker save IMAGE -o ARCHIVE`.
#[test]
fn a_shell_takes_the_name_of_an_image_as_one_word() {
    for text in HOSTILE {
        let file = format!("services: {{a: {{image: {}}}}}\n", foreign(text));
        let imported = import(&file, Path::new("/x/compose.yaml"), false).unwrap();
        for (image, archive) in &imported.images {
            let shell = format!("printf '<%s>' save {image} -o {archive}");
            let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
            let output = String::from_utf8(output.stdout).unwrap();
            assert!(output.starts_with("<save><"), "{output}");
            assert!(output.ends_with(&format!("><-o><{archive}>")), "{output}");
            assert_eq!(output.matches("><").count(), 3, "{output}");
            assert!(!output.contains("<-v>") && !output.contains("<--"), "{output}");
        }
    }
}
