use super::{Capsule, is_capsule};
use crate::manifest::{FORMAT, HOME, Manifest, Packed};
use guest::{Entry, Image};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A capsule of two runs, with a file of the experiment's folder and one of the system.
fn made(dir: &Path) -> Capsule {
    let sources = dir.join("sources");
    fs::create_dir_all(sources.join("deep")).unwrap();
    for (name, text) in [("kernel", "k"), ("deep/data.txt", "data"), ("tool", "data")] {
        fs::write(sources.join(name), text).unwrap();
    }
    let manifest = Manifest {
        format: FORMAT,
        file: "e.yaml".into(),
        home: sources.clone(),
        cpu: vec!["1".parse().unwrap()],
        ..Manifest::default()
    };
    let mut capsule = Capsule::new(&dir.join("e.capsule"), manifest).unwrap();
    fs::write(capsule.folder.path().join(HOME).join("e.yaml"), "experiment: e").unwrap();
    let take = |name: &str| capsule.take(&sources.join(name)).unwrap();
    let copy = |name: &str| Entry::Copy(take(name), 0o644);
    let files = BTreeMap::from([
        (sources.join("deep/data.txt"), copy("deep/data.txt")),
        (sources.join("empty"), Entry::Folder),
        (PathBuf::from("/usr/bin/tool"), copy("tool")),
        // Not of a path in the folder, although it begins like one.
        (sources.join("../outside"), copy("tool")),
    ]);
    let image = Image {
        kernel: take("kernel"),
        boot: BTreeMap::new(),
        files,
        mips: 1_000,
        memory_bytes: 1 << 30,
        seed: 1,
    };
    let run = |repeat| Packed {
        cell: serde_json::from_str(r#"{"n": "1"}"#).unwrap(),
        repeat,
        image: image.clone(),
        expected: BTreeMap::new(),
    };
    capsule.manifest.runs = vec![run(0), run(1)];
    capsule
}

#[test]
fn a_capsule_is_known_by_its_ending() {
    for (name, is) in [("a.capsule", true), ("a.capsule/b", false), ("capsule", false)] {
        assert_eq!(is_capsule(Path::new(name)), is, "{name}");
    }
}

#[test]
fn what_was_packed_is_there_after_all_of_it_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut capsule = made(dir.path());
    let results = dir.path().join("results");
    fs::create_dir_all(results.join("programs")).unwrap();
    fs::write(results.join("summary.json"), r#"{"figure": 5}"#).unwrap();
    fs::write(results.join("programs/a.json"), "{}").unwrap();
    let paths = ["summary.json", "programs/a.json"].map(PathBuf::from);
    capsule.expect(1, &results, paths).unwrap();
    capsule.write().unwrap();
    let (folder, file) = (capsule.folder.path().to_owned(), capsule.path.clone());
    drop(capsule);
    assert!(!folder.exists(), "its folder is removed");
    fs::remove_dir_all(dir.path().join("sources")).unwrap();
    fs::remove_dir_all(results).unwrap();
    let capsule = Capsule::open_in(&file, dir.path()).unwrap();
    assert_eq!(fs::read_to_string(capsule.file()).unwrap(), "experiment: e");
    let home = capsule.home().unwrap();
    assert_eq!(fs::read_to_string(home.join("deep/data.txt")).unwrap(), "data");
    assert!(home.join("empty").is_dir());
    let names: Vec<_> = fs::read_dir(&home).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "nothing else: {names:?}");
    assert!(!home.parent().unwrap().join("outside").exists());
    assert_eq!(capsule.figures(1, Path::new("summary.json")).unwrap()["figure"], 5);
    assert_eq!(capsule.figures(0, Path::new("summary.json")), None, "of another run");
    assert_eq!(capsule.figures(1, Path::new("programs/a.json")), None, "no figures");
    assert_eq!(capsule.manifest.runs[1].expected.len(), 2);
}

#[test]
fn equal_files_are_there_once_and_images_name_them() {
    let dir = tempfile::tempdir().unwrap();
    let capsule = made(dir.path());
    let blobs = fs::read_dir(capsule.folder.path().join("blobs")).unwrap().count();
    assert_eq!(blobs, 2, "of four files");
    let cell = capsule.manifest.runs[0].cell.clone();
    let image = capsule.image(&cell, 1).unwrap();
    assert_eq!(fs::read_to_string(&image.kernel).unwrap(), "k");
    for entry in image.entries() {
        if let Entry::Copy(path, _) = entry {
            assert_eq!(fs::read_to_string(path).unwrap(), "data");
        }
    }
    assert!(capsule.image(&cell, 2).is_none(), "no such repeat");
    let other = serde_json::from_str(r#"{"n": "2"}"#).unwrap();
    assert!(capsule.image(&other, 0).is_none(), "no such cell");
    assert!(capsule.has(&cell, &(1..5)) && !capsule.has(&cell, &(2..5)));
    assert!(!capsule.has(&other, &(0..5)) && !capsule.has(&cell, &(1..1)));
    assert!(capsule.take(&dir.path().join("none")).is_err());
}

#[test]
fn a_capsule_that_is_not_whole_leaves_no_folder_behind() {
    let dir = tempfile::tempdir().unwrap();
    let capsule = made(dir.path());
    capsule.write().unwrap();
    let whole = fs::read(&capsule.path).unwrap();
    drop(capsule);
    let unpack = tempfile::tempdir().unwrap();
    let file = dir.path().join("bad.capsule");
    for length in [0, 5, whole.len() / 2, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        let error = Capsule::open_in(&file, unpack.path()).err().unwrap();
        assert!(error.contains("could not read the capsule") && error.contains("bad.capsule"));
        assert_eq!(fs::read_dir(unpack.path()).unwrap().count(), 0, "{length} B");
    }
    assert!(Capsule::open_in(&dir.path().join("none"), unpack.path()).is_err());
    assert_eq!(fs::read_dir(unpack.path()).unwrap().count(), 0);
}

/// Another name for one large file would take its memory again.
#[test]
fn the_files_of_a_guest_are_counted_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut capsule = made(dir.path());
    assert_eq!(capsule.check_sizes(), Ok(()));
    let blob = capsule.folder.path().join("blobs").join("large");
    // Sparse: only its length counts.
    fs::File::create(&blob).unwrap().set_len(super::MOST_FILES_BYTES / 2 - 100).unwrap();
    for (name, allowed) in [("/1", true), ("/2", true), ("/3", false)] {
        capsule.manifest.runs[1].image.files.insert(name.into(), Entry::Copy("large".into(), 0));
        assert_eq!(capsule.check_sizes().is_ok(), allowed, "{name}");
    }
}
