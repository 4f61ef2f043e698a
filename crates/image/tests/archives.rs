//! Unpacks archives of both forms, intact and damaged.

mod common;

use common::{Image, Layer, Pack, write_folder, write_tar};
use image::{Archive, Cache, Error, Fault};
use serde_json::json;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

fn two_layers(pack: Pack) -> Image {
    let lower = Layer::new()
        .dir("etc/")
        .file("etc/kept", b"kept")
        .file("etc/changed", b"one")
        .file("etc/gone", b"gone")
        .dir("data/")
        .dir("data/deep/")
        .file("data/deep/old", b"old")
        .program("run", b"#!/bin/sh\n")
        .hard_link("also-run", "./run")
        .symlink("absolute", "/etc/kept")
        .symlink("lib", "usr/lib")
        .dir("usr/lib/")
        .entry(EntryType::Fifo, "pipe", "", 0o600, b"");
    let upper = Layer::new()
        .file("etc/changed", b"two")
        .file("etc/.wh.gone", b"")
        .file("etc/.wh.never-there", b"")
        .file("data/deep/new", b"new")
        .file("data/.wh..wh..opq", b"")
        .file("lib/through", b"a link within the root")
        .dir("run/");
    Image::new(
        vec![(lower, pack), (upper, pack)],
        json!({
            "Entrypoint": ["/run"], "Cmd": ["-x", "7"], "Env": ["PATH=/bin", "A=b=c", "broken"],
            "WorkingDir": "/etc", "User": "1000:1000",
        }),
    )
}

fn unpack(dir: &TempDir, archive: &Path) -> Result<PathBuf, Error> {
    let root = tempfile::tempdir_in(dir.path()).unwrap().keep();
    Archive::open(archive, None)?.unpack(&root)?;
    Ok(root)
}

fn check(root: &Path) {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_else(|e| e.to_string());
    assert_eq!(read("etc/kept"), "kept");
    assert_eq!(read("etc/changed"), "two");
    assert!(!root.join("etc/gone").exists());
    assert!(!root.join("data/deep/old").exists(), "what is opaque hides what is below");
    assert_eq!(read("data/deep/new"), "new", "but nothing in the same layer");
    assert!(root.join("run").is_dir(), "a folder in place of a file");
    assert_eq!(read("also-run"), "#!/bin/sh\n", "whose other name stays");
    assert_eq!(fs::read_link(root.join("absolute")).unwrap(), Path::new("/etc/kept"));
    assert_eq!(read("usr/lib/through"), "a link within the root");
    let meta = fs::metadata(root.join("etc/kept")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o644, 1_000_000_000));
    let kinds = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(kinds.into_iter().all(|name| !name.to_string_lossy().starts_with(".wh.")));
}

#[test]
fn all_forms_and_packings_give_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    for pack in [Pack::Plain, Pack::Gzip, Pack::Zstd] {
        let image = two_layers(pack);
        let (saved, layout) = (dir.path().join("saved.tar"), dir.path().join("layout.tar"));
        let folder = dir.path().join(format!("{pack:?}"));
        write_tar(&saved, &image.saved());
        write_tar(&layout, &image.layout());
        write_folder(&folder, &image.layout());
        assert!(Archive::is_layout(&folder));
        let mut ids = Vec::new();
        for path in [saved, layout, folder] {
            check(&unpack(&dir, &path).unwrap_or_else(|error| panic!("{pack:?}: {error}")));
            let archive = Archive::open(&path, Some("1")).unwrap();
            ids.push(archive.digest().to_owned());
            let config = archive.config();
            assert_eq!(config.argv, ["/run", "-x", "7"]);
            assert_eq!(config.env.len(), 2);
            assert_eq!(config.env[1], ("A".to_owned(), "b=c".to_owned()));
            assert_eq!((config.cwd.as_str(), config.user.as_str()), ("/etc", "1000:1000"));
        }
        ids.dedup();
        assert_eq!(ids.len(), 1, "an image has one id in all forms");
    }
}

