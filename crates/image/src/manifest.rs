//! Maps the files of an archive to images, for `docker save` archives and OCI layouts.

use crate::config::this_platform;
use crate::digest;
use crate::error::Fault;
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
    platform: Option<Platform>,
    #[serde(default)]
    annotations: Option<std::collections::HashMap<String, String>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// The maximum nesting of indexes.
const MAX_DEPTH: u32 = 4;

/// The images of an archive. The OCI layout has priority: newer `docker save` versions
/// write both forms, and only the OCI layout states all digests.
pub(crate) fn images(source: &Source) -> Result<Vec<ImageEntry>, Fault> {
    if source.has("index.json") && source.has("oci-layout") {
        let mut found = Vec::new();
        let mut others = Vec::new();
        let index: Document = parse(&source.text("index.json")?, "index.json")?;
        walk(source, index, "index.json", &[], MAX_DEPTH, &mut found, &mut others)?;
        // If no image fits, the last other platform is named.
        return match (found.is_empty(), others.pop()) {
            (true, Some(found)) => {
                let (os, architecture) = this_platform();
                Err(Fault::Platform { found, expected: format!("{os}/{architecture}") })
            }
            _ => Ok(found),
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

/// Descends into an index, or adds the image of a manifest.
fn walk(
    source: &Source,
    document: Document,
    name: &str,
    called: &[String],
    deeper: u32,
    found: &mut Vec<ImageEntry>,
    others: &mut Vec<String>,
) -> Result<(), Fault> {
    if let (Some(config), Some(layers)) = (&document.config, &document.layers) {
        let layers: Result<_, _> = layers.iter().map(|layer| blob(layer, name)).collect();
        found.push(ImageEntry {
            names: called.to_vec(),
            config: (blob(config, name)?, Some(config.digest.clone())),
            layers: layers?,
        });
        return Ok(());
    }
    let Some(manifests) = document.manifests else {
        return Err(Fault::damaged(name, "it is neither an index nor a manifest"));
    };
    for descriptor in manifests {
        // Before reading it: an archive often has only the blobs of one platform.
        if let Some(platform) = &descriptor.platform
            && (platform.os.as_str(), platform.architecture.as_str()) != this_platform()
        {
            others.push(format!("{}/{}", platform.os, platform.architecture));
            continue;
        }
        if deeper == 0 {
            return Err(Fault::damaged(name, "indexes are nested too deeply"));
        }
        let file = blob(&descriptor, name)?;
        let text = source.text(&file)?;
        if digest::of(&text) != descriptor.digest {
            return Err(Fault::damaged(file, "its digest does not match its name"));
        }
        let mut called = called.to_vec();
        // The full name if the tool wrote it (containerd), else the OCI tag.
        let names = descriptor.annotations.unwrap_or_default();
        for key in ["io.containerd.image.name", "org.opencontainers.image.ref.name"] {
            called.extend(names.get(key).cloned());
        }
        walk(source, parse(&text, &file)?, &file, &called, deeper - 1, found, others)?;
    }
    Ok(())
}
