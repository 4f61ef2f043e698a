//! Where a page listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a page listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A port of 127.0.0.1; 0 for any free one.
    Port(u16),
    /// A Unix socket, which only its user may open.
    Socket(PathBuf),
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(port) => Ok(Self::Port(port)),
            Err(_) if text.contains(':') && !text.contains('/') => Err(format!(
                "`{text}` has an address, but the page listens on 127.0.0.1 only\n  give the port \
                 alone; to open the page from another machine: ssh -L 8080:127.0.0.1:PORT HOST"
            )),
            Err(_) if text.contains('/') => Ok(Self::Socket(PathBuf::from(text))),
            Err(_) => Err(format!(
                "`{text}` is neither a port (0 to 65535) nor the path of a socket; a path has a `/`, \
                 for example ./page.sock"
            )),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => write!(f, "{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_port_or_a_path() {
        assert_eq!("8080".parse(), Ok(Place::Port(8080)));
        assert_eq!("./a.sock".parse(), Ok(Place::Socket("./a.sock".into())));
        for wrong in ["", "0.0.0.0:80", "70000", "page"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
        let address = "0.0.0.0:80".parse::<Place>().unwrap_err();
        assert!(address.contains("127.0.0.1 only") && address.contains("ssh -L"), "{address}");
    }
    #[test]
    fn a_place_is_written_as_it_is_read() {
        for text in ["0", "65535", "/run/page.sock", "./a", "a/b:80"] {
            assert_eq!(text.parse::<Place>().map(|place| place.to_string()).as_deref(), Ok(text));
        }
        for wrong in ["-1", "65536", " 80", "[::1]:80", ":80", "80:"] {
            assert!(wrong.parse::<Place>().is_err(), "{wrong}");
        }
    }
}