/// The error for an image with this layer.
fn error_of(layer: Layer) -> (Error, bool) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.tar");
    write_tar(&path, &Image::new(vec![(layer, Pack::Plain)], json!({})).saved());
    let cache = Cache::at(&dir.path().join("cache"));
    let archive = Archive::open(&path, None).unwrap();
    let error = cache.unpack(&archive).unwrap_err();
    let left: Vec<_> = fs::read_dir(cache.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".lock"))
        .collect();
    assert!(left.is_empty(), "{left:?} is left");
    (error, dir.path().join("escaped").exists())
}

#[test]
fn what_would_leave_the_root_is_refused_and_named() {
    let up = "../".repeat(8);
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "as it was").unwrap();
    let to_outside = outside.path().to_str().unwrap();
    let climb = format!("{up}{}", to_outside.trim_start_matches('/'));
    let cases = [
        (Layer::new().file("../../escaped", b"x"), "../../escaped", "`..`"),
        (Layer::new().file("a/../../../escaped", b"x"), "a/../../../escaped", "`..`"),
        (Layer::new().file("/escaped", b"x"), "/escaped", "absolute"),
        (Layer::new().symlink("l", to_outside).file("l/secret", b"x"), "l/secret", "leads out"),
        (Layer::new().symlink("l", &climb).file("l/secret", b"x"), "l/secret", "leads out"),
        (Layer::new().symlink("l", to_outside).dir("l/new/"), "l/new/", "leads out"),
        (Layer::new().symlink("l", to_outside).file("l/.wh.secret", b""), "l/.wh.secret", "leads"),
        (Layer::new().symlink("l", to_outside).file("l/.wh..wh..opq", b""), "opq", "leads out"),
        (Layer::new().hard_link("h", "../../../secret"), "h", "`..`"),
        (Layer::new().hard_link("h", secret.to_str().unwrap()), "h", "absolute"),
        (Layer::new().symlink("l", to_outside).hard_link("h", "l/secret"), "h", "leads out"),
        (Layer::new().hard_link("h", "none"), "h", "does not exist"),
        (Layer::new().symlink("l", "l2").symlink("l2", "l").file("l/x", b""), "l/x", "form a loop"),
        (Layer::new().symlink("l", "none").file("l/x", b""), "l/x", "has no target"),
        (Layer::new().file("f", b"").file("f/x", b""), "f/x", "not a folder"),
        (Layer::new().file("a/.wh...", b""), "a/.wh...", "no"),
    ];
    for (layer, entry, why) in cases {
        let (error, escaped) = error_of(layer);
        let text = error.to_string();
        assert!(matches!(error.fault, Fault::Refused { .. }), "{entry}: {text}");
        assert!(text.contains("layer 1 of 1 (0/layer.tar)"), "{text}");
        assert!(text.contains(entry) && text.contains(why), "{entry}, {why}: {text}");
        assert!(!escaped, "{entry}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "as it was", "{entry}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "{entry}");
    }
}

/// Root file systems of debootstrap, Yocto, Buildroot and OpenWrt hold devices.
#[test]
fn devices_are_left_out_and_the_rest_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let below = Layer::new().dir("dev/").file("dev/sda", b"a file").file("bin", b"all else");
    let above = Layer::new()
        .entry(EntryType::Char, "dev/console", "", 0o600, b"")
        .entry(EntryType::Block, "dev/sda", "", 0o660, b"")
        .hard_link("dev/disk", "dev/sda")
        .entry(EntryType::Char, "no/folder/null", "", 0o666, b"")
        .file("etc", b"also");
    let path = dir.path().join("a.tar");
    let layers = vec![(below, Pack::Plain), (above, Pack::Plain)];
    write_tar(&path, &Image::new(layers, json!({})).saved());
    let root = unpack(&dir, &path).unwrap();
    let names = |of: &Path| {
        let entries = fs::read_dir(of).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&root.join("dev")), Vec::<String>::new());
    assert_eq!(names(&root), ["bin", "dev", "etc"]);
}

