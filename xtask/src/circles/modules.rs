//! The modules of a crate, and where the paths in them lead.

use super::components::References;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// Names from the crate's root to a module or an item.
type Path = Vec<String>;

/// Re-exports that a path follows at most: a circle of them would not end.
const MAX_RE_EXPORTS: usize = 20;

#[derive(Debug, Default)]
struct Module {
    file: String,
    /// Names of items.
    items: BTreeSet<String>,
    /// Names of imported items, with the path as written.
    aliases: BTreeMap<String, Path>,
    /// Modules of which all items are imported, as written.
    globs: Vec<Path>,
    /// Paths in the module's code, as written.
    paths: BTreeSet<Path>,
}

/// The modules of a crate, by their paths.
#[derive(Debug)]
pub struct Crate(BTreeMap<Path, Module>);

impl Crate {
    /// Reads the module tree below the file `root`.
    ///
    /// # Errors
    /// If a file is not Rust.
    pub fn read(files: &BTreeMap<String, String>, root: &str) -> Result<Self, String> {
        let mut reader = Reader { files, modules: BTreeMap::new() };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        reader.file(root, &folder, Path::new())?;
        Ok(Self(reader.modules))
    }

    /// The other files to which each file refers.
    pub fn references(&self) -> References {
        let mut references = References::new();
        for (at, module) in &self.0 {
            let to = references.entry(module.file.clone()).or_default();
            let found = module.paths.iter().filter_map(|path| self.file_of(at, path));
            to.extend(found.filter(|file| **file != module.file).cloned());
        }
        references
    }

    /// The file that defines what `path` in the module `at` names; none if it is a module, local
    /// or of another crate.
    fn file_of(&self, at: &Path, path: &Path) -> Option<&String> {
        let absolute = self.absolute(at, path)?;
        self.resolve(&absolute, MAX_RE_EXPORTS).filter(|found| !found.1).map(|found| found.0)
    }

    fn absolute(&self, at: &Path, path: &Path) -> Option<Path> {
        // Names of the module come before those of `use ...::*`, as in Rust.
        self.based(at, path).or_else(|| {
            let first = path.first()?;
            Some([self.through(at, first)?.as_slice(), path].concat())
        })
    }

    /// The absolute path, if it does not begin with a name from `use ...::*`.
    fn based(&self, at: &Path, path: &Path) -> Option<Path> {
        let mut from = at.clone();
        let mut rest = path.as_slice();
        match path.first()?.as_str() {
            "crate" => (from, rest) = (Path::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            // Items of the module itself are not looked for: they are in the same file.
            first => {
                let child = [at.as_slice(), &[first.to_owned()]].concat();
                let known = self.0.contains_key(&child)
                    || self.0.get(at).is_some_and(|module| module.aliases.contains_key(first));
                if !known {
                    return None;
                }
            }
        }
        while rest.first().is_some_and(|first| first == "super") {
            from.pop();
            rest = &rest[1..];
        }
        Some([&from, rest].concat())
    }

    /// The module from which `use ...::*` in the module `at` has `name`. One that defines it comes
    /// before one that imports it, maybe for itself alone.
    fn through(&self, at: &Path, name: &str) -> Option<Path> {
        let globs = self.0.get(at)?.globs.iter();
        let places: Vec<Path> = globs.filter_map(|glob| self.based(at, glob)).collect();
        let has = |place: &Path, of: fn(&Module, &str) -> bool| {
            self.0.get(place).is_some_and(|module| of(module, name))
        };
        let defines = places.iter().find(|place| {
            let child = [place.as_slice(), &[name.to_owned()]].concat();
            has(place, |module, name| module.items.contains(name)) || self.0.contains_key(&child)
        });
        let imports = || {
            places.iter().find(|place| has(place, |module, name| module.aliases.contains_key(name)))
        };
        defines.or_else(imports).cloned()
    }

    /// The file at the end of an absolute path, and whether that is a module as a whole.
    fn resolve(&self, path: &Path, left: usize) -> Option<(&String, bool)> {
        let mut at = Path::new();
        for (index, name) in path.iter().enumerate() {
            let module = self.0.get(&at)?;
            let child = [at.as_slice(), std::slice::from_ref(name)].concat();
            if self.0.contains_key(&child) {
                at = child;
                continue;
            }
            if module.items.contains(name) {
                return Some((&module.file, false));
            }
            let left = left.checked_sub(1)?;
            let rest = &path[index + 1..];
            if let Some(alias) = module.aliases.get(name) {
                // An alias of an item in another crate leads nowhere.
                let target = self.absolute(&at, alias).filter(|target| target != &child)?;
                return self.resolve(&[&target, rest].concat(), left);
            }
            // Names of no item end here, such as the `*` of `import`: they are the module's file.
            let Some(target) = self.through(&at, name) else { return Some((&module.file, false)) };
            return self.resolve(&[&target, &path[index..]].concat(), left);
        }
        self.0.get(&at).map(|module| (&module.file, true))
    }
}

struct Reader<'a> {
    files: &'a BTreeMap<String, String>,
    modules: BTreeMap<Path, Module>,
}

