//! Sizes in Rust files: lines before tests, lines of functions, tuples as parameters.

use crate::exceptions::{Finding, Kind};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{FnArg, ImplItemFn, ItemFn, ItemMod, Signature, Type};

/// Lines of a file before its tests.
const MAX_FILE: usize = 400;
/// Lines of a function with its signature, without comments: a reason next to the code must not cost
/// a line of it (as in clippy's `too_many_lines`).
const MAX_FUNCTION: usize = 80;

/// What exceeds a limit in a file.
///
/// # Errors
/// If the file is not Rust.
pub fn findings(name: &str, text: &str) -> Result<Vec<Finding>, String> {
    let file = syn::parse_file(text).map_err(|error| format!("{name}: {error}"))?;
    let mut found = Vec::new();
    if !is_test(name) {
        // Tests come at the end of a file.
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        if lines > MAX_FILE {
            found.push(Finding::new(Kind::FileLines, name, lines));
        }
    }
    let comments = text.lines().map(|line| line.trim_start().starts_with("//")).collect();
    let mut visitor = Functions { name, found, comments, is_test: is_test(name) };
    visitor.visit_file(&file);
    Ok(visitor.found)
}

/// Whether a file has nothing but tests, or examples.
pub fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("tests.rs") || name.contains("/examples/")
}

struct Functions<'a> {
    name: &'a str,
    found: Vec<Finding>,
    /// Whether a line is a comment and nothing else.
    comments: Vec<bool>,
    is_test: bool,
}

impl Functions<'_> {
    fn function(&mut self, signature: &Signature, whole: Span) {
        let function = format!("{} {}", self.name, signature.ident);
        // Lines of spans count from 1.
        let body = signature.fn_token.span().start().line - 1..whole.end().line;
        let lines = self.comments[body].iter().filter(|is_comment| !**is_comment).count();
        if lines > MAX_FUNCTION {
            self.found.push(Finding::new(Kind::FunctionLines, &function, lines));
        }
        let tuples = signature.inputs.iter().filter(|input| match input {
            FnArg::Typed(typed) => {
                matches!(&*typed.ty, Type::Tuple(tuple) if tuple.elems.len() > 1)
            }
            FnArg::Receiver(_) => false,
        });
        let tuples = tuples.count();
        if tuples > 0 && !self.is_test {
            self.found.push(Finding::new(Kind::TupleParameters, &function, tuples));
        }
    }
}

impl<'a> Visit<'a> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        self.function(&item.sig, item.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        self.function(&item.sig, item.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        let outside = self.is_test;
        self.is_test |= item.ident == "tests";
        visit::visit_item_mod(self, item);
        self.is_test = outside;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(name: &str, text: &str) -> Vec<Kind> {
        findings(name, text).unwrap().into_iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn long_files_and_functions_and_tuples_are_found() {
        assert_eq!(kinds("a.rs", &"// a\n".repeat(401)), [Kind::FileLines]);
        assert_eq!(
            kinds("a.rs", &format!("{}#[cfg(test)]\nmod tests {{}}\n", "// a\n".repeat(400))),
            []
        );
        let long = format!("fn f() {{\n{}}}\n", "f();\n".repeat(79));
        assert_eq!(kinds("a.rs", &long), [Kind::FunctionLines]);
        let commented = format!("fn f() {{\n{}}}\n", "f();\n// why\n".repeat(78));
        assert_eq!(kinds("a.rs", &commented), []);
        assert_eq!(kinds("a.rs", "fn f((a, b): (u8, u8), c: ()) {}"), [Kind::TupleParameters]);
        assert_eq!(kinds("a.rs", "mod tests { fn f(a: (u8, u8)) {} }"), []);
    }
}