#[test]
fn a_link_is_replaced_and_not_written_through() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    fs::write(&secret, "as it was").unwrap();
    let to = secret.to_str().unwrap();
    let layer = Layer::new().symlink("f", to).file("f", b"new").symlink("d", "/etc").dir("d/");
    let path = dir.path().join("a.tar");
    write_tar(&path, &Image::new(vec![(layer, Pack::Plain)], json!({})).saved());
    let root = unpack(&dir, &path).unwrap();
    assert_eq!(fs::read_to_string(root.join("f")).unwrap(), "new");
    assert!(fs::symlink_metadata(root.join("d")).unwrap().is_dir());
    assert_eq!(fs::read_to_string(&secret).unwrap(), "as it was");
}

#[test]
fn what_is_damaged_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.tar");
    let assert_error = |files: &[(String, Vec<u8>)], words: &[&str]| {
        write_tar(&path, files);
        let text = unpack(&dir, &path).unwrap_err().to_string();
        for word in words {
            assert!(text.contains(word), "no `{word}` in: {text}");
        }
    };
    for pack in [Pack::Plain, Pack::Gzip, Pack::Zstd] {
        let mut files = two_layers(pack).saved();
        let layer = &mut files[2].1;
        layer.truncate(layer.len() / 2);
        assert_error(&files, &["layer 2 of 2 (1/layer.tar) is damaged", "used nothing of it"]);
    }
    let mut files = two_layers(Pack::Plain).saved();
    let at = files[2].1.windows(3).position(|three| three == b"two").unwrap();
    files[2].1[at] = b'T';
    assert_error(&files, &["layer 2 of 2", "its digest is sha256:"]);
    let mut files = two_layers(Pack::Plain).saved();
    files.remove(1);
    assert_error(
        &files,
        &["layer 1 of 2 (0/layer.tar) is damaged: it is missing from the archive"],
    );
    let mut files = two_layers(Pack::Plain).layout();
    files[0].1.push(b' ');
    assert_error(&files, &["blobs/sha256/", "its digest does not match"]);
    assert_error(&[("readme".to_owned(), b"hello".to_vec())], &["no image in it", "manifest.json"]);
    assert_error(&[("manifest.json".to_owned(), b"[{]".to_vec())], &["manifest.json is damaged"]);

    // A truncated archive.
    write_tar(&path, &two_layers(Pack::Plain).saved());
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let text = unpack(&dir, &path).unwrap_err().to_string();
    assert!(text.contains("damaged") && text.contains(&format!("{}", whole.len() / 2)), "{text}");
    fs::write(&path, b"no tar at all").unwrap();
    let text = unpack(&dir, &path).unwrap_err().to_string();
    assert!(text.contains("not a tar file"), "{text}");
    fs::write(&path, Pack::Gzip.pack(&whole)).unwrap();
    let text = unpack(&dir, &path).unwrap_err().to_string();
    assert!(text.contains("gunzip"), "{text}");
    let text = unpack(&dir, &dir.path().join("none.tar")).unwrap_err().to_string();
    assert!(text.contains("none.tar") && text.contains("No such file"), "{text}");
}

