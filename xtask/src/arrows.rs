//! What ARCHITECTURE.md says about the dependencies of crates, compared with their manifests.

use std::collections::{BTreeMap, BTreeSet};

/// The head of the table in ARCHITECTURE.md.
const TABLE: &str = "| crate | depends on |";
/// Folders of crates.
const FAMILIES: [&str; 2] = ["crates", "director"];

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Differences between the table and the manifests.
///
/// # Errors
/// If there is no table, or a manifest without a name.
pub fn problems(files: &BTreeMap<String, String>) -> Result<Vec<String>, String> {
    let claimed = claimed(files.get("ARCHITECTURE.md").map_or("", String::as_str))?;
    let manifests = files.iter().filter(|(name, _)| is_manifest(name));
    let manifests: BTreeMap<String, &String> =
        manifests.map(|(_, text)| Ok((crate_name(text)?, text))).collect::<Result<_, String>>()?;
    let names: BTreeSet<String> = manifests.keys().cloned().collect();
    let actual =
        manifests.iter().map(|(name, text)| (name.clone(), dependencies(text, &names))).collect();
    Ok(differences(&claimed, &actual))
}

/// `Cargo.toml` in a folder of a family.
fn is_manifest(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    matches!(parts[..], [family, _, "Cargo.toml"] if FAMILIES.contains(&family))
}

/// The name of the library, which may differ from the package's, as other manifests write it.
fn crate_name(manifest: &str) -> Result<String, String> {
    let library = manifest.split_once("[lib]\n").map_or(manifest, |(_, library)| library);
    let name = library.lines().find_map(|line| line.strip_prefix("name = "));
    name.map(|name| name.trim_matches('"').replace('_', "-")).ok_or(format!("no name: {manifest}"))
}

fn claimed(architecture: &str) -> Result<Arrows, String> {
    let (_, table) =
        architecture.split_once(TABLE).ok_or(format!("ARCHITECTURE.md: no table `{TABLE}`"))?;
    // The first two are the end of the head's line and the rule below the head.
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    // Names are between backticks, so each second part is one.
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let row = |line: &str| {
        let mut cells = line.split('|').skip(1);
        let of: Vec<String> = names(cells.next().unwrap_or_default());
        let on: Vec<String> = names(cells.next().unwrap_or_default());
        of.into_iter().map(move |name| (name, on.iter().cloned().collect())).collect::<Vec<_>>()
    };
    Ok(rows.flat_map(row).collect())
}

/// The workspace's crates under `[dependencies]` of a manifest; tests may use others.
fn dependencies(manifest: &str, names: &BTreeSet<String>) -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        // `record.workspace = true` and `record = { ... }` begin with the name.
        let name = line.split(['=', '.']).next().unwrap_or_default().trim();
        if section == "[dependencies]" && names.contains(name) {
            found.insert(name.to_owned());
        }
    }
    found
}

fn differences(claimed: &Arrows, actual: &Arrows) -> Vec<String> {
    let none = BTreeSet::new();
    let all: BTreeSet<&String> = claimed.keys().chain(actual.keys()).collect();
    let mut problems = Vec::new();
    for name in all {
        let (output, is) = (claimed.get(name).unwrap_or(&none), actual.get(name).unwrap_or(&none));
        for other in is.difference(output) {
            problems.push(format!("{name}: depends on {other}, ARCHITECTURE.md does not say so"));
        }
        for other in output.difference(is) {
            problems
                .push(format!("ARCHITECTURE.md: {name} depends on {other}, its manifest does not"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_compared_with_manifests() {
        let text =
            format!("{TABLE}\n| --- | --- |\n| `a`, `b` | `c` |\n| `c` | none |\n\n| `d` | |");
        let claimed = claimed(&text).unwrap();
        assert_eq!(claimed.len(), 3);
        let names = ["a", "b", "c"].map(str::to_owned).into();
        let manifest = "name = \"a\"\n[dependencies]\nc.workspace = true\nserde = \"1\"\n[dev-dependencies]\nb = { path = \"b\" }\n";
        assert_eq!(crate_name(manifest).unwrap(), "a");
        let renamed = "[package]\nname = \"x-a\"\n[lib]\nname = \"a\"\n[[bin]]\nname = \"b\"\n";
        assert_eq!(crate_name(renamed).unwrap(), "a");
        let on = dependencies(manifest, &names);
        assert_eq!(on, ["c".to_owned()].into());
        let actual: Arrows =
            [("a".to_owned(), on), ("b".to_owned(), BTreeSet::new())].into_iter().collect();
        assert_eq!(differences(&claimed, &actual).len(), 1);
    }
}
