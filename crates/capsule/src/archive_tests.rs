use super::{MOST_BYTES, pack, unpack};
use crate::manifest::{BLOBS, digest};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// The files below a folder.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = todo.pop() {
        for path in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => todo.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_owned();
                    found.insert(name, fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

/// A file with these bytes, at its beginning.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

/// An archive of entries: name, type, the size in its head, content.
fn archive(entries: &[(&str, EntryType, u64, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, size, content) in entries {
        let mut header = Header::new_gnu();
        // Also names that the library does not write.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(*size);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

fn plain<'a>(name: &'a str, content: &'a [u8]) -> (&'a str, EntryType, u64, &'a [u8]) {
    (name, EntryType::Regular, content.len() as u64, content)
}

/// What unpacking an archive leaves, or the error.
fn unpacked(bytes: &[u8]) -> Result<BTreeMap<PathBuf, Vec<u8>>, String> {
    let around = tempfile::tempdir().unwrap();
    let folder = around.path().join("capsule");
    fs::create_dir(&folder).unwrap();
    let result = unpack(file(bytes), &folder);
    let found = files(around.path());
    assert!(found.keys().all(|path| path.starts_with("capsule")), "{found:?}");
    let inside = |(path, bytes): (PathBuf, Vec<u8>)| {
        Some((path.strip_prefix("capsule").ok()?.to_owned(), bytes))
    };
    result.map(|()| found.into_iter().filter_map(inside).collect())
}

#[test]
fn what_is_packed_is_unpacked_and_always_the_same_archive() {
    let dir = tempfile::tempdir().unwrap();
    let content = b"of a guest";
    let blob = digest(&content[..]).unwrap();
    for (name, bytes) in [
        ("capsule.json", &b"{}"[..]),
        ("home/e.yaml", b"experiment: e"),
        ("home/deep/er/empty", b""),
        (&format!("{BLOBS}/{blob}"), content),
        ("expected/0/summary.json", &[7; 100_000]),
    ] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let packed = || {
        let mut out = Vec::new();
        pack(dir.path(), &mut out).unwrap();
        out
    };
    let first = packed();
    assert_eq!(unpacked(&first).unwrap(), files(dir.path()));
    // Neither times nor the order of a folder's entries are in it.
    let text = dir.path().join("home/e.yaml");
    fs::remove_file(&text).unwrap();
    fs::write(&text, "experiment: e").unwrap();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
    File::open(&text).unwrap().set_modified(old).unwrap();
    assert_eq!(packed(), first);
}

/// A capsule may come from anywhere.
#[test]
fn entries_that_could_leave_the_folder_are_refused() {
    for name in ["../out", "/etc/out", "home/../../out", "home/.."] {
        let error = unpacked(&archive(&[plain(name, b"x")])).unwrap_err();
        assert!(error.contains("which is not part of a capsule"), "{name}: {error}");
    }
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Directory,
        EntryType::Fifo,
        EntryType::Char,
        EntryType::Block,
    ] {
        let error = unpacked(&archive(&[("home/x", kind, 0, b"")])).unwrap_err();
        assert!(error.contains("`home/x`, which is not part"), "{kind:?}: {error}");
    }
}

#[test]
fn files_elsewhere_are_left_out_and_those_at_the_top_are_not() {
    let all = [plain("home/a", b"1"), plain("other/b", b"2"), plain("capsule.json", b"3")];
    let found = unpacked(&archive(&all)).unwrap();
    let names: Vec<_> = found.keys().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(names, ["capsule.json", "home/a"]);
}

#[test]
fn a_blob_must_have_the_digest_of_its_name() {
    let right = digest(&b"text"[..]).unwrap();
    let name = format!("{BLOBS}/{right}");
    assert!(unpacked(&archive(&[plain(&name, b"text")])).is_ok());
    let error = unpacked(&archive(&[plain(&name, b"Text")])).unwrap_err();
    assert!(error.contains("is damaged: its SHA-256 is"), "{error}");
    // A folder in between does not help, and the name of a digest is in small letters.
    let deep = format!("{BLOBS}/x/{right}");
    assert!(unpacked(&archive(&[plain(&deep, b"Text")])).is_err());
    let large = format!("{BLOBS}/{}", right.to_uppercase());
    assert!(unpacked(&archive(&[plain(&large, b"text")])).is_err());
}

#[test]
fn a_size_without_its_bytes_is_an_error_before_the_disk_is_full() {
    let mut all = vec![("home/a", EntryType::Regular, MOST_BYTES + 1, &b"x"[..])];
    let error = unpacked(&archive(&all)).unwrap_err();
    assert!(error.contains("more than 32 GiB"), "{error}");
    // The sum counts, although the first is only a claim.
    all = vec![("other/a", EntryType::Regular, MOST_BYTES, b""), plain("home/b", b"x")];
    assert!(unpacked(&archive(&all)).is_err());
    // More than the blocks of zeros at the end of an archive.
    let error = unpacked(&archive(&[("home/a", EntryType::Regular, 5_000, b"")])).unwrap_err();
    assert!(error.contains("the copy is incomplete"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Cut or changed anywhere: an error, or no change that matters.
    #[test]
    fn a_damaged_copy_is_noticed(cut in 0.0..1.0_f64, at in 0.0..1.0_f64, bit in 0..8_u32) {
        let content = [7; 3_000];
        let name = format!("{BLOBS}/{}", digest(&content[..]).unwrap());
        let good = archive(&[plain("capsule.json", b"{}"), plain(&name, &content)]);
        let expected = unpacked(&good).unwrap();
        let cut = (cut * good.len() as f64) as usize;
        prop_assert!(unpacked(&good[..cut]).is_err(), "{cut} of {} B", good.len());
        let mut bad = good.clone();
        // Behind gzip's head, of which some fields have no meaning here.
        let at = 10 + (at * (good.len() - 10) as f64) as usize;
        bad[at] ^= 1 << bit;
        if let Ok(found) = unpacked(&bad) {
            prop_assert_eq!(found, expected, "byte {}", at);
        }
    }
}
