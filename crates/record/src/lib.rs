//! Definitions of everything that crosses a process or a file, each in one place: the specs of
//! workload programs, control messages, figures and results of a run.
//!
//! The crates that write and the crates that read use the same types, so that the compiler finds
//! every use of a field that changes.
