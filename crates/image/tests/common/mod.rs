//! Archives in both forms, built by hand, intact or damaged.
#![allow(dead_code, reason = "each test file has its own needs")]

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// A layer builder.
pub struct Layer(Builder<Vec<u8>>);

impl Layer {
    pub fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// A layer that begins with these bytes.
    pub fn beginning(bytes: Vec<u8>) -> Self {
        Self(Builder::new(bytes))
    }

    /// Adds any entry, with its name and link unchanged.
    pub fn entry(
        mut self,
        kind: EntryType,
        name: &str,
        link: &str,
        mode: u32,
        bytes: &[u8],
    ) -> Self {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_000_000_000);
        header.set_size(bytes.len() as u64);
        if matches!(kind, EntryType::Char | EntryType::Block) {
            header.set_device_major(1).unwrap();
            header.set_device_minor(3).unwrap();
        }
        header.set_cksum();
        self.0.append(&header, bytes).unwrap();
        self
    }

    pub fn dir(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name, "", 0o755, b"")
    }

    pub fn file(self, name: &str, bytes: &[u8]) -> Self {
        self.entry(EntryType::Regular, name, "", 0o644, bytes)
    }

    pub fn program(self, name: &str, bytes: &[u8]) -> Self {
        self.entry(EntryType::Regular, name, "", 0o755, bytes)
    }

    pub fn symlink(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Symlink, name, to, 0o777, b"")
    }

    pub fn hard_link(self, name: &str, to: &str) -> Self {
        self.entry(EntryType::Link, name, to, 0o644, b"")
    }

    pub fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// How a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pack {
    Plain,
    Gzip,
    /// Two frames with a skippable frame between them.
    Zstd,
}

impl Pack {
    pub fn pack(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Plain => bytes.to_vec(),
            Self::Gzip => {
                let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                to.write_all(bytes).unwrap();
                to.finish().unwrap()
            }
            Self::Zstd => {
                let frame = |part: &[u8]| {
                    let level = ruzstd::encoding::CompressionLevel::Fastest;
                    ruzstd::encoding::compress_to_vec(part, level)
                };
                let (one, other) = bytes.split_at(bytes.len() / 2);
                let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3].to_vec();
                [frame(one), skipped, frame(other)].concat()
            }
        }
    }
}

pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// An image builder.
pub struct Image {
    pub layers: Vec<(Vec<u8>, Pack)>,
    pub config: Value,
}

impl Image {
    pub fn new(layers: Vec<(Layer, Pack)>, program: Value) -> Self {
        let layers: Vec<_> =
            layers.into_iter().map(|(layer, pack)| (layer.bytes(), pack)).collect();
        let digests: Vec<_> = layers.iter().map(|(bytes, _)| digest(bytes)).collect();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let config = json!({
            "architecture": architecture, "os": "linux", "config": program,
            "rootfs": {"type": "layers", "diff_ids": digests},
        });
        Self { layers, config }
    }

    /// The files of a `docker save` archive before it included an OCI layout.
    pub fn saved(&self) -> Vec<(String, Vec<u8>)> {
        let config = serde_json::to_vec(&self.config).unwrap();
        let name = format!("{}.json", &digest(&config)[7..]);
        let mut files = vec![(name.clone(), config)];
        let mut layers = Vec::new();
        for (number, (bytes, pack)) in self.layers.iter().enumerate() {
            let layer = format!("{number}/layer.tar");
            files.push((layer.clone(), pack.pack(bytes)));
            layers.push(layer);
        }
        let manifest = json!([{"Config": name, "RepoTags": ["test:1"], "Layers": layers}]);
        files.push(("manifest.json".to_owned(), serde_json::to_vec(&manifest).unwrap()));
        files
    }

    /// The files of an OCI image layout.
    pub fn layout(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        let mut blob = |kind: &str, bytes: Vec<u8>| {
            let (name, size) = (digest(&bytes), bytes.len());
            files.push((format!("blobs/sha256/{}", &name[7..]), bytes));
            json!({"mediaType": kind, "digest": name, "size": size})
        };
        let kind = |name: &str| format!("application/vnd.oci.image.{name}");
        let config = blob(&kind("config.v1+json"), serde_json::to_vec(&self.config).unwrap());
        let layers: Vec<_> = self
            .layers
            .iter()
            .map(|(bytes, pack)| blob(&kind("layer.v1.tar"), pack.pack(bytes)))
            .collect();
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        let mut entry = blob(&kind("manifest.v1+json"), serde_json::to_vec(&manifest).unwrap());
        entry["annotations"] = json!({"org.opencontainers.image.ref.name": "1"});
        let index = json!({"schemaVersion": 2, "manifests": [entry]});
        files.push(("index.json".to_owned(), serde_json::to_vec(&index).unwrap()));
        let layout = json!({"imageLayoutVersion": "1.0.0"});
        files.push(("oci-layout".to_owned(), serde_json::to_vec(&layout).unwrap()));
        files
    }
}

/// Writes files as one tar file.
pub fn write_tar(path: &Path, files: &[(String, Vec<u8>)]) {
    let files = files.iter();
    let archive = files.fold(Layer::new(), |archive, (name, bytes)| archive.long(name, bytes));
    std::fs::write(path, archive.bytes()).unwrap();
}

/// Writes files into a folder.
pub fn write_folder(path: &Path, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        let file = path.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, bytes).unwrap();
    }
}

impl Layer {
    /// A file with a name of any length.
    fn long(mut self, name: &str, bytes: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        self.0.append_data(&mut header, name, bytes).unwrap();
        self
    }
}

/// The layers of a small system: busybox with some of its names, and a second layer that
/// changes a file, removes one and recreates a folder. None when busybox is missing.
pub fn busybox() -> Option<[Layer; 2]> {
    let program =
        ["/bin/busybox", "/usr/bin/busybox"].iter().find_map(|p| std::fs::read(p).ok())?;
    let lower = Layer::new()
        .dir("bin/")
        .program("bin/busybox", &program)
        .hard_link("bin/sh", "bin/busybox")
        .symlink("bin/cat", "/bin/busybox")
        .dir("etc/")
        .file("etc/release", b"one\n")
        .file("etc/gone", b"below\n")
        .file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nmeter:x:1000:1000::/home:/bin/sh\n")
        .symlink("etc/resolv.conf", "/proc/none")
        .dir("srv/")
        .file("srv/below", b"below\n")
        .dir("tmp/");
    let names = [
        "ls", "id", "pwd", "env", "sleep", "hostname", "ip", "udhcpc", "nslookup", "ping", "wget",
        "nc", "stty", "head", "mount", "date", "uptime", "test", "touch", "od",
    ];
    let lower =
        names.iter().fold(lower, |layer, name| layer.symlink(&format!("bin/{name}"), "busybox"));
    let upper = Layer::new()
        .file("etc/release", b"two\n")
        .file("etc/.wh.gone", b"")
        .dir("srv/")
        .file("srv/.wh..wh..opq", b"")
        .file("srv/above", b"above\n");
    Some([lower, upper])
}
