//! Enforces the dependencies of DESIGN.md between the modules of `src/`, and where crates and
//! printing are used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each module of `src/` and the modules that it may use. A module that is missing here is an error.
const MAY_USE: [(&str, &[&str]); 23] = [
    ("keeper", &[]),
    ("code", &[]),
    ("model", &[]),
    ("input", &[]),
    ("output", &[]),
    ("kmod", &["input", "model"]),
    ("pci", &["model"]),
    ("profile", &["input", "model"]),
    ("world", &["input", "keeper", "model", "output"]),
    ("snapshot", &["kmod", "model", "pci"]),
    ("collect", &["input", "kmod", "model", "pci", "world"]),
    ("import", &["input", "model", "pci"]),
    ("topo", &["model"]),
    ("fleet", &["input", "model"]),
    ("check", &["input", "kmod", "model", "output", "profile", "topo"]),
    ("explain", &["check", "code", "model"]),
    ("job", &["code", "model"]),
    ("fix", &["check", "kmod", "model", "pci", "topo", "world"]),
    ("probe", &["input", "job", "keeper", "model", "output", "topo"]),
    ("render", &["model", "output", "topo"]),
    ("cli", &["model", "output", "probe", "profile", "render"]),
    (
        "cmd",
        &[
            "check", "cli", "collect", "explain", "fix", "fleet", "import", "input", "job",
            "model", "output", "pci", "probe", "profile", "render", "snapshot", "topo", "world",
        ],
    ),
    ("main", &["cli", "cmd", "keeper", "output", "probe", "world"]),
];

/// The modules that may use certain crates. Crate `gpu` is tested by its module `nvml`, and by
/// `use` below: `check` has a family of that name.
const MAY_USE_CRATES: [(&str, &[&str]); 5] = [
    ("gpu::nvml", &["world"]),
    ("gdrcopy", &["probe", "world"]),
    // With its colons: `model` has a module of that name.
    ("::verbs", &["world"]),
    ("anyhow", &["cmd", "main"]),
    ("clap", &["cli", "main", "probe"]),
];

/// The files with Rust code below a directory.
fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

pub fn sources() -> Vec<(String, PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    rust_files(&root)
        .into_iter()
        .map(|path| {
            let inner = path.strip_prefix(&root).expect("below src");
            let module = inner.iter().next().expect("a name").to_string_lossy();
            let text = fs::read_to_string(&path).expect("a source file");
            (module.trim_end_matches(".rs").to_owned(), path, text)
        })
        .collect()
}

/// The code of a file without its comments: a module that a comment names is not a dependency.
pub fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
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
            let name: String =
                part.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
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
fn reads_nested_use_lists() {
    let code = "use crate::{model::{Bdf, Fact}, world};\nuse crate::topo;";
    let names: Vec<String> = names_after(code, "crate::").into_iter().collect();
    assert_eq!(names, ["model", "topo", "world"]);
}

#[test]
fn module_uses_match_design() {
    let may_use: BTreeMap<&str, &[&str]> = MAY_USE.into_iter().collect();
    let mut dependencies = 0;
    for (module, path, text) in sources().iter().filter(|(module, ..)| module != "lib") {
        let allowed = may_use.get(module.as_str()).unwrap_or_else(|| {
            panic!("{}: module '{module}' is not in the list of this test", path.display())
        });
        let code = code(text);
        let named = names_after(&code, "crate::").into_iter().chain(names_after(&code, "gdr::"));
        for name in named.filter(|name| name != module && !name.is_empty()) {
            assert!(
                allowed.contains(&name.as_str()),
                "{}: {module} may not use {name}",
                path.display()
            );
            dependencies += 1;
        }
    }
    assert!(
        dependencies > 40,
        "only {dependencies} dependencies found: this test does not read the sources any more"
    );
}

#[test]
fn modules_have_no_mutual_use() {
    for (module, uses) in MAY_USE {
        for other in uses {
            let back = MAY_USE.iter().find(|(name, _)| name == other).expect("a module").1;
            assert!(!back.contains(&module), "{module} and {other} use each other");
        }
    }
}

#[test]
fn crate_users_match_design() {
    for (module, path, text) in sources() {
        let code = code(&text);
        for (krate, modules) in MAY_USE_CRATES {
            let used = code.contains(&format!("use {krate}::"))
                || !names_after(&code, &format!("{krate}::")).is_empty();
            assert!(
                !used || modules.contains(&module.as_str()),
                "{}: {module} may not use crate {krate}",
                path.display()
            );
        }
    }
}

#[test]
fn gpu_crate_users_match_design() {
    for (module, path, text) in sources() {
        let used = code(&text).contains("use gpu::");
        let may = ["probe", "world"].contains(&module.as_str());
        assert!(!used || may, "{}: {module} may not use crate gpu", path.display());
    }
}

/// Everything a user sees passes the filter of `output`. The exceptions write to a parent process, or
/// test for a terminal.
#[test]
fn only_output_writes_to_terminal() {
    let may = ["src/cli/style.rs", "src/main.rs"];
    let mut seen = 0;
    for (module, path, text) in sources() {
        let tested = path.components().any(|part| part.as_os_str() == "tests");
        if tested || may.iter().any(|file| path.ends_with(file)) {
            continue;
        }
        let code = code(&text);
        for writer in ["stdout()", "stderr()", "println!", "eprint", "/dev/tty"] {
            let used = code.match_indices(writer).any(|(at, _)| !code[..at].ends_with("output::"));
            assert!(
                !used || module == "output",
                "{}: {writer} belongs to module output",
                path.display()
            );
            seen += usize::from(used);
        }
    }
    assert!(seen > 2, "this test does not find how output writes any more");
}

