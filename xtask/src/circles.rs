//! Circles of files: files of one crate that refer to each other's items, in any number of steps.
//!
//! A file refers to another if one of its paths leads there, by the modules' tree and through
//! re-exports. `mod` and `pub use` are no references by themselves, and tests may refer to anything.

mod components;
mod modules;

use crate::exceptions::{Finding, Kind};
use modules::Crate;
use std::collections::BTreeMap;

/// A root of a crate, relative to its folder.
const ROOTS: [&str; 2] = ["src/lib.rs", "src/main.rs"];

/// The crates whose files form circles; the number is that of the files in circles.
///
/// # Errors
/// If a file is not Rust.
pub fn findings(files: &BTreeMap<String, String>) -> Result<Vec<Finding>, String> {
    let mut found = Vec::new();
    let folders = files.keys().filter_map(|name| name.strip_suffix("/Cargo.toml"));
    for folder in folders {
        let mut circles = Vec::new();
        for root in ROOTS.map(|root| format!("{folder}/{root}")) {
            if files.contains_key(&root) {
                let references = Crate::read(files, &root)?.references();
                circles.extend(components::circles(&references));
            }
        }
        let number = circles.iter().map(Vec::len).sum();
        if number > 0 {
            let listed: Vec<String> = circles.iter().map(|circle| circle.join(", ")).collect();
            found.push(
                Finding::new(Kind::FilesInCircles, folder, number).with_note(&listed.join("; ")),
            );
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        let files = files.iter().map(|(name, text)| (format!("a/{name}"), (*text).to_owned()));
        files.chain([("a/Cargo.toml".to_owned(), String::new())]).collect()
    }

    /// The files in circles, as said.
    fn circles(files: &[(&str, &str)]) -> String {
        let found = findings(&tree(files)).unwrap();
        found.first().map(|finding| finding.note.clone()).unwrap_or_default()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let one = ("src/one.rs", "use crate::two::B; pub struct A(B);");
        let two = ("src/two.rs", "pub struct B; fn f(_: &crate::one::A) {}");
        let root = ("src/lib.rs", "mod one; mod two;");
        assert_eq!(circles(&[root, one, two]), "a/src/one.rs, a/src/two.rs");
        let none = ("src/two.rs", "pub struct B; #[cfg(test)] mod tests { use crate::one::A; }");
        assert_eq!(circles(&[root, one, none]), "");
    }

    #[test]
    fn re_exports_are_followed_and_no_reference() {
        let one = ("src/one.rs", "use crate::B; pub struct A(B);");
        let root = ("src/lib.rs", "mod one; mod two; pub use one::A; pub use two::{B, C as D};");
        let two = |text| ("src/two.rs", text);
        let with = |text| circles(&[root, one, two(text)]);
        assert_eq!(
            with("pub struct B; pub struct C; fn f(a: crate::A) {}"),
            "a/src/one.rs, a/src/two.rs"
        );
        assert_eq!(with("pub struct B; pub struct C; fn f(a: crate::D) {}"), "");
        let glob = ("src/lib.rs", "mod one; mod two; pub use one::*; pub use two::*;");
        let back = two("pub struct B; fn f(a: crate::A) {}");
        assert_eq!(circles(&[glob, one, back]), "a/src/one.rs, a/src/two.rs");
    }

    #[test]
    fn a_module_and_its_child_are_a_circle_if_each_uses_the_other() {
        let root = ("src/main.rs", "mod up; fn main() { up::go() }");
        let up = ("src/up/mod.rs", "mod down; pub struct Up; pub fn go() { down::f() }");
        let down = |text| ("src/up/down.rs", text);
        let both = "a/src/up/down.rs, a/src/up/mod.rs";
        assert_eq!(circles(&[root, up, down("pub fn f() { g(super::Up) }")]), both);
        assert_eq!(circles(&[root, up, down("pub fn f() { println!(\"{}\", super::Up) }")]), both);
        assert_eq!(circles(&[root, up, down("use super::*; pub fn f() {}")]), both);
        assert_eq!(circles(&[root, up, down("pub fn f() {} mod in_it { use super::f; }")]), "");
    }
}
