//! Capsules: one file with the same runs on every machine, safe to open.

mod common;

use common::Bed;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// A program that reads a file next to the experiment, which no command line names.
const READER: &str = "experiment: reader
nodes: {a: {}, b: {}}
networks: {n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {delay: 30 ms}, down: {delay: 30 ms}}}}}
workloads:
  - command: {on: a, run: [sh, read.sh, ping]}
files: [data.txt]
duration: 3 s
drain: 1 s
";

#[test]
fn a_capsule_runs_where_nothing_of_the_experiment_is() {
    let bed = Bed::new();
    bed.write("e.yaml", READER);
    bed.write("data.txt", "from the file\n");
    bed.write("read.sh", "read line <data.txt; echo $line; exec $1 -c 3 -i 0.2 b\n");
    bed.thingbed(&["pack", "e.yaml", "--seed", "5"]).expect(0, &["e.capsule: 1 runs"]);
    let elsewhere = Bed::new();
    fs::rename(bed.path().join("e.capsule"), elsewhere.path().join("e.capsule")).unwrap();
    drop(bed);
    elsewhere.thingbed(&["run", "e.capsule"]).expect(0, &["VALID", "in virtual time: 1 valid"]);
    let output = fs::read_to_string(elsewhere.sweep("reader").join("programs/a.0.out")).unwrap();
    assert!(output.contains("from the file") && output.contains("3 received"), "{output}");
    elsewhere.thingbed(&["run", "e.capsule", "--seed", "3"]).expect(2, &["--seed cannot be used"]);

    // `verify` finds a changed metric in the manifest.
    let (mut files, text) = unpacked(&elsewhere.path().join("e.capsule"));
    let text = text.replace(&digest_of(&text, "summary.json"), &"0".repeat(64));
    files.retain(|(name, _)| name != Path::new("capsule.json"));
    files.push(("capsule.json".into(), text.into_bytes()));
    pack(&elsewhere.path().join("other.capsule"), &files);
    // All other files are identical.
    elsewhere
        .thingbed(&["verify", "other.capsule"])
        .expect(4, &["1 of ", "the first is summary.json"]);
}

/// The files of a capsule, and its manifest.
fn unpacked(path: &Path) -> (Vec<(PathBuf, Vec<u8>)>, String) {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let (name, mut bytes) = (entry.path().unwrap().into_owned(), Vec::new());
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    });
    let files: Vec<_> = entries.collect();
    let found = files.iter().find(|(name, _)| name == Path::new("capsule.json")).unwrap();
    let text = String::from_utf8(found.1.clone()).unwrap();
    (files, text)
}

fn digest_of(manifest: &str, name: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(manifest).unwrap();
    value["runs"][0]["expected"][name].as_str().unwrap().to_owned()
}

fn pack(path: &Path, files: &[(PathBuf, Vec<u8>)]) {
    let mut archive =
        tar::Builder::new(GzEncoder::new(File::create(path).unwrap(), Compression::fast()));
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        let raw = header.as_old_mut();
        // Names that the tar library would also reject.
        let text = name.to_string_lossy();
        raw.name[..text.len()].copy_from_slice(text.as_bytes());
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, bytes.as_slice()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap().flush().unwrap();
}

