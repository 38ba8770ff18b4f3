//! Holds the arrows of DESIGN.md: which room of `src/` may know which, and where unsafe and printing may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each room and the rooms it may name. A room that is not here is an error: it has to be thought about.
const MAY_KNOW: [(&str, &[&str]); 19] = [
    ("model", &[]),
    ("input", &[]),
    ("output", &[]),
    ("kmod", &["input", "model"]),
    ("pci", &["model"]),
    ("profile", &["input", "model"]),
    ("world", &["input", "model"]),
    ("snapshot", &["kmod", "model", "pci"]),
    ("collect", &["input", "kmod", "model", "pci", "world"]),
    ("import", &["input", "model", "pci"]),
    ("topo", &["model"]),
    (
        "check",
        &["input", "kmod", "model", "output", "profile", "topo"],
    ),
    ("explain", &["check", "model"]),
    ("fix", &["check", "kmod", "model", "pci", "topo", "world"]),
    ("probe", &["input", "model", "output", "topo"]),
    ("render", &["model", "output", "topo"]),
    ("cli", &["model", "output", "profile", "render"]),
    (
        "cmd",
        &[
            "check", "cli", "collect", "explain", "fix", "import", "input", "model", "output",
            "pci", "probe", "profile", "render", "snapshot", "topo", "world",
        ],
    ),
    ("main", &["cli", "cmd", "output", "probe", "world"]),
];

/// The rooms that may know our own crates, and those that may know anyhow.
/// Crate `gpu` goes by its module, and by `use` below: `check` has a family of that name.
const MAY_KNOW_CRATES: [(&str, &[&str]); 5] = [
    ("gpu::nvml", &["world"]),
    ("gdrcopy", &["probe", "world"]),
    // With its colons: `model` has a module of that name.
    ("::verbs", &["world"]),
    ("anyhow", &["cmd", "main"]),
    ("clap", &["cli", "main"]),
];

fn sources() -> Vec<(String, PathBuf, String)> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a directory of sources") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => walk(&path, found),
                false if path.extension().is_some_and(|extension| extension == "rs") => {
                    found.push(path)
                }
                false => {}
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths
        .into_iter()
        .map(|path| {
            let inner = path.strip_prefix(&root).expect("below src");
            let room = inner.iter().next().expect("a name").to_string_lossy();
            let text = fs::read_to_string(&path).expect("a source file");
            (room.trim_end_matches(".rs").to_owned(), path, text)
        })
        .collect()
}

/// The code of a file without its comments: what a sentence mentions is no arrow.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that follow `prefix`, also inside braces right after it.
fn names_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let parts: Vec<&str> = match rest.strip_prefix('{') {
            Some(inner) => outermost(inner),
            None => vec![rest],
        };
        for part in parts {
            let name: String = part
                .trim()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            names.insert(name);
        }
    }
    names
}

/// The parts of a list in braces, up to the brace that closes it; a list within a part belongs to that part.
fn outermost(inner: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&inner[start..at]);
                return parts;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inner[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

#[test]
fn lists_within_lists_hide_no_arrow() {
    let code = "use crate::arrows::{model::{Bdf, Fact}, world};\nuse crate::arrows::topo;";
    let names: Vec<String> = names_after(code, "crate::arrows::").into_iter().collect();
    assert_eq!(names, ["model", "topo", "world"]);
}

#[test]
fn arrows_run_one_way() {
    let may_know: BTreeMap<&str, &[&str]> = MAY_KNOW.into_iter().collect();
    let mut arrows = 0;
    for (room, path, text) in sources().iter().filter(|(room, ..)| room != "lib") {
        let allowed = may_know.get(room.as_str()).unwrap_or_else(|| {
            panic!(
                "{}: room '{room}' is not in the list of this test",
                path.display()
            )
        });
        let code = code(text);
        let named = names_after(&code, "crate::arrows::")
            .into_iter()
            .chain(names_after(&code, "gdr::"));
        for name in named.filter(|name| name != room && !name.is_empty()) {
            assert!(
                allowed.contains(&name.as_str()),
                "{}: {room} may not know {name}",
                path.display()
            );
            arrows += 1;
        }
    }
    assert!(
        arrows > 40,
        "only {arrows} arrows were seen: this test no longer reads the sources"
    );
}

#[test]
fn nothing_points_back() {
    for (room, knows) in MAY_KNOW {
        for other in knows {
            let back = MAY_KNOW
                .iter()
                .find(|(name, _)| name == other)
                .expect("a room")
                .1;
            assert!(!back.contains(&room), "{room} and {other} know each other");
        }
    }
}

#[test]
fn crates_are_known_where_they_belong() {
    for (room, path, text) in sources() {
        let code = code(&text);
        for (krate, rooms) in MAY_KNOW_CRATES {
            let used = code.contains(&format!("use {krate}::"))
                || !names_after(&code, &format!("{krate}::")).is_empty();
            assert!(
                !used || rooms.contains(&room.as_str()),
                "{}: {room} may not know crate {krate}",
                path.display()
            );
        }
    }
}

#[test]
fn crate_gpu_is_used_where_it_belongs() {
    for (room, path, text) in sources() {
        let used = code(&text).contains("use gpu::");
        let may = ["probe", "world"].contains(&room.as_str());
        assert!(
            !used || may,
            "{}: {room} may not know crate gpu",
            path.display()
        );
    }
}

/// What a person sees passes the filter of `output`. The exceptions write lines to a parent process, or look at the terminal.
#[test]
fn only_output_writes_to_the_terminal() {
    let may = ["src/cli/style.rs", "src/main.rs"];
    let mut seen = 0;
    for (module, path, text) in sources() {
        let tested = path.components().any(|part| part.as_os_str() == "tests");
        if tested || may.iter().any(|file| path.ends_with(file)) {
            continue;
        }
        let code = code(&text);
        for writer in [
            "stdout()",
            "stderr()",
            "println!",
            "eprint",
            "indicatif",
            "/dev/tty",
        ] {
            let used = code
                .match_indices(writer)
                .any(|(at, _)| !code[..at].ends_with("output::"));
            assert!(
                !used || module == "output",
                "{}: {writer} belongs to module output",
                path.display()
            );
            seen += usize::from(used);
        }
    }
    assert!(seen > 2, "this test no longer sees how output writes");
}

#[test]
fn files_are_small_rooms() {
    for (_, path, text) in sources() {
        let lines = text.lines().count();
        assert!(
            lines <= 600,
            "{}: {lines} lines; it wants to be several rooms",
            path.display()
        );
        assert!(
            text.starts_with("//!") || text.starts_with("#![forbid(unsafe_code)]\n//!"),
            "{}: a module opens with a sentence that says what it owns",
            path.display()
        );
    }
}
