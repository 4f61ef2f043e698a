//! Empty: the benchmark is `main.rs`, run by `cargo bench -p bench`.
