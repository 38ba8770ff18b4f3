//! Words that `docs/glossary.md` retired do not come back: in code, in documents, in what gdr prints.

use std::fs;
use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use regex::Regex;

/// Identifiers that the glossary replaced, as whole words, in any file.
const IDENTIFIERS: [&str; 48] = [
    "CardTrial",
    "Duty",
    "Lending",
    "Lent",
    "Misfortune",
    "NoRoad",
    "NvmlWant",
    "PATIENCE",
    "Patience",
    "RdmaRoad",
    "Road",
    "RoadError",
    "RoadTrial",
    "Roads",
    "Teller",
    "UnderWay",
    "VerbsRefusal",
    "VerbsWant",
    "Wish",
    "duties",
    "duties_of",
    "far-device",
    "far_device",
    "first_packet",
    "lending",
    "local_key",
    "mend_peermem",
    "misfortune",
    "patience",
    "remote_key",
    "road",
    "roads",
    "teller",
    "tellers",
    "under_way",
    "wishes",
    "MAY_KNOW",
    "may_know",
    "Refusal",
    "refusal.rs",
    "Doubles",
    "doubles.rs",
    "lent.rs",
    "road.rs",
    "roads.rs",
    "trouble.rs",
    "draft.rs",
    "lead.rs",
];

/// Sentences and phrases that neither a message nor a document may use.
const PHRASES: [&str; 13] = [
    "Half of what a round takes is told",
    " is none of ",
    "of what it sent is none",
    "How often it is looked at a queue",
    "lets a NIC at GPU memory",
    "does not lead to GPU memory",
    "What is so already is no step",
    "Nobody is left to tell",
    "was refused for and what mends it",
    "not cut into instances",
    "cannot tell: ",
    "not covered by this source",
    "The driver or the GPU hangs",
];

/// Lists and records of old output, which keep the old words.
const EXEMPT: [&str; 4] = ["docs/glossary.md", "docs/measured", "tests/gdr/words.rs", "tests/data"];

/// What a line says is not something, as in "is no path": "is not a path" is meant. "There is no path" may stay.
fn denials(text: &str) -> Vec<String> {
    let denial =
        Regex::new(r"(?i)(?P<before>[a-z]+)[\s/!*#]+(?:is|are|was|were) no (?P<what>[a-z{]\S*)");
    let of = |found: regex::Captures<'_>| {
        let may_stay = found["before"].eq_ignore_ascii_case("there") || &found["what"] == "longer";
        (!may_stay).then(|| found[0].to_owned())
    };
    denial.expect("a pattern").captures_iter(text).filter_map(of).collect()
}

#[test]
fn denials_are_plain() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(denials("a name is no path, and there\n    // is no error"), ["name is no path,"]);
    let mut paths =
        vec![root.join("DESIGN.md"), root.join("CONTRIBUTING.md"), root.join("README.md")];
    for part in [
        "benches",
        "crates",
        "docs",
        "integrations",
        "src",
        "tests/checks",
        "tests/gdr",
        "tests/support",
    ] {
        files(&root.join(part), &mut paths);
    }
    let mut found = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root).expect("below the root").display().to_string();
        if EXEMPT.iter().any(|exempt| name.starts_with(exempt)) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        found.extend(denials(&text).into_iter().map(|words| format!("{name}: {words}")));
    }
    assert!(found.is_empty(), "write 'is not a':\n{}", found.join("\n"));
}

/// One word for a limit.
#[test]
fn limits_are_named_max() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for part in ["benches", "crates", "src", "tests/gdr", "tests/support"] {
        files(&root.join(part), &mut paths);
    }
    let prefix = format!("const {}_", "MOST");
    let has_prefix = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|t| t.contains(&prefix));
    paths.retain(has_prefix);
    assert!(paths.is_empty(), "write MAX_: {paths:?}");
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "corpus" && name != "artifacts" {
                files(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// True if `word` is in `line`, with no letter, digit or underscore beside it.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
    })
}

#[test]
fn repository_has_no_retired_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for part in ["benches", "completions", "crates", "docs", "fuzz", "profiles", "src", "tests"] {
        files(&root.join(part), &mut paths);
    }
    for name in ["README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"] {
        paths.push(root.join(name));
    }
    let (mut read, mut found) = (0, Vec::new());
    let retired = AhoCorasick::new(IDENTIFIERS.iter().chain(&PHRASES)).expect("words");
    for path in paths {
        let name = path.strip_prefix(root).expect("below the root").display().to_string();
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        if EXEMPT.iter().any(|exempt| name.starts_with(exempt)) {
            continue;
        }
        read += 1;
        if !retired.is_match(&text) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let words = IDENTIFIERS.iter().filter(|word| has_word(line, word));
            let phrases = PHRASES.iter().filter(|phrase| line.contains(*phrase));
            found.extend(words.chain(phrases).map(|old| format!("{name}:{}: {old}", number + 1)));
        }
    }
    assert!(read > 1000, "only {read} files were read");
    assert!(found.is_empty(), "retired words:\n{}", found.join("\n"));
}

#[test]
fn binary_has_no_retired_sentences() {
    let binary = fs::read(env!("CARGO_BIN_EXE_gdr")).expect("the binary");
    // Not by str::contains, which takes seconds over a debug build.
    let phrases = AhoCorasick::new(PHRASES).expect("phrases");
    let found = phrases.find(&binary).map(|found| &PHRASES[found.pattern().as_usize()]);
    assert!(found.is_none(), "in the binary: {found:?}");
    let readable = AhoCorasick::new(["dma-buf"]).expect("a word");
    assert!(readable.is_match(&binary), "the strings of the binary are not readable");
}
