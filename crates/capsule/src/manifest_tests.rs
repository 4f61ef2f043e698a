use super::{FORMAT, Manifest, NAME, digest};
use serde_json::{Value, json};
use std::fs;

/// A manifest of one run.
fn good() -> Value {
    let digest = "a".repeat(64);
    let copy = json!({"copy": [digest, 420]});
    json!({
        "format": FORMAT, "thingbed": "0.1", "commit": "", "experiment": "e", "file": "e.yaml",
        "home": "/home/user", "seed": 1, "repeats": 1, "cpu": ["1"],
        "runs": [{
            "cell": {"n": "1"}, "repeat": 0, "expected": {"summary.json": digest},
            "image": {
                "kernel": digest, "boot": {}, "files": {"/home/user/data.txt": copy},
                "mips": 1000, "memory_bytes": 1 << 30, "seed": 1,
            },
        }],
    })
}

fn read(manifest: &Value) -> Result<Manifest, String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(NAME), manifest.to_string()).unwrap();
    Manifest::read(dir.path())
}

#[test]
fn what_is_written_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = read(&good()).unwrap();
    manifest.write(dir.path()).unwrap();
    let again = Manifest::read(dir.path()).unwrap();
    assert_eq!(json!(again), json!(manifest));
    assert_eq!(again.emulator, None, "older capsules do not have it");
}

/// A path in the manifest, what stands there instead, and the message.
type Case = (&'static str, Value, &'static str);

#[test]
fn each_field_that_could_do_harm_is_checked() {
    let zeros = "0".repeat(63);
    let cases: Vec<Case> = vec![
        ("/format", json!(2), "has format 2, and this version of Thingbed reads format 1"),
        ("/format", json!("1"), "is damaged, or from another version"),
        ("/file", json!("../e.yaml"), "`../e.yaml` is no file name"),
        ("/file", json!("a/e.yaml"), "is no file name"),
        ("/file", json!("/e.yaml"), "is no file name"),
        ("/file", json!(""), "is no file name"),
        ("/file", json!(".."), "is no file name"),
        ("/cpu", json!([]), "no CPU of finite speed"),
        ("/cpu", json!(["1", "infinite"]), "no CPU of finite speed"),
        ("/runs", json!([]), "it has no runs"),
        ("/runs/0/image/kernel", json!("/bin/sh"), "`/bin/sh` is no digest"),
        ("/runs/0/image/kernel", json!(format!("{zeros}/")), "is no digest"),
        ("/runs/0/image/kernel", json!(zeros), "is no digest"),
        ("/runs/0/image/kernel", json!("é".repeat(32)), "is no digest"),
        ("/runs/0/image/files/~1home~1user~1data.txt/copy/0", json!("../x"), "is no digest"),
        ("/runs/0/image/boot", json!({"/init": {"copy": ["x", 1]}}), "`x` is no digest"),
        ("/runs/0/expected", json!({"../summary.json": ""}), "is no file of a run"),
        ("/runs/0/expected", json!({"/etc/passwd": ""}), "is no file of a run"),
        ("/runs/0/image/memory_bytes", json!((64_u64 << 30) + 1), "asks for too much memory"),
        ("/runs/0/cell", json!({"n": "../1"}), "a name that is not a file name"),
        ("/runs/0/cell", json!({"a/b": "1"}), "a name that is not a file name"),
        ("/runs/0/cell", json!({"n": "\0"}), "a name that is not a file name"),
    ];
    for (place, value, message) in cases {
        let mut manifest = good();
        let target = manifest.pointer_mut(place).unwrap_or_else(|| panic!("{place}"));
        *target = value.clone();
        let error = read(&manifest).err().unwrap_or_else(|| panic!("{place}: {value}"));
        assert!(error.contains(message), "{place}: {value}: {error}");
    }
    let mut most = good();
    most["runs"][0]["image"]["memory_bytes"] = json!(64_u64 << 30);
    assert!(read(&most).is_ok(), "the limit itself");
}

#[test]
fn each_missing_field_and_each_cut_is_an_error() {
    let fields = good().as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for field in fields {
        let mut manifest = good();
        manifest.as_object_mut().unwrap().remove(&field);
        assert!(read(&manifest).is_err(), "{field}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(Manifest::read(dir.path()).unwrap_err().contains("it has no capsule.json"));
    let text = good().to_string();
    for cut in (0..text.len()).step_by(7) {
        fs::write(dir.path().join(NAME), &text[..cut]).unwrap();
        assert!(Manifest::read(dir.path()).is_err(), "{cut}");
    }
}

/// The examples of FIPS 180-4, and pieces larger than the buffer.
#[test]
fn digests_are_those_of_the_standard() {
    let of = |bytes: &[u8]| digest(bytes).unwrap();
    assert_eq!(of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(of(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    let million = of(&vec![b'a'; 1_000_000]);
    assert_eq!(million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
