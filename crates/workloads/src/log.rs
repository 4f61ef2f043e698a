//! Lines for the log of this program: its standard error.

/// Writes a line to the log. `eprintln!` would end the program if the disk of the log is full.
#[macro_export]
macro_rules! log {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "thingbed-workload: {}", format_args!($($text)*));
    }};
}
