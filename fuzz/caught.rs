//! For targets of code that turns panics of a library into errors.

/// Lets a panic unwind to the code that catches it. By default libFuzzer's crate ends the process
/// at any panic; one that nothing catches still ends it.
pub fn keep() {
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
}
