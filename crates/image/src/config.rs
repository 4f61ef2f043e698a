//! The image configuration: how to run the image's program.

use crate::digest;
use crate::error::Fault;
use crate::platform::Platform;
use serde::Deserialize;

/// How to run the image's program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// The program and its arguments: the image's entry point, then its command. Empty if
    /// the image has neither.
    pub argv: Vec<String>,
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// The working directory; absolute.
    pub cwd: String,
    /// The user: empty for root, else `user` or `user:group`, by name or by number.
    pub user: String,
}

/// An image's configuration as in the OCI image specification (v1.1).
#[derive(Debug, Deserialize)]
pub(crate) struct File {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    variant: String,
    #[serde(default)]
    config: Option<Inner>,
    rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inner {
    #[serde(default)]
    entrypoint: Option<Vec<String>>,
    #[serde(default)]
    cmd: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<String>>,
    #[serde(default)]
    working_dir: Option<String>,
    #[serde(default)]
    user: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

impl File {
    /// Parses and checks the configuration of an image for `platform`.
    ///
    /// # Errors
    /// The text is no configuration of an image, a digest is invalid, or the image is for another
    /// platform.
    pub fn read(text: &[u8], name: &str, platform: &Platform) -> Result<Self, Fault> {
        let file: Self =
            serde_json::from_slice(text).map_err(|error| Fault::damaged(name, error))?;
        // They become names of folders, so nothing else than digits may be in them.
        if let Some(wrong) = file.rootfs.diff_ids.iter().find(|id| digest::hex(id).is_none()) {
            return Err(Fault::damaged(name, format!("`{wrong}` is not a SHA-256 digest")));
        }
        let found = Platform {
            os: file.os.clone(),
            architecture: file.architecture.clone(),
            variant: file.variant.clone(),
        };
        if !platform.accepts(&found) {
            return Err(Fault::platform(&[found], platform));
        }
        Ok(file)
    }

    /// The digest of each layer's uncompressed tar stream, the lowest layer first.
    pub fn layers(&self) -> &[String] {
        &self.rootfs.diff_ids
    }

    pub fn program(self) -> Config {
        let inner = self.config.unwrap_or_default();
        let entrypoint = inner.entrypoint.unwrap_or_default().into_iter();
        let env = inner.env.unwrap_or_default().into_iter();
        // A relative one has no folder to be relative to.
        let cwd = inner.working_dir.filter(|dir| dir.starts_with('/'));
        Config {
            argv: entrypoint.chain(inner.cmd.unwrap_or_default()).collect(),
            // What the kernel cannot pass to a program is left out.
            env: env
                .filter_map(|line| line.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())))
                .filter(|(key, value)| {
                    !key.is_empty() && !key.contains('\0') && !value.contains('\0')
                })
                .collect(),
            cwd: cwd.unwrap_or_else(|| "/".to_owned()),
            user: inner.user.unwrap_or_default(),
        }
    }
}
