//! `cargo xtask sbom`: the list of everything that a built Thingbed contains or calls, as CycloneDX.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A part that Cargo does not know of.
struct Foreign {
    name: &'static str,
    licence: &'static str,
    /// How it becomes a part, with the version if that is known before installing.
    how: &'static str,
}

/// Native libraries and embedded files; `docs/supply-chain.md` has a line for each.
const FOREIGN: [Foreign; 7] = [
    Foreign {
        name: "libzmq",
        licence: "LGPL-3.0-or-later",
        how: "shared library of the system, linked dynamically",
    },
    Foreign {
        name: "OpenPGM",
        licence: "LGPL-2.1-only",
        how: "shared library of the system, loaded by libzmq",
    },
    Foreign {
        name: "libmosquitto",
        licence: "EPL-2.0 OR BSD-3-Clause",
        how: "shared library of the system, linked dynamically",
    },
    Foreign {
        name: "libcoap",
        licence: "BSD-2-Clause",
        how: "shared library of the system, linked dynamically",
    },
    Foreign {
        name: "libpcap",
        licence: "BSD-3-Clause",
        how: "shared library of the system, loaded for capture filters",
    },
    Foreign {
        name: "open62541",
        licence: "MPL-2.0",
        how: "source in the crate open62541-sys, linked statically",
    },
    Foreign {
        name: "Apache ECharts",
        licence: "Apache-2.0",
        how: "version 5.6.0, crates/report/assets/echarts.simple.min.js, in every report",
    },
];

/// The bill of materials of the workspace in `root`, from `cargo metadata` and `Cargo.lock`.
pub fn sbom(root: &Path) -> Result<String, String> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = Command::new(cargo).args(arguments).current_dir(root).output();
    let run = run.map_err(|error| format!("run cargo metadata: {error}"))?;
    if !run.status.success() {
        let why = String::from_utf8_lossy(&run.stderr).trim().to_owned();
        return Err(format!("cargo metadata: {why}"));
    }
    let metadata: Value =
        serde_json::from_slice(&run.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let document = document(&metadata, &read(&root.join("Cargo.lock"))?)?;
    serde_json::to_string_pretty(&document).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The document for what `cargo metadata` printed, with the checksums of `lock`.
fn document(metadata: &Value, lock: &str) -> Result<Value, String> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let own: BTreeSet<&str> = strings(&metadata["workspace_members"]).collect();
    let mut components: Vec<Value> =
        packages.iter().map(|package| component(package, &own, lock)).collect();
    components.extend(FOREIGN.iter().map(|foreign| {
        json!({
            "type": "library",
            "bom-ref": format!("foreign:{}", foreign.name),
            "name": foreign.name,
            "licenses": [{"expression": foreign.licence}],
            "properties": [{"name": "thingbed:how", "value": foreign.how}],
        })
    }));
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata has no graph")?;
    let dependencies: Vec<Value> = nodes
        .iter()
        .map(|node| json!({"ref": node["id"], "dependsOn": node["dependencies"]}))
        .collect();
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "name": "thingbed",
            "bom-ref": "thingbed",
            "version": env!("CARGO_PKG_VERSION"),
        }},
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(package: &Value, own: &BTreeSet<&str>, lock: &str) -> Value {
    let text = |key: &str| package[key].as_str().unwrap_or_default();
    let (name, version) = (text("name"), text("version"));
    let mut component = Map::new();
    component.insert("type".to_owned(), "library".into());
    component.insert("bom-ref".to_owned(), text("id").into());
    component.insert("name".to_owned(), name.into());
    component.insert("version".to_owned(), version.into());
    if let Some(licence) = package["license"].as_str() {
        // The old way to write OR, which is no SPDX expression.
        let expression = licence.replace('/', " OR ");
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        component.insert("licenses".to_owned(), json!([{"expression": expression}]));
    }
    if !own.contains(text("id")) {
        component.insert("purl".to_owned(), format!("pkg:cargo/{name}@{version}").into());
    }
    if let Some(sum) = checksum(lock, name, version) {
        component.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": sum}]));
    }
    component.into()
}

/// The checksum of a package in `Cargo.lock`; none for the workspace's own.
fn checksum<'a>(lock: &'a str, name: &str, version: &str) -> Option<&'a str> {
    let head = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let entry = lock.split("[[package]]\n").find(|entry| entry.starts_with(&head))?;
    entry.lines().find_map(|line| line.strip_prefix("checksum = \"")?.strip_suffix('"'))
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace")
    }

    #[test]
    fn every_package_of_the_lock_file_is_in_it_once() {
        let lock = read(&root().join("Cargo.lock")).unwrap();
        let made: Value = serde_json::from_str(&sbom(root()).unwrap()).unwrap();
        let components = made["components"].as_array().unwrap();
        let text = |component: &Value, key: &str| component[key].as_str().unwrap_or("").to_owned();
        let listed: BTreeSet<_> =
            components.iter().map(|c| (text(c, "name"), text(c, "version"))).collect();
        assert_eq!(listed.len(), components.len(), "one is there twice");
        let packages = lock.matches("[[package]]\n").count();
        assert_eq!(components.len(), packages + FOREIGN.len());
        let known = components.iter().filter(|c| c["purl"].is_string());
        for component in known {
            assert!(component["hashes"][0]["content"].as_str().is_some_and(|sum| sum.len() == 64));
            let licence = component["licenses"][0]["expression"].as_str();
            assert!(licence.is_some_and(|l| !l.contains('/')), "{component}");
        }
        let refs: BTreeSet<_> = components.iter().map(|c| text(c, "bom-ref")).collect();
        for edge in made["dependencies"].as_array().unwrap() {
            assert!(strings(&edge["dependsOn"]).all(|to| refs.contains(to)), "{edge}");
        }
    }

    #[test]
    fn every_foreign_part_has_a_reason_to_be_trusted() {
        let page = read(&root().join("docs/supply-chain.md")).unwrap();
        for foreign in &FOREIGN {
            assert!(page.contains(&format!("| {} |", foreign.name)), "{}", foreign.name);
        }
    }
}
