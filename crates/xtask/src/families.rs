//! The lists of the doctor's checks: enters the file of a new check in its family's `mod.rs`, as a module and last in `CHECKS`.
//!
//! It reads text, because the gdr that xtask is linked with was compiled without a file that no module names.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// How a family's list begins, and what surrounds the name of a check in its file.
const LIST: &str = "pub const CHECKS: &[Check] =";
const CHECK: (&str, &str) = ("pub const ", ": Check =");

/// The lists that lack a check: each path below the repository root, and its text with the check.
pub fn incomplete(root: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    for family in entries(&root.join("src/check"))? {
        let path = family.join("mod.rs");
        let Some(text) = fs::read_to_string(&path).ok().filter(|text| text.contains(LIST)) else {
            continue;
        };
        let mut entered = text.clone();
        for name in checks(&family)? {
            if !is_listed(&text, &name) {
                entered = enter(&entered, &name)
                    .with_context(|| format!("cannot enter {name} in {}", path.display()))?;
            }
        }
        if entered != text {
            found.push((path.strip_prefix(root)?.to_owned(), entered));
        }
    }
    Ok(found)
}

/// The checks of a family, as their list names them: `guest::CHECK`.
fn checks(family: &Path) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in entries(family)? {
        let file = if entry.is_dir() { entry.join("mod.rs") } else { entry.clone() };
        let Some(module) = entry.file_stem().and_then(|name| name.to_str()) else { continue };
        let text = fs::read_to_string(&file).unwrap_or_default();
        let constants = text.lines().filter_map(|line| {
            let (name, _) = line.strip_prefix(CHECK.0)?.split_once(CHECK.1)?;
            Some(format!("{module}::{name}"))
        });
        // Those of a family's own file are listed beside it.
        if module != "mod" {
            names.extend(constants);
        }
    }
    Ok(names)
}

fn entries(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let read = || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
    let entries: std::io::Result<Vec<PathBuf>> = read();
    let mut entries = entries.with_context(|| format!("cannot list {}", directory.display()))?;
    entries.sort();
    Ok(entries)
}

fn is_listed(text: &str, name: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    words.any(|word| word == name)
}

/// The text of a family with one more module and check. rustfmt sorts the modules and lays out the list.
fn enter(text: &str, name: &str) -> anyhow::Result<String> {
    let is_identifier = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let module = name.split("::").next().unwrap_or_default();
    ensure!(module.chars().all(is_identifier), "the file's name is not that of a module");
    let begin = text.find(LIST).context("it has no list of checks")?;
    let end = text[begin..].find("];").context("the list has no end")? + begin;
    let listed = text[..end].trim_end().trim_end_matches(',');
    let text = format!("{listed}, {name}{}", &text[end..]);
    if text.lines().any(|line| line.trim_start_matches("pub ") == format!("mod {module};")) {
        return Ok(text);
    }
    let first = text.find("\nmod ").context("it has no module")?;
    let (above, below) = text.split_at(first + 1);
    Ok(format!("{above}mod {module};\n{below}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY: &str = "//! A family.\n\nmod cma;\npub mod guest;\n\npub const CHECKS: &[Check] =\n    &[guest::CHECK, cma::CHECK];\n";

    #[test]
    fn a_new_check_becomes_a_module_and_the_last_of_the_list() {
        let dir = tempfile::tempdir().expect("a directory");
        let family = dir.path().join("src/check/platform");
        fs::create_dir_all(family.join("nested")).expect("directories");
        let write = |name: &str, text: &str| fs::write(family.join(name), text).expect(name);
        write("mod.rs", FAMILY);
        write("guest.rs", "pub const CHECK: Check = Check {");
        write("cma.rs", "pub const CHECK: Check = Check {");
        write("words.rs", "pub fn words() {}");
        assert!(incomplete(dir.path()).expect("readable").is_empty());
        write("huge_pages.rs", "pub const CHECK: Check = Check {");
        write("nested/mod.rs", "pub const CHECK: Check = Check {");
        write("sharing.rs", "pub const MIG: Check = Check {\n};\npub const VGPU: Check = Check {");
        let found = incomplete(dir.path()).expect("readable");
        let [(path, text)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(path, Path::new("src/check/platform/mod.rs"));
        assert!(text.contains("mod huge_pages;\n") && text.contains("mod nested;\n"), "{text}");
        let list = "&[guest::CHECK, cma::CHECK, huge_pages::CHECK, nested::CHECK, sharing::MIG, sharing::VGPU];";
        assert_eq!(text.matches("mod sharing;").count(), 1);
        assert!(text.contains(list), "{text}");
        write("mod.rs", text);
        assert!(incomplete(dir.path()).expect("readable").is_empty());
    }

    #[test]
    fn a_module_that_is_there_is_only_listed() {
        let text = FAMILY.replace(", cma::CHECK", "");
        assert!(!is_listed(&text, "cma::CHECK"));
        let entered = enter(&text, "cma::CHECK").expect("entered");
        assert_eq!(entered.matches("mod cma;").count(), 1);
        assert!(is_listed(&entered, "cma::CHECK") && !is_listed(&entered, "ma::CHECK"));
        assert!(enter(FAMILY, "huge-pages::CHECK").is_err());
    }
}
