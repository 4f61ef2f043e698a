//! Circles of files: files of one crate that refer to each other's items, in any number of steps.
//!
//! A file refers to another if one of its paths leads there, by the modules' tree and through
//! re-exports. `mod` and `pub use` are no references by themselves, and tests may refer to anything.

mod components;
mod modules;

use crate::exceptions::{Finding, Kind};
use components::References;
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
    // The workspace's manifest has no folder, and so no crate.
    let folders = files.keys().filter_map(|name| name.strip_suffix("/Cargo.toml"));
    for folder in folders {
        let (mut circles, mut steps) = (Vec::new(), References::new());
        for root in ROOTS.map(|root| format!("{folder}/{root}")) {
            if files.contains_key(&root) {
                let references = Crate::read(files, &root)?.references();
                circles.extend(components::circles(&references));
                let of = |file: &String| Some((file.clone(), references.get(file)?.clone()));
                steps.extend(circles.iter().flatten().filter_map(of));
            }
        }
        let number = circles.iter().map(Vec::len).sum();
        if number > 0 {
            let note = circles.iter().map(|circle| note(folder, circle, &steps));
            let note = note.collect::<Vec<_>>().join("");
            found.push(Finding::new(Kind::FilesInCircles, folder, number).with_note(&note));
        }
    }
    Ok(found)
}

/// The files of a circle, each with the files of the circle to which it refers.
fn note(folder: &str, circle: &[String], steps: &References) -> String {
    let short = |file: &String| file.strip_prefix(&format!("{folder}/src/")).map(str::to_owned);
    let mut text = String::new();
    for file in circle {
        let to = steps.get(file).into_iter().flatten().filter(|other| circle.contains(other));
        let to: Vec<String> = to.filter_map(short).collect();
        text += &format!("\n  {} -> {}", short(file).unwrap_or_default(), to.join(", "));
    }
    text
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
        assert_eq!(circles(&[root, one, two]), "\n  one.rs -> two.rs\n  two.rs -> one.rs");
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
            "\n  one.rs -> two.rs\n  two.rs -> one.rs"
        );
        assert_eq!(with("pub struct B; pub struct C; fn f(a: crate::D) {}"), "");
        let glob = ("src/lib.rs", "mod one; mod two; pub use one::*; pub use two::*;");
        let back = two("pub struct B; fn f(a: crate::A) {}");
        assert_eq!(circles(&[glob, one, back]), "\n  one.rs -> two.rs\n  two.rs -> one.rs");
    }

    #[test]
    fn a_module_and_its_child_are_a_circle_if_each_uses_the_other() {
        let root = ("src/main.rs", "mod up; fn main() { up::go() }");
        let up = ("src/up/mod.rs", "mod down; pub struct Up; pub fn go() { down::f() }");
        let down = |text| ("src/up/down.rs", text);
        let both = "\n  up/down.rs -> up/mod.rs\n  up/mod.rs -> up/down.rs";
        assert_eq!(circles(&[root, up, down("pub fn f() { g(super::Up) }")]), both);
        assert_eq!(circles(&[root, up, down("pub fn f() { println!(\"{}\", super::Up) }")]), both);
        assert_eq!(circles(&[root, up, down("use super::*; pub fn f() {}")]), both);
        assert_eq!(circles(&[root, up, down("pub fn f() {} mod in_it { use super::f; }")]), "");
    }
}
