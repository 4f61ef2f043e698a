//! `cargo xtask reference`: the tables of keys in the reference, from the JSON Schema.
//!
//! A page has a marker for each table: `<!-- generated: NAME -->` up to `<!-- end -->`, where NAME is a
//! definition of the schema, or `Experiment` for the top level. A list of keys after the name selects and
//! orders the rows, and `key=link` makes a key a link to its details:
//!
//! ```text
//! <!-- generated: Group: count, routes=networks.md#routes -->
//! ```
//!
//! All tables of a definition together must have each of its keys once.

mod pages;
mod table;
mod values;

use pages::{Marker, Piece};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Where the schema is.
const SCHEMA: &str = "schema/experiment.schema.json";
/// Folders whose pages may have tables.
const FOLDERS: [&str; 2] = ["docs", "docs/experiment-file"];
/// Name of the schema's top level in markers.
const ROOT: &str = "Experiment";

/// Pages by name.
type Pages = BTreeMap<String, String>;

/// Writes the tables into the pages below `root`; returns the names of the pages that changed.
///
/// # Errors
/// If a file cannot be read or written, or a marker is wrong.
pub fn write(root: &Path) -> Result<Vec<String>, String> {
    let (schema, pages) = read(root)?;
    let updated = updated(&schema, &pages)?;
    let changed: Pages = updated.into_iter().filter(|(name, text)| pages[name] != *text).collect();
    for (name, text) in &changed {
        std::fs::write(root.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(changed.into_keys().collect())
}

fn read(root: &Path) -> Result<(Value, Pages), String> {
    let text = |name: &str| {
        std::fs::read_to_string(root.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let schema = serde_json::from_str(&text(SCHEMA)?).map_err(|error| error.to_string())?;
    let mut pages = Pages::new();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(root.join(folder));
        for entry in entries.map_err(|error| format!("{folder}: {error}"))? {
            let entry = entry.map_err(|error| format!("{folder}: {error}"))?;
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if Path::new(&name).extension().is_some_and(|ending| ending == "md") {
                pages.insert(name.clone(), text(&name)?);
            }
        }
    }
    Ok((schema, pages))
}

/// The pages with their tables as the schema has them.
///
/// # Errors
/// If a marker is wrong, or keys of a definition are in no table or in two.
fn updated(schema: &Value, pages: &Pages) -> Result<Pages, String> {
    let split: BTreeMap<&String, Vec<Piece>> = pages
        .iter()
        .map(|(name, text)| {
            pages::pieces(text).map(|p| (name, p)).map_err(|e| format!("{name}: {e}"))
        })
        .collect::<Result<_, _>>()?;
    let mut sections = BTreeMap::new();
    let mut markers = Vec::new();
    for (page, piece) in split.iter().flat_map(|(page, p)| p.iter().map(move |one| (page, one))) {
        if let Piece::Table(marker) = piece {
            let section = format!("{page}#{}", marker.section);
            // Links lead to the first table of a definition.
            sections.entry(marker.name.clone()).or_insert(section);
            markers.push(marker);
        }
    }
    check(schema, &markers)?;
    let page = |name: &String, pieces: Vec<Piece>| {
        let texts = pieces.into_iter().map(|piece| match piece {
            Piece::Text(text) => Ok(text),
            Piece::Table(marker) => {
                let definition = definition(schema, &marker.name)?;
                let links = values::Links { schema, sections: &sections, page: name };
                let rows = table::table(definition, &marker, &links)?;
                // Blank lines: some renderers take a comment next to a table as a part of it.
                Ok(format!("{}\n\n{rows}\n", marker.text))
            }
        });
        texts.collect::<Result<String, String>>().map_err(|error| format!("{name}: {error}"))
    };
    split.into_iter().map(|(name, pieces)| Ok((name.clone(), page(name, pieces)?))).collect()
}

fn definition<'s>(schema: &'s Value, name: &str) -> Result<&'s Value, String> {
    match name {
        ROOT => Ok(schema),
        _ => schema["$defs"].get(name).ok_or(format!("the schema has no definition `{name}`")),
    }
}

/// Whether the tables have each key of each definition once.
fn check(schema: &Value, markers: &[&Marker]) -> Result<(), String> {
    let names = schema["$defs"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    for name in names.chain([ROOT]) {
        let definition = definition(schema, name)?;
        let known = table::keys(definition);
        let tables: Vec<_> = markers.iter().filter(|marker| marker.name == name).collect();
        // Only maps of keys must have a table.
        if known.is_empty() {
            continue;
        }
        let listed: Vec<String> = tables
            .iter()
            .flat_map(|marker| match marker.keys.is_empty() {
                true => known.clone(),
                false => marker.keys.iter().map(|key| key.name.clone()).collect(),
            })
            .collect();
        for key in &known {
            match listed.iter().filter(|one| *one == key).count() {
                1 => {}
                0 => return Err(format!("no table has the key `{key}` of {name}")),
                count => return Err(format!("{count} tables have the key `{key}` of {name}")),
            }
        }
        if let Some(key) = listed.iter().find(|key| !known.contains(key)) {
            return Err(format!("{name} has no key `{key}`"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(text: &str) -> Result<String, String> {
        let schema = json!({
            "properties": { "nodes": { "type": "object", "description": "Groups.",
                "additionalProperties": { "$ref": "#/$defs/Group" } } },
            "required": ["nodes"],
            "$defs": { "Group": { "properties": {
                "count": { "type": ["integer", "null"],
                    "description": "Number of\nnodes. Range: 1 or more. Default: 1." },
                "run": { "type": "string", "description": "Program: a|b." },
            } } },
        });
        let pages = Pages::from([("docs/a.md".to_owned(), text.to_owned())]);
        updated(&schema, &pages).map(|mut pages| pages.remove("docs/a.md").unwrap())
    }

    #[test]
    fn a_table_has_a_row_for_each_key() {
        let text = "# Top\n\n<!-- generated: Experiment -->\n<!-- end -->\n\n## Groups of nodes\n\n\
                    <!-- generated: Group: run=b.md#c, count -->\nold\n<!-- end -->\n\nrest\n";
        let head = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
        let expected = format!(
            "# Top\n\n<!-- generated: Experiment -->\n\n{head}\
             | `nodes` | map of [groups](#groups-of-nodes) | required | Groups |\n\n<!-- end -->\n\n\
             ## Groups of nodes\n\n<!-- generated: Group: run=b.md#c, count -->\n\n{head}\
             | [`run`](b.md#c) | text | none | Program: a\\|b |\n\
             | `count` | whole number, 1 or more | 1 | Number of nodes |\n\n<!-- end -->\n\nrest\n"
        );
        assert_eq!(one(text).unwrap(), expected);
        assert_eq!(one(&expected).unwrap(), expected);
    }

    #[test]
    fn each_key_has_one_row() {
        let text = |marker: &str| {
            format!("<!-- generated: Experiment -->\n<!-- end -->\n{marker}\n<!-- end -->\n")
        };
        let fails = |marker: &str| one(&text(marker)).unwrap_err();
        assert!(fails("<!-- generated: Group: run -->").contains("no table has the key `count`"));
        assert!(fails("<!-- generated: Group: run, run, count -->").contains("2 tables"));
        assert!(fails("<!-- generated: Group: run, count, size -->").contains("no key `size`"));
        assert!(one("<!-- generated: Group -->\n").unwrap_err().contains("no `<!-- end -->`"));
    }

    #[test]
    fn the_pages_are_those_of_the_schema() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (schema, pages) = read(root).unwrap();
        let updated = updated(&schema, &pages).unwrap();
        for (name, text) in updated {
            assert!(pages[&name] == text, "{name} is out of date: run `cargo xtask reference`");
        }
    }
}