#[test]
fn whatever_a_capsule_holds_it_stays_in_its_folder_and_says_what_is_wrong() {
    let bed = Bed::new();
    let run = |name: &str, words: &[&str]| {
        bed.thingbed(&["run", name]).expect(2, &[&["could not read the capsule"], words].concat());
    };
    run("missing.capsule", &["No such file"]);
    bed.write("text.capsule", "experiment: e");
    run("text.capsule", &["not a capsule of `thingbed pack`"]);
    let manifest = |digest: &str, file: &str, memory: u64| {
        let image = format!(
            "{{\"kernel\": \"{digest}\", \"boot\": {{}}, \"files\": {{}}, \"mips\": 1000, \"memory_bytes\": {memory}, \"seed\": 1}}"
        );
        format!(
            "{{\"format\": 1, \"thingbed\": \"0\", \"commit\": \"\", \"experiment\": \"e\", \"file\": \"{file}\", \
             \"home\": \"/\", \"seed\": 1, \"repeats\": 1, \"cpu\": [\"1\"], \"runs\": [{{\"cell\": {{}}, \
             \"repeat\": 0, \"image\": {image}, \"expected\": {{}}}}]}}"
        )
    };
    let good = "0".repeat(64);
    let infinite = manifest(&good, "e.yaml", 1).replace("[\"1\"]", "[\"infinite\"]");
    let outside = manifest(&good, "e.yaml", 1)
        .replace("\"expected\": {}", "\"expected\": {\"/dev/zero\": \"\"}");
    let cases: [(&str, String, &str); 8] = [
        ("../../out", String::new(), "which is not part of a capsule"),
        ("/tmp/out", String::new(), "which is not part of a capsule"),
        ("blobs/abc", String::new(), "is damaged: its SHA-256 is"),
        ("capsule.json", manifest("../../etc/passwd", "e.yaml", 1), "is no digest"),
        ("capsule.json", manifest(&good, "../e.yaml", 1), "is no file name"),
        ("capsule.json", manifest(&good, "e.yaml", u64::MAX), "asks for too much memory"),
        ("capsule.json", outside, "is no file of a run"),
        // It would run with the files of this machine.
        ("capsule.json", infinite, "no CPU of finite speed"),
    ];
    for (number, (name, text, words)) in cases.into_iter().enumerate() {
        let capsule = format!("{number}.capsule");
        pack(&bed.path().join(&capsule), &[(name.into(), text.into_bytes())]);
        run(&capsule, &[words]);
    }
    // A cell without an image has no guest, instead of one with the files of this machine.
    let other = manifest(&good, "e.yaml", 1).replace("\"cell\": {}", "\"cell\": {\"n\": \"1\"}");
    let yaml = READER.replace("files: [data.txt]\n", "");
    let files = [("capsule.json".into(), other.into_bytes()), ("home/e.yaml".into(), yaml.into())];
    pack(&bed.path().join("other.capsule"), &files);
    bed.thingbed(&["run", "other.capsule"]).expect(2, &["the capsule has no such run"]);
    // A reference is copied next to the results.
    let own = manifest(&good, "e.yaml", 1).into_bytes();
    let yaml = READER.replace("files: [data.txt]\n", "reference: /etc/hostname\n");
    let files = [("capsule.json".into(), own), ("home/e.yaml".into(), yaml.into())];
    pack(&bed.path().join("reference.capsule"), &files);
    bed.thingbed(&["run", "reference.capsule"]).expect(2, &["is not a file of the capsule"]);
    pack(&bed.path().join("empty.capsule"), &[("home/e.yaml".into(), Vec::new())]);
    run("empty.capsule", &["it has no capsule.json"]);
    let half = fs::read(bed.path().join("3.capsule")).unwrap();
    fs::write(bed.path().join("half.capsule"), &half[..half.len() / 2]).unwrap();
    run("half.capsule", &["the copy is incomplete"]);
    let mut left: Vec<_> =
        fs::read_dir(bed.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.retain(|name| !name.to_string_lossy().ends_with(".capsule") && name != "payload.xml");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_cannot_be_packed_is_refused() {
    let bed = Bed::new();
    bed.write("e.yaml", READER);
    bed.write("data.txt", "");
    bed.thingbed(&["pack", "e.yaml", "--cpu", "infinite"])
        .expect(2, &["a capsule needs a CPU of finite"]);
    bed.thingbed(&["pack", "e.capsule"]).expect(2, &["is already a capsule"]);
    bed.thingbed(&["pack", "e.yaml", "-o", "e.zip"]).expect(2, &["must end in .capsule"]);
    let (at, _) =
        (bed.path(), bed.write("out.yaml", &READER.replace("b: {}", "b: {external: eth9}")));
    bed.thingbed(&["pack", "out.yaml"]).expect(2, &["runs in real time"]);
    assert!(!at.join("runs").exists());
}
