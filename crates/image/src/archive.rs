//! An open archive and the selected image in it.

use crate::budget::Budget;
use crate::config::{self, Config};
use crate::digest::{self, Hashing};
use crate::error::{Error, Fault};
use crate::layer;
use crate::manifest::{self, ImageEntry};
use crate::platform::Platform;
use crate::source::Source;
use crate::tree::Tree;
use std::io::BufReader;
use std::path::{Path, PathBuf};

/// One image of an archive. Its manifest and configuration are read and checked; layers are
/// read during unpacking.
#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    source: Source,
    image: ImageEntry,
    digest: String,
    layers: Vec<String>,
    config: Config,
    limit: Option<u64>,
}

impl Archive {
    /// Opens a `docker save` archive or an OCI image layout, as a tar file or a folder.
    /// `name` selects an image where there are several: the full name, or the tag alone.
    ///
    /// # Errors
    /// When there is no such image, it is for another platform than this machine's, or its manifest
    /// or configuration is damaged.
    pub fn open(path: &Path, name: Option<&str>) -> Result<Self, Error> {
        Self::open_for(path, name, &Platform::this())
    }

    /// As [`Archive::open`], but an image for `platform`.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn open_for(path: &Path, name: Option<&str>, platform: &Platform) -> Result<Self, Error> {
        Self::read(path, name, platform).map_err(|fault| fault.at(path))
    }

    /// Whether `path` is the folder of an OCI image layout, and not a root file system.
    pub fn is_layout(path: &Path) -> bool {
        path.join("oci-layout").is_file() && path.join("index.json").is_file()
    }

    fn read(path: &Path, name: Option<&str>, platform: &Platform) -> Result<Self, Fault> {
        let source = Source::open(path)?;
        let image = choose(manifest::images(&source, platform)?, name)?;
        let (file, expected_digest) = &image.config;
        let text = source.text(file)?;
        let digest = digest::of(&text);
        // Archives of `docker save` without an OCI layout state none.
        if expected_digest.as_ref().is_some_and(|expected_digest| *expected_digest != digest) {
            return Err(Fault::damaged(file, "its digest does not match its name"));
        }
        let config = config::File::read(&text, file, platform)?;
        let layers = config.layers().to_vec();
        // Each layer's content is checked against its digest in the configuration, so both lists
        // must match.
        if layers.len() != image.layers.len() {
            let (in_manifest, in_config) = (image.layers.len(), layers.len());
            let why =
                format!("the configuration lists {in_config} layers, the manifest {in_manifest}");
            return Err(Fault::damaged(file, why));
        }
        let config = config.program();
        let path = path.to_owned();
        Ok(Self { path, source, image, digest, layers, config, limit: None })
    }

    /// Allows the image to unpack to `limit` bytes, from however small an archive. `None`: 10 GiB,
    /// and from 256 MiB on 100 times the packed size.
    #[must_use]
    pub fn with_limit(self, limit: Option<u64>) -> Self {
        Self { limit, ..self }
    }

    /// The image's ID: the digest of its configuration, which contains the digests of all
    /// layers. `sha256:` and 64 hexadecimal digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// How to run the image's program.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Unpacks all layers in order, from the lowest up, into the empty folder `root`.
    ///
    /// # Errors
    /// When a layer is damaged or has a forbidden entry, the image is larger than its limit, or
    /// `root` cannot be written.
    pub fn unpack(&self, root: &Path) -> Result<(), Error> {
        let budget = Budget::new(self.limit);
        let unpacked = self.unpack_layers(root, &budget);
        // A limit that was exceeded explains the read error that it caused.
        unpacked.map_err(|fault| budget.fault().unwrap_or(fault).at(&self.path))
    }

    fn unpack_layers(&self, root: &Path, budget: &Budget) -> Result<(), Fault> {
        let all = self.layers.len();
        for (number, (file, digest)) in self.image.layers.iter().zip(&self.layers).enumerate() {
            let part = format!("layer {} of {all} ({file})", number + 1);
            let damaged = |why: &dyn std::fmt::Display| Fault::damaged(&part, why);
            let opened = self.source.file(file).map_err(|error| damaged(&error))?;
            let opened = opened.ok_or_else(|| damaged(&"it is missing from the archive"))?;
            budget
                .add_layer(opened.limit().min(opened.get_ref().metadata().map_or(0, |m| m.len())));
            let plain = layer::decompress(BufReader::with_capacity(1 << 16, opened));
            let plain = budget.of_archive(plain.map_err(|error| damaged(&error))?);
            // The digest is of the whole tar stream, so what follows the last entry is read in
            // `finish`, too.
            let mut plain = Hashing::new(plain);
            let mut tree = Tree::open(root)
                .map_err(Fault::cache(format!("open the folder {}", root.display())))?;
            layer::apply(&mut plain, &mut tree, &part, budget)?;
            let found = plain.finish().map_err(|error| damaged(&error))?;
            // Only here, after unpacking: the folder is a draft until all layers are checked.
            if found != *digest {
                return Err(damaged(&format!("its digest is {found}, and should be {digest}")));
            }
        }
        Ok(())
    }
}

/// Selects the image.
fn choose(images: Vec<ImageEntry>, name: Option<&str>) -> Result<ImageEntry, Fault> {
    let names = || {
        let names = images.iter().map(|image| {
            let name = image.names.first().map_or("(no name)", String::as_str);
            match image.variant.as_str() {
                "" => name.to_owned(),
                variant => format!("{name} (variant {variant})"),
            }
        });
        names.collect::<Vec<_>>()
    };
    let fits = |image: &&ImageEntry| match name {
        None => true,
        Some(selected) => image.names.iter().any(|name| {
            name == selected || name.rsplit_once(':').is_some_and(|(_, tag)| tag == selected)
        }),
    };
    let fitting: Vec<&ImageEntry> = images.iter().filter(fits).collect();
    match (&fitting[..], name) {
        ([one], _) => Ok((*one).clone()),
        ([], _) if images.is_empty() => Err(Fault::NoImage("its manifest has no image")),
        ([], name) => {
            let problem = format!("has no image with the name `{}`", name.unwrap_or_default());
            Err(Fault::NoMatch { problem, names: names() })
        }
        (_, Some(name)) => {
            let problem = format!("has several images with the name `{name}`");
            Err(Fault::NoMatch { problem, names: names() })
        }
        (_, None) => {
            Err(Fault::NoMatch { problem: "has several images".to_owned(), names: names() })
        }
    }
}
