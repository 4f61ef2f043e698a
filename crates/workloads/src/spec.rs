//! Reads a program's spec, written by the runner.

use crate::error::Error;
use record::spec::Spec;
use std::path::Path;

/// Reads and checks a spec.
///
/// # Errors
/// The file is unreadable or invalid.
pub fn read<S: Spec>(path: &Path) -> Result<S, Error> {
    let error = |why: String| Error::Spec { path: path.into(), why };
    let text = std::fs::read_to_string(path).map_err(|source| error(source.to_string()))?;
    S::parse(&text).map_err(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::spec::{ExchangeSpec, InteractionSpec};

    #[test]
    fn a_spec_that_cannot_be_used_is_named_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spec.json");
        let error = |text: Option<&[u8]>| {
            let _ = std::fs::remove_file(&path);
            if let Some(text) = text {
                std::fs::write(&path, text).unwrap();
            }
            let error = read::<ExchangeSpec>(&path).unwrap_err().to_string();
            assert!(error.contains("spec.json") && !error.contains('\n'), "{error}");
            error
        };
        assert!(error(None).contains("No such file"));
        assert!(error(Some(b"")).contains("EOF"));
        assert!(error(Some(b"\xff{")).contains("UTF-8"));
        assert!(error(Some(b"{\"side\": \"drive\"}")).contains("missing field"));
        assert!(read::<InteractionSpec>(&path).is_err());
    }
}
