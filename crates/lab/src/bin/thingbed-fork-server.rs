//! A standalone fork server, for tests and for programs that use the lab as a library; the tool
//! serves as its own.

use std::io::Write;

fn main() -> std::process::ExitCode {
    if std::env::args().nth(1).as_deref() == Some(lab::FORK_SERVER) {
        return lab::fork_server();
    }
    let _ = writeln!(std::io::stderr(), "Thingbed starts this program; do not start it by hand");
    std::process::ExitCode::from(2)
}