#[test]
fn damage_anywhere_is_an_error_or_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("damaged.tar");
    // A fixed xorshift sequence makes failures reproducible.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let mut errors = 0;
    for round in 0..600 {
        let pack = [Pack::Plain, Pack::Gzip, Pack::Zstd][round % 3];
        let image = two_layers(pack);
        write_tar(&path, &if round % 2 == 0 { image.saved() } else { image.layout() });
        let mut bytes = fs::read(&path).unwrap();
        for _ in 0..=draw(4) {
            let at = draw(bytes.len());
            bytes[at] = draw(256) as u8;
        }
        if draw(4) == 0 {
            bytes.truncate(draw(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        let around = tempfile::tempdir_in(dir.path()).unwrap();
        let root = around.path().join("root");
        fs::create_dir(&root).unwrap();
        let unpacked = Archive::open(&path, None).and_then(|archive| archive.unpack(&root));
        errors += usize::from(unpacked.is_err());
        assert_eq!(
            fs::read_dir(around.path()).unwrap().count(),
            1,
            "there is something next to the root"
        );
    }
    assert!((100..600).contains(&errors), "{errors} of 600 were errors");
}

#[test]
fn another_machines_image_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.tar");
    let mut image = two_layers(Pack::Plain);
    image.config["architecture"] = "mips".into();
    write_tar(&path, &image.layout());
    let text = unpack(&dir, &path).unwrap_err().to_string();
    assert!(text.contains("is for linux/mips"), "{text}");
}

/// The files of one OCI layout with an image for each of these platforms, of which each has one file
/// with its name.
fn for_platforms(platforms: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    let mut manifests = Vec::new();
    let mut all = Vec::new();
    for (architecture, variant) in platforms {
        let name = format!("{architecture}{variant}");
        let layer = Layer::new().file("name", name.as_bytes());
        let mut image = Image::new(vec![(layer, Pack::Plain)], json!({}));
        image.config["architecture"] = (*architecture).into();
        let mut files = image.layout();
        files.retain(|(name, text)| {
            if name == "index.json" {
                let index: serde_json::Value = serde_json::from_slice(text).unwrap();
                let mut manifest = index["manifests"][0].clone();
                manifest["platform"] = json!({"os": "linux", "architecture": architecture});
                if !variant.is_empty() {
                    manifest["platform"]["variant"] = (*variant).into();
                }
                manifests.push(manifest);
            }
            name != "index.json"
        });
        all.extend(files);
    }
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    all.push(("index.json".to_owned(), serde_json::to_vec(&index).unwrap()));
    all
}

#[test]
fn of_several_platforms_the_selected_one_is_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.tar");
    let all = [("amd64", ""), ("arm", "v6"), ("arm", "v7"), ("arm64", "v8"), ("riscv64", "")];
    write_tar(&path, &for_platforms(&all));
    let of = |architecture: &str, variant: &str| image::Platform {
        os: "linux".to_owned(),
        architecture: architecture.to_owned(),
        variant: variant.to_owned(),
    };
    let cases = [("arm", "v7", "armv7"), ("arm64", "", "arm64v8"), ("riscv64", "", "riscv64")];
    for (number, (architecture, variant, name)) in cases.into_iter().enumerate() {
        let root = dir.path().join(number.to_string());
        fs::create_dir(&root).unwrap();
        let archive = Archive::open_for(&path, None, &of(architecture, variant)).unwrap();
        archive.unpack(&root).unwrap();
        assert_eq!(fs::read_to_string(root.join("name")).unwrap(), name);
    }
    let text = Archive::open_for(&path, None, &of("arm", "")).unwrap_err().to_string();
    assert!(text.contains("1 (variant v6), 1 (variant v7)"), "{text}");
    let text = Archive::open_for(&path, None, &of("s390x", "")).unwrap_err().to_string();
    let found = "is for linux/amd64, linux/arm/v6, linux/arm/v7, linux/arm64/v8, linux/riscv64, and \
                 not for linux/s390x";
    assert!(text.contains(found), "{text}");
}

#[test]
fn of_several_images_one_must_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("two.tar");
    let mut files = two_layers(Pack::Plain).saved();
    let manifest = files.last_mut().unwrap();
    let mut both: serde_json::Value = serde_json::from_slice(&manifest.1).unwrap();
    let mut other = both[0].clone();
    other["RepoTags"] = json!(["test:2"]);
    both.as_array_mut().unwrap().push(other);
    manifest.1 = serde_json::to_vec(&both).unwrap();
    write_tar(&path, &files);
    let text = Archive::open(&path, None).unwrap_err().to_string();
    assert!(text.contains("test:1, test:2") && text.contains("`image: NAME`"), "{text}");
    assert!(Archive::open(&path, Some("test:2")).is_ok());
    assert!(Archive::open(&path, Some("2")).is_ok());
    let text = Archive::open(&path, Some("3")).unwrap_err().to_string();
    assert!(text.contains("no image with the name `3`"), "{text}");
}

