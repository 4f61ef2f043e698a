//! Platforms of images: an operating system, an architecture and its variant.

use std::fmt;

/// A platform in the terms of the OCI image specification, which are Go's, such as `linux/arm/v7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Platform {
    /// The operating system (GOOS).
    pub os: String,
    /// The architecture (GOARCH).
    pub architecture: String,
    /// The variant of the architecture, such as `v7`; empty for any.
    pub variant: String,
}

impl Platform {
    /// This machine's platform, of any variant.
    pub fn this() -> Self {
        let little = cfg!(target_endian = "little");
        Self {
            os: "linux".to_owned(),
            architecture: architecture(std::env::consts::ARCH, little).to_owned(),
            variant: String::new(),
        }
    }

    /// Whether this machine's processor has the architecture.
    pub fn is_native(&self) -> bool {
        self.architecture == Self::this().architecture
    }

    /// Whether an image for `found` is for this platform. Some tools leave out parts of a platform,
    /// which then fit.
    pub(crate) fn accepts(&self, found: &Self) -> bool {
        let fits = |wanted: &str, found: &str| found.is_empty() || wanted == found;
        fits(&self.os, &found.os)
            && fits(&self.architecture, &found.architecture)
            && (self.variant.is_empty() || fits(&self.variant, &found.variant))
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match self.variant.as_str() {
            "" => Ok(()),
            variant => write!(f, "/{variant}"),
        }
    }
}

/// Go's name of an architecture with Rust's name, which for some does not have the byte order.
fn architecture(name: &str, little_endian: bool) -> &str {
    match (name, little_endian) {
        ("x86_64", _) => "amd64",
        ("x86", _) => "386",
        ("aarch64", _) => "arm64",
        ("loongarch64", _) => "loong64",
        ("powerpc64", true) => "ppc64le",
        ("powerpc64", false) => "ppc64",
        ("mips", true) => "mipsle",
        ("mips64", true) => "mips64le",
        (other, _) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of GOARCH (`go tool dist list`), which the OCI image specification uses.
    #[test]
    fn architectures_have_the_names_of_images_in_both_byte_orders() {
        for (rust, little_endian, go) in [
            ("x86_64", true, "amd64"),
            ("x86", true, "386"),
            ("aarch64", true, "arm64"),
            ("arm", true, "arm"),
            ("riscv64", true, "riscv64"),
            ("loongarch64", true, "loong64"),
            ("s390x", false, "s390x"),
            ("powerpc64", true, "ppc64le"),
            ("powerpc64", false, "ppc64"),
            ("mips", true, "mipsle"),
            ("mips", false, "mips"),
            ("mips64", true, "mips64le"),
            ("mips64", false, "mips64"),
        ] {
            assert_eq!(architecture(rust, little_endian), go, "{rust} {little_endian}");
        }
    }

    #[test]
    fn a_platform_accepts_images_that_say_less_and_none_that_say_something_else() {
        let read = |text: &str| {
            let mut parts = text.split('/').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            Platform { os: next(), architecture: next(), variant: next() }
        };
        assert_eq!(read("linux/arm/v7").to_string(), "linux/arm/v7");
        assert!(read("linux/arm").accepts(&read("linux/arm/v6")));
        assert!(read("linux/arm/v7").accepts(&read("linux/arm")));
        assert!(!read("linux/arm/v7").accepts(&read("linux/arm/v6")));
        assert!(!read("linux/arm64").accepts(&read("linux/arm")));
        assert!(read("linux/arm64").accepts(&read("")));
    }
}