impl Reader<'_> {
    /// Reads a file; the files of its modules are in `folder`.
    fn file(&mut self, name: &str, folder: &str, at: Path) -> Result<(), String> {
        // Files that git does not track are left out.
        let Some(text) = self.files.get(name) else { return Ok(()) };
        let file = syn::parse_file(text).map_err(|error| format!("{name}: {error}"))?;
        self.items(name, folder, &file.items, at)
    }

    fn items(&mut self, name: &str, folder: &str, items: &[Item], at: Path) -> Result<(), String> {
        let mut module = Module { file: name.to_owned(), ..Module::default() };
        let mut code = Code { module: &mut module };
        items.iter().for_each(|item| code.visit_item(item));
        self.modules.insert(at.clone(), module);
        for item in items {
            let Item::Mod(item) = item else { continue };
            if is_test(&item.attrs) {
                continue;
            }
            let own = item.ident.to_string();
            // A module without braces is in one of two places, or where its attribute says.
            let inside = [at.as_slice(), std::slice::from_ref(&own)].concat();
            let below = format!("{folder}/{own}");
            match &item.content {
                Some((_, items)) => self.items(name, &below, items, inside)?,
                None => {
                    let file = [format!("{below}.rs"), format!("{below}/mod.rs")];
                    let file = path_attribute(item)
                        .map(|path| format!("{folder}/{path}"))
                        .or_else(|| file.into_iter().find(|file| self.files.contains_key(file)));
                    self.file(&file.unwrap_or_default(), &below, inside)?;
                }
            }
        }
        Ok(())
    }
}

fn path_attribute(item: &ItemMod) -> Option<String> {
    let attribute = item.attrs.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
    let syn::Expr::Lit(value) = &pair.value else { return None };
    let syn::Lit::Str(path) = &value.lit else { return None };
    Some(path.value())
}

/// `#[cfg(test)]` or `#[test]`.
pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        let condition = list.is_ok_and(|list| {
            list.path.is_ident("cfg") && list.tokens.to_string().split_whitespace().eq(["test"])
        });
        condition || attribute.path().is_ident("test")
    })
}

/// Collects what a module defines, imports and refers to.
struct Code<'a> {
    module: &'a mut Module,
}

impl Code<'_> {
    fn import(&mut self, begin: &[String], tree: &UseTree, is_reference: bool) {
        let with = |name: &syn::Ident| [begin, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.import(&with(&path.ident), &path.tree, is_reference),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(begin, tree, is_reference));
            }
            UseTree::Glob(_) => {
                if is_reference {
                    // An item of no name: that of the module itself.
                    self.module.paths.insert([begin, &["*".to_owned()]].concat());
                }
                self.module.globs.push(begin.to_vec());
            }
            UseTree::Name(name) if name.ident == "self" => {
                let last = begin.last().cloned().unwrap_or_default();
                self.alias(last, begin.to_vec(), is_reference);
            }
            UseTree::Name(name) => {
                self.alias(name.ident.to_string(), with(&name.ident), is_reference);
            }
            UseTree::Rename(rename) => {
                self.alias(rename.rename.to_string(), with(&rename.ident), is_reference);
            }
        }
    }

    fn alias(&mut self, name: String, path: Path, is_reference: bool) {
        if is_reference {
            self.module.paths.insert(path.clone());
        }
        self.module.aliases.insert(name, path);
    }

    /// Paths in the tokens of a macro: names with `::` between them.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    // `name: Type` has one colon and is no path.
                    if colons != 2 {
                        self.note(&mut path);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
                other => {
                    self.note(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.note(&mut path);
    }

    fn note(&mut self, path: &mut Path) {
        // A name alone may be a variable.
        if path.len() > 1 {
            self.module.paths.insert(path.clone());
        }
        path.clear();
    }
}

impl<'a> Visit<'a> for Code<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        let (name, attributes) = match item {
            Item::Const(item) => (Some(&item.ident), &item.attrs),
            Item::Enum(item) => (Some(&item.ident), &item.attrs),
            Item::Fn(item) => (Some(&item.sig.ident), &item.attrs),
            Item::Macro(item) => (item.ident.as_ref(), &item.attrs),
            Item::Static(item) => (Some(&item.ident), &item.attrs),
            Item::Struct(item) => (Some(&item.ident), &item.attrs),
            Item::Trait(item) => (Some(&item.ident), &item.attrs),
            Item::Type(item) => (Some(&item.ident), &item.attrs),
            Item::Union(item) => (Some(&item.ident), &item.attrs),
            Item::Impl(item) => (None, &item.attrs),
            Item::Use(item) => (None, &item.attrs),
            // Modules are read one by one.
            Item::Mod(_) => return,
            _ => return visit::visit_item(self, item),
        };
        if is_test(attributes) {
            return;
        }
        self.module.items.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        // A re-export is no reference by itself: `resolve` follows paths through it.
        let is_reference = matches!(item.vis, Visibility::Inherited);
        self.import(&[], &item.tree, is_reference);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Path = path.segments.iter().map(|part| part.ident.to_string()).collect();
        // A lower-case name alone is mostly a variable; what it imports is a reference already.
        let is_variable = |name: &String| name.starts_with(char::is_lowercase);
        if names.len() > 1 || !names.iter().all(is_variable) {
            self.module.paths.insert(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'a Macro) {
        self.tokens(item.tokens.clone());
        visit::visit_macro(self, item);
    }
}