#[test]
fn the_cache_keeps_what_is_in_use_and_gives_up_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    write_tar(&path, &two_layers(Pack::Gzip).saved());
    let cache = Cache::at(&dir.path().join("cache"));
    let archive = Archive::open(&path, None).unwrap();
    let first = cache.unpack(&archive).unwrap();
    check(&first.root);
    let made = fs::metadata(&first.root).unwrap().ino();
    // The archive's layers are not read again.
    let second = cache.unpack(&archive).unwrap();
    assert_eq!(fs::metadata(&second.root).unwrap().ino(), made);
    assert_eq!(fs::metadata(cache.path()).unwrap().mode() & 0o777, 0o700);
    drop(first);
    let found = cache.list().unwrap();
    assert!(found.len() == 1 && found[0].in_use && found[0].digest == archive.digest());
    assert!(!cache.remove(archive.digest()).unwrap());
    drop(second);
    assert!(!cache.list().unwrap()[0].in_use);
    assert!(cache.remove(archive.digest()).unwrap());
    assert!(cache.list().unwrap().is_empty());
    check(&cache.unpack(&archive).unwrap().root);
}

/// A header that is as long as it says: a record or a name of 1 GB took as much memory.
#[test]
fn long_headers_are_refused_before_they_are_read() {
    for kind in [EntryType::XHeader, EntryType::GNULongName, EntryType::GNULongLink] {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(1 << 30);
        header.set_cksum();
        // Only its beginning is there: whatever reads all of it finds the end of the archive instead.
        let long = [&header.as_bytes()[..], &[b'a'; (1 << 20) + 512]].concat();
        for pack in [Pack::Plain, Pack::Gzip, Pack::Zstd] {
            let dir = tempfile::tempdir().unwrap();
            let image = Image::new(vec![(Layer::beginning(long.clone()), pack)], json!({}));
            let path = dir.path().join("image.tar");
            write_tar(&path, &image.saved());
            let text = unpack(&dir, &path).unwrap_err().to_string();
            assert!(text.contains("GNU long name) are over 1 MiB"), "{kind:?}, {pack:?}: {text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("archive.tar");
        // A file with a hole: it takes no space, and its header would take 1 GB of memory.
        let mut archive = Layer::new().file("one", b"").bytes();
        archive.truncate(512);
        archive.extend(header.as_bytes());
        fs::write(&path, archive).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 31).unwrap();
        let text = Archive::open(&path, None).unwrap_err().to_string();
        assert!(text.contains("GNU long name) are over 1 MiB"), "{kind:?}: {text}");
    }
}

#[test]
fn headers_and_content_of_usual_length_are_read() {
    let mut layer = Builder::new(Vec::new());
    let mut add = |kind: EntryType, name: &str, bytes: &[u8]| {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        header.set_size(bytes.len() as u64);
        let attribute = ("SCHILY.xattr.user.x", &[b'x'; 65_536][..]);
        layer.append_pax_extensions([attribute]).unwrap();
        layer.append_data(&mut header, name, bytes).unwrap();
    };
    // More content than headers may have, in entries that have none in images.
    let large = vec![b'c'; 2 << 20];
    add(EntryType::Directory, "folder", &large);
    add(EntryType::XGlobalHeader, "global", &large);
    add(EntryType::Regular, "folder/file", &large);
    add(EntryType::Regular, &format!("folder/{}/file", "long/".repeat(100)), b"deep");
    let mut layer = layer.into_inner().unwrap();
    layer.truncate(layer.len() - 1_024);
    let dir = tempfile::tempdir().unwrap();
    let image = Image::new(vec![(Layer::beginning(layer), Pack::Gzip)], json!({}));
    let path = dir.path().join("image.tar");
    write_tar(&path, &image.saved());
    let root = unpack(&dir, &path).unwrap();
    assert_eq!(fs::read(root.join("folder/file")).unwrap(), large);
    let deep = root.join(format!("folder/{}/file", "long/".repeat(100)));
    assert_eq!(fs::read(deep).unwrap(), b"deep");
}
