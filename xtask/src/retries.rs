//! Tests that run again until they pass: these hide faults that come only at times.
//!
//! A wait for a condition is none: it observes, and does not repeat what it tests. What can be seen
//! in the text:
//! - attributes, macros, functions and closures of tests that are named after retries;
//! - a loop with a number of rounds that is left as soon as an outcome is `Ok`, without a pause;
//! - a loop that catches panics.

use crate::exceptions::{Finding, Kind};
use proc_macro2::TokenTree;
use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, Expr, ExprForLoop, ExprIf, ExprLoop, ExprWhile, ItemFn, ItemMod};

/// Parts of names.
const NAMES: [&str; 5] = ["retry", "retries", "attempt", "attempts", "flaky"];
/// Marks an outcome in a condition.
const OUTCOMES: [&str; 5] = ["is_ok", "Ok", "ok", "passed", "success"];

/// The retries of a file's tests.
///
/// # Errors
/// If the file is not Rust.
pub fn findings(name: &str, text: &str) -> Result<Vec<Finding>, String> {
    let file = syn::parse_file(text).map_err(|error| format!("{name}: {error}"))?;
    let mut tests = Tests { is_test: crate::rust::is_test(name), loops: 0, found: 0 };
    tests.visit_file(&file);
    let found = (tests.found > 0).then(|| Finding::new(Kind::Retries, name, tests.found));
    Ok(found.into_iter().collect())
}

struct Tests {
    is_test: bool,
    /// Loops around the present place.
    loops: usize,
    found: usize,
}

impl Tests {
    fn name(&mut self, name: &impl ToString) {
        let name = name.to_string();
        let is_named = name.split('_').any(|part| NAMES.contains(&part));
        self.found += usize::from(self.is_test && is_named);
    }

    fn inside(&mut self, visit: impl FnOnce(&mut Self)) {
        self.loops += 1;
        visit(self);
        self.loops -= 1;
    }
}

impl<'a> Visit<'a> for Tests {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        let outside = self.is_test;
        self.is_test |= item.ident == "tests";
        visit::visit_item_mod(self, item);
        self.is_test = outside;
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        // A test is named after what it tests: that may retry.
        if !item.attrs.iter().any(is_test_attribute) {
            self.name(&item.sig.ident);
        }
        visit::visit_item_fn(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let Some(last) = attribute.path().segments.last() {
            self.name(&last.ident);
        }
    }

    fn visit_item_macro(&mut self, item: &'a syn::ItemMacro) {
        item.ident.iter().for_each(|name| self.name(name));
    }

    fn visit_local(&mut self, local: &'a syn::Local) {
        let is_closure = |init: &syn::LocalInit| matches!(&*init.expr, Expr::Closure(_));
        if let syn::Pat::Ident(name) = &local.pat
            && local.init.as_ref().is_some_and(is_closure)
        {
            self.name(&name.ident);
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_for_loop(&mut self, item: &'a ExprForLoop) {
        // A loop over a list tests each of its items, which is no retry.
        let is_counted = matches!(&*item.expr, Expr::Range(_));
        if self.is_test && is_counted && is_left_on_success(&item.body) {
            self.found += 1;
        }
        self.inside(|inside| visit::visit_expr_for_loop(inside, item));
    }

    fn visit_expr_loop(&mut self, item: &'a ExprLoop) {
        self.inside(|inside| visit::visit_expr_loop(inside, item));
    }

    fn visit_expr_while(&mut self, item: &'a ExprWhile) {
        self.inside(|inside| visit::visit_expr_while(inside, item));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let catches = path.segments.last().is_some_and(|last| last.ident == "catch_unwind");
        self.found += usize::from(self.is_test && self.loops > 0 && catches);
        visit::visit_path(self, path);
    }
}

fn is_test_attribute(attribute: &Attribute) -> bool {
    attribute.path().segments.last().is_some_and(|last| last.ident == "test")
}

/// Whether an `if` or a `match` on an outcome leaves the loop, which does not pause.
fn is_left_on_success(body: &Block) -> bool {
    let mut exits = Exits { found: false };
    exits.visit_block(body);
    exits.found && !names(body.to_token_stream()).iter().any(|name| name.contains("sleep"))
}

struct Exits {
    found: bool,
}

impl<'a> Visit<'a> for Exits {
    fn visit_expr_if(&mut self, item: &'a ExprIf) {
        let condition = names(item.cond.to_token_stream());
        let branch = names(item.then_branch.to_token_stream());
        self.found |= condition.iter().any(|name| OUTCOMES.contains(&name.as_str()))
            && branch.iter().any(|name| name == "break" || name == "return");
        visit::visit_expr_if(self, item);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        let pattern = names(arm.pat.to_token_stream());
        let leaves = matches!(&*arm.body, Expr::Break(_) | Expr::Return(_));
        self.found |= leaves && pattern.iter().any(|name| name == "Ok");
        visit::visit_arm(self, arm);
    }

    // Other loops and closures are left by themselves.
    fn visit_expr_for_loop(&mut self, _: &'a ExprForLoop) {}
    fn visit_expr_loop(&mut self, _: &'a ExprLoop) {}
    fn visit_expr_while(&mut self, _: &'a ExprWhile) {}
    fn visit_expr_closure(&mut self, _: &'a syn::ExprClosure) {}
}

/// All names in tokens.
fn names(tokens: proc_macro2::TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) => found.push(name.to_string()),
            TokenTree::Group(group) => found.extend(names(group.stream())),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(code: &str) -> usize {
        let text = format!("mod tests {{ {code} }}");
        let none = findings("a.rs", code).unwrap();
        assert!(none.is_empty(), "code that is no test may retry");
        findings("a.rs", &text).unwrap().first().map_or(0, |finding| finding.number)
    }

    #[test]
    fn a_loop_that_is_left_when_all_is_well_is_found() {
        let again = "for _ in 0..3 { outcome = run(); if outcome.is_ok() { break; } }";
        assert_eq!(count(&format!("fn f() {{ {again} }}")), 1);
        let matched = "for _ in 0..3 { match run() { Ok(v) => return v, Err(e) => last = e } }";
        assert_eq!(count(&format!("fn f() {{ {matched} }}")), 1);
        let caught = "loop { if catch_unwind(run).is_ok() { break; } }";
        assert_eq!(count(&format!("fn f() {{ {caught} }}")), 1);
    }

    #[test]
    fn waiting_and_stepping_are_none() {
        let waits = "for _ in 0..99 { if connect().is_ok() { return; } sleep(MOMENT); }";
        assert_eq!(count(&format!("fn f() {{ {waits} }}")), 0);
        let steps = "for _ in 0..99 { if session.is_done() { break; } step(); }";
        assert_eq!(count(&format!("fn f() {{ {steps} }}")), 0);
        let each = "for case in cases { if case.is_ok() { return; } }";
        assert_eq!(count(&format!("fn f() {{ {each} }}")), 0);
    }

    #[test]
    fn names_tell_retries_except_those_of_tests() {
        assert_eq!(count("fn retry(f: impl Fn()) {}"), 1);
        assert_eq!(count("#[flaky(3)] fn f() { let attempt = || run(); }"), 2);
        assert_eq!(count("macro_rules! with_retries { () => {} }"), 1);
        assert_eq!(count("#[test] fn a_retry_keeps_the_seed() { let attempts = 3; }"), 0);
    }
}