#[test]
fn files_have_at_most_600_lines() {
    for (_, path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= 600, "{}: {lines} lines: split the file", path.display());
        assert!(
            text.starts_with("//!") || text.starts_with("#![forbid(unsafe_code)]\n//!"),
            "{}: the file must begin with a doc comment",
            path.display()
        );
    }
}

/// A table of one arm for each kernel, which rustfmt writes with one line for each parameter.
const LONG_FUNCTIONS: [&str; 1] = ["sim_kernel"];

#[test]
fn functions_have_at_most_80_lines() {
    let fakes_and_tests = ["/tests", "/testing/", "/examples/", "/crates/fake", "/sample.rs"];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = rust_files(&root.join("src"));
    paths.extend(rust_files(&root.join("crates")));
    for path in paths {
        let inner = path.strip_prefix(root).expect("below the root");
        let name = format!("/{}", inner.display());
        if fakes_and_tests.iter().any(|part| name.contains(part)) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        for (function, lines) in functions(&text) {
            assert!(
                lines <= 80 || LONG_FUNCTIONS.contains(&function),
                "{name}: fn {function}: {lines} lines: split the function"
            );
        }
    }
}

/// The functions of a formatted file, and their numbers of lines.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, after)) = line.split_once("fn ") else {
            continue;
        };
        let is_item = before
            .split_whitespace()
            .all(|word| word.starts_with("pub") || QUALIFIERS.contains(&word));
        let body = &lines[at..];
        let head = body.iter().position(|line| line.ends_with(['{', ';', '}']));
        if !is_item || !head.is_some_and(|head| body[head].ends_with('{')) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let length = body.iter().position(|line| **line == end);
        let name = after.split(['(', '<']).next().unwrap_or_default();
        found.extend(length.map(|length| (name, length + 1)));
    }
    found
}

const QUALIFIERS: [&str; 5] = ["const", "unsafe", "async", "extern", "\"C\""];

#[test]
fn measures_functions() {
    let text = "trait A {\n    fn a(\n        b: u8,\n    );\n}\npub(crate) fn long<T>(\n    c: T,\n) {\n    if d {\n    }\n}\n";
    assert_eq!(functions(text), [("long", 6)]);
}

/// The module of a file of `src/`, as the names of its path.
fn module_of(path: &Path) -> Vec<String> {
    let inner =
        path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("below src");
    let mut names: Vec<String> =
        inner.with_extension("").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    names.pop_if(|name| matches!(name.as_str(), "mod" | "lib" | "main"));
    names
}

/// The paths that begin here, each as its names: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn expand(text: &str) -> Vec<Vec<String>> {
    if let Some(inner) = text.strip_prefix('{') {
        let parts = outermost(inner);
        return parts.into_iter().flat_map(|part| expand(part.trim())).collect();
    }
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    if name.is_empty() {
        return Vec::new();
    }
    let deeper = text[name.len()..].strip_prefix("::").map(expand);
    match deeper.filter(|paths| !paths.is_empty()) {
        None => vec![vec![name]],
        Some(paths) => paths.into_iter().map(|path| [vec![name.clone()], path].concat()).collect(),
    }
}

/// The modules that a module's code names by `crate::`, `self::` and `super::`.
fn used_modules(
    module: &[String],
    code: &str,
    modules: &BTreeSet<Vec<String>>,
) -> BTreeSet<Vec<String>> {
    let mut used = BTreeSet::new();
    for prefix in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut rest = &code[at..];
            let mut base = module.to_vec();
            if let Some(path) = rest.strip_prefix("crate::") {
                (rest, base) = (path, Vec::new());
            }
            rest = rest.strip_prefix("self::").unwrap_or(rest);
            while let Some(path) = rest.strip_prefix("super::") {
                rest = path;
                base.pop();
            }
            for path in expand(rest) {
                let mut path = [base.clone(), path].concat();
                while !modules.contains(&path) && path.pop().is_some() {}
                used.insert(path);
            }
        }
    }
    used
}

#[test]
fn finds_used_modules() {
    let path = |text: &str| -> Vec<String> { text.split("::").map(str::to_owned).collect() };
    let modules = ["a", "a::b", "a::c", "a::c::d", "e"].map(path).into();
    let code = "use super::{b, c::{d::X, Y}}; crate::e::f(); super::super::e::g()";
    let used = used_modules(&path("a::z"), code, &modules);
    assert_eq!(used, ["a::b", "a::c", "a::c::d", "e"].map(path).into());
}

/// Modules side by side depend on each other in one direction. Their parent may use them, and they their parent.
#[test]
fn sibling_modules_have_no_cycle() {
    let files: Vec<(Vec<String>, String)> = sources()
        .into_iter()
        .map(|(_, path, text)| (module_of(&path), code(&text)))
        .filter(|(module, _)| !module.iter().any(|name| name == "tests" || name == "testing"))
        .collect();
    let modules: BTreeSet<_> = files.iter().map(|(module, _)| module.clone()).collect();
    let mut uses: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    for (module, text) in &files {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for used in used_modules(module, text, &modules) {
            let common = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if common < module.len() && common < used.len() {
                let sibling = |path: &[String]| path[..=common].to_vec();
                uses.entry(sibling(module)).or_default().insert(sibling(&used));
            }
        }
    }
    assert!(uses.len() > 100, "modules use each other");
    // What no module uses any more, or uses none, is on no cycle.
    loop {
        let users: BTreeSet<_> = uses.keys().cloned().collect();
        let before = uses.values().map(BTreeSet::len).sum::<usize>();
        for used in uses.values_mut() {
            used.retain(|module| users.contains(module));
        }
        uses.retain(|_, used| !used.is_empty());
        if uses.values().map(BTreeSet::len).sum::<usize>() == before {
            break;
        }
    }
    assert!(uses.is_empty(), "cycles: {uses:#?}");
}
