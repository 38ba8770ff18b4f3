//! The crates that are in what a release ships: their licences, and a bill of materials (CycloneDX 1.5).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::json;

use super::{Arch, Release, text};
use crate::libraries::{LIBRARIES, Library, workspace};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
pub struct Crate {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: String,
    /// `None`: a crate of this workspace.
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `None`: needed at run time.
    kind: Option<String>,
}

/// Crates that the program and the libraries contain, by name and version.
pub fn released(arch: Arch) -> anyhow::Result<Vec<Crate>> {
    let target = arch.target();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", &target]);
    let metadata: Metadata = serde_json::from_str(&text(&mut command)?)?;
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let roots: Vec<String> =
        LIBRARIES.iter().map(Library::package).chain(["gdr".to_owned()]).collect();
    let ours =
        metadata.packages.iter().filter(|one| one.source.is_none() && roots.contains(&one.name));
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = ours.map(|one| one.id.clone()).collect();
    while let Some(id) = open.pop() {
        let node = nodes.get(id.as_str()).context("a node of cargo's graph")?;
        let needed =
            node.deps.iter().filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind.is_none()));
        open.extend(needed.map(|dep| dep.pkg.clone()).filter(|id| !found.contains(id)));
        found.insert(id);
    }
    let mut crates: Vec<Crate> =
        metadata.packages.into_iter().filter(|one| found.contains(&one.id)).collect();
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(crates)
}

/// Each foreign crate with its licence, then each licence's text once.
pub fn licenses(crates: &[Crate]) -> anyhow::Result<String> {
    let mut list =
        "Crates that gdr and its libraries contain, with the texts of their licenses below.\n\n"
            .to_owned();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in crates.iter().filter(|one| one.source.is_some()) {
        let name = format!("{} {}", one.name, one.version);
        let Some(license) = &one.license else {
            bail!("{name} names no license");
        };
        list += &format!("{name}: {license}\n");
        let directory = Path::new(&one.manifest_path).parent().context("a manifest's directory")?;
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let file = entry.file_name().to_string_lossy().to_uppercase();
            let is_license = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"]
                .iter()
                .any(|prefix| file.starts_with(prefix));
            if is_license && entry.file_type()?.is_file() {
                let text = String::from_utf8_lossy(&fs::read(entry.path())?).replace('\r', "");
                texts.entry(text.trim().to_owned()).or_default().push(name.clone());
            }
        }
    }
    for (text, names) in texts {
        list += &format!("\n{}\n{}:\n\n{text}\n", "=".repeat(70), names.join(", "));
    }
    Ok(list)
}

/// The bill of materials. It names no time and has no serial number, so it is the same for the same crates.
pub fn bill(release: &Release, arch: Arch, crates: &[Crate]) -> anyhow::Result<String> {
    let lock = fs::read_to_string(workspace().join("Cargo.lock"))?;
    let components: Vec<_> = crates
        .iter()
        .filter(|one| one.source.is_some())
        .map(|one| {
            let reference = format!("pkg:cargo/{}@{}", one.name, one.version);
            let mut component = json!({
                "type": "library",
                "bom-ref": reference,
                "name": one.name,
                "version": one.version,
                "purl": reference,
                "licenses": [{"expression": one.license.as_deref().unwrap_or_default().replace('/', " OR ")}],
            });
            if let Some(sum) = checksum(&lock, one) {
                component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
            }
            component
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "gdr",
                "name": "gdr",
                "version": release.version,
                "licenses": [{"expression": "MIT OR Apache-2.0"}],
                "properties": [
                    {"name": "gdr:target", "value": arch.target()},
                    {"name": "gdr:commit", "value": release.commit},
                ],
            },
        },
        "components": components,
    });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// What Cargo.lock says about the crate's archive.
fn checksum<'a>(lock: &'a str, one: &Crate) -> Option<&'a str> {
    let entry = format!("name = \"{}\"\nversion = \"{}\"\n", one.name, one.version);
    let rest = lock.split_once(&entry)?.1.split_once("checksum = \"")?.1;
    rest.split_once('"').map(|(sum, _)| sum)
}
