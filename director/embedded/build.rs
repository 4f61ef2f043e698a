//! Gives the linker the memory of the board.

use std::{env, fs, path::PathBuf};

fn main() {
    let is_arm = env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("arm");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let memory = if is_arm { "memory-arm.x" } else { "memory-riscv.x" };
    fs::copy(memory, out.join("memory.x")).expect("the folder of a build can be written");
    println!("cargo::rerun-if-changed={memory}");
    println!("cargo::rustc-link-search={}", out.display());
    if is_arm {
        println!("cargo::rustc-link-arg=-Tlink.x");
    } else {
        println!("cargo::rustc-link-arg=-Tmemory.x");
        println!("cargo::rustc-link-arg=-Tlink.x");
    }
}
