//! Any bytes as an image's archive, its manifest, its configuration or its layer; and
//! nothing is ever written outside of the folder that it is unpacked into.
#![no_main]

use image::Archive;
use libfuzzer_sys::fuzz_target;
use std::fs;
use std::path::Path;

const MANIFEST: &[u8] = br#"[{"Config":"config.json","RepoTags":["a:1"],"Layers":["layer"]}]"#;

fn config() -> Vec<u8> {
    format!(r#"{{"rootfs":{{"diff_ids":["sha256:{}"]}}}}"#, "0".repeat(64)).into_bytes()
}

fuzz_target!(|input: (u8, &[u8])| {
    let (part, bytes) = input;
    // Memory, where there is some: thousands of runs a second on a disk are a pity.
    let place = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let dir = tempfile::tempdir_in(place).unwrap();
    let (archive, root) = (dir.path().join("archive"), dir.path().join("box/root"));
    fs::create_dir_all(&root).unwrap();
    let texts = [MANIFEST.to_vec(), config(), Vec::new()];
    let names = ["manifest.json", "config.json", "layer"];
    match part % 4 {
        3 => fs::write(&archive, bytes).unwrap(),
        which => {
            fs::create_dir(&archive).unwrap();
            for (number, name) in names.iter().enumerate() {
                let text = if number == usize::from(which) { bytes } else { &texts[number] };
                fs::write(archive.join(name), text).unwrap();
            }
        }
    }
    if let Err(error) = Archive::open(&archive, None).and_then(|archive| archive.unpack(&root)) {
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "something was written outside of it");
    assert_eq!(fs::read_dir(dir.path().join("box")).unwrap().count(), 1);
});
