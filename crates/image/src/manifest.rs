//! Maps the files of an archive to images, for `docker save` archives and OCI layouts.

use crate::digest;
use crate::error::Fault;
use crate::platform::Platform;
use crate::source::Source;
use serde::Deserialize;

/// One image of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageEntry {
    /// Its names, e.g. `busybox:1.35`; may be empty.
    pub names: Vec<String>,
    /// The file of its configuration, and its digest where the archive states it.
    pub config: (String, Option<String>),
    /// The files of its layers, the lowest first.
    pub layers: Vec<String>,
    /// The variant of the architecture that an index states for it, such as `v7`; may be empty.
    pub variant: String,
}

/// An image of a `docker save` archive.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// An index or a manifest (OCI image specification).
#[derive(Debug, Deserialize)]
struct Document {
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Descriptor {
    digest: String,
    #[serde(default)]
    platform: Option<Stated>,
    #[serde(default)]
    annotations: Option<std::collections::HashMap<String, String>>,
}

/// The platform of a manifest in an index.
#[derive(Debug, Clone, Deserialize)]
struct Stated {
    architecture: String,
    os: String,
    #[serde(default)]
    variant: String,
}

impl Stated {
    fn platform(&self) -> Platform {
        let Self { architecture, os, variant } = self.clone();
        Platform { os, architecture, variant }
    }
}

/// The maximum nesting of indexes.
const MAX_DEPTH: u32 = 4;

/// The images of an archive for `platform`. The OCI layout has priority: newer `docker save`
/// versions write both forms, and only the OCI layout states all digests.
pub(crate) fn images(source: &Source, platform: &Platform) -> Result<Vec<ImageEntry>, Fault> {
    if source.has("index.json") && source.has("oci-layout") {
        let mut walk = Walk { source, platform, found: Vec::new(), others: Vec::new() };
        let index: Document = parse(&source.text("index.json")?, "index.json")?;
        let top = Place { name: "index.json", called: &[], variant: "", deeper: MAX_DEPTH };
        walk.document(index, &top)?;
        return match walk.found.is_empty() && !walk.others.is_empty() {
            true => Err(Fault::platform(&walk.others, platform)),
            false => Ok(walk.found),
        };
    }
    if !source.has("manifest.json") {
        return Err(Fault::NoImage("to use a plain file system, unpack it and name its folder"));
    }
    let saved: Vec<Saved> = parse(&source.text("manifest.json")?, "manifest.json")?;
    let images = saved.into_iter().map(|image| ImageEntry {
        names: image.repo_tags.unwrap_or_default(),
        config: (image.config, None),
        layers: image.layers,
        variant: String::new(),
    });
    Ok(images.collect())
}

fn parse<T: serde::de::DeserializeOwned>(text: &[u8], name: &str) -> Result<T, Fault> {
    serde_json::from_slice(text).map_err(|error| Fault::damaged(name, error))
}

/// The file of a blob.
fn blob(descriptor: &Descriptor, named_in: &str) -> Result<String, Fault> {
    match digest::hex(&descriptor.digest) {
        Some(hex) => Ok(format!("blobs/sha256/{hex}")),
        None => {
            let why = format!("`{}` is not a SHA-256 digest", descriptor.digest);
            Err(Fault::damaged(named_in, why))
        }
    }
}

/// A search for images in nested indexes.
struct Walk<'a> {
    source: &'a Source,
    platform: &'a Platform,
    found: Vec<ImageEntry>,
    /// Platforms of the images that do not fit.
    others: Vec<Platform>,
}

/// Where a document is, and what the indexes above say of it.
struct Place<'a> {
    name: &'a str,
    called: &'a [String],
    variant: &'a str,
    /// How many levels may follow.
    deeper: u32,
}

impl Walk<'_> {
    /// Descends into an index, or adds the image of a manifest.
    fn document(&mut self, document: Document, place: &Place<'_>) -> Result<(), Fault> {
        let name = place.name;
        if let (Some(config), Some(layers)) = (&document.config, &document.layers) {
            let layers: Result<_, _> = layers.iter().map(|layer| blob(layer, name)).collect();
            self.found.push(ImageEntry {
                names: place.called.to_vec(),
                config: (blob(config, name)?, Some(config.digest.clone())),
                layers: layers?,
                variant: place.variant.to_owned(),
            });
            return Ok(());
        }
        let Some(manifests) = document.manifests else {
            return Err(Fault::damaged(name, "it is neither an index nor a manifest"));
        };
        manifests.into_iter().try_for_each(|descriptor| self.descriptor(descriptor, place))
    }

    fn descriptor(&mut self, descriptor: Descriptor, place: &Place<'_>) -> Result<(), Fault> {
        let stated = descriptor.platform.as_ref().map(Stated::platform);
        // Before reading it: an archive often has only the blobs of one platform.
        if let Some(stated) = stated.as_ref().filter(|stated| !self.platform.accepts(stated)) {
            self.others.push(stated.clone());
            return Ok(());
        }
        if place.deeper == 0 {
            return Err(Fault::damaged(place.name, "indexes are nested too deeply"));
        }
        let file = blob(&descriptor, place.name)?;
        let text = self.source.text(&file)?;
        if digest::of(&text) != descriptor.digest {
            return Err(Fault::damaged(file, "its digest does not match its name"));
        }
        let mut called = place.called.to_vec();
        // The full name if the tool wrote it (containerd), else the OCI tag.
        let names = descriptor.annotations.unwrap_or_default();
        for key in ["io.containerd.image.name", "org.opencontainers.image.ref.name"] {
            called.extend(names.get(key).cloned());
        }
        let variant = stated.map_or_else(|| place.variant.to_owned(), |stated| stated.variant);
        let below =
            Place { name: &file, called: &called, variant: &variant, deeper: place.deeper - 1 };
        self.document(parse(&text, &file)?, &below)
    }
}
