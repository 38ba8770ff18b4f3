//! The documents hold: local links lead to files, examples print what they show, and the README stays short.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    fn walk(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                walk(&path, found);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(root(), &mut found);
    found
}

#[test]
fn local_links_exist() {
    let mut links = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        let prose: String = text.split("```").step_by(2).collect();
        for part in prose.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains(':') {
                continue;
            }
            let at = document.with_file_name("").join(target);
            assert!(at.exists(), "{}: no {target}", document.display());
            links += 1;
        }
    }
    assert!(links > 50, "only {links} links: this test no longer reads the documents");
}

/// `cargo xtask` compiles for minutes: cargo shows what it does.
#[test]
fn cargo_xtask_is_not_silent() {
    let config = fs::read_to_string(root().join(".cargo/config.toml")).expect("a configuration");
    let alias = config.lines().find(|line| line.starts_with("xtask = ")).expect("the alias");
    assert!(!alias.contains("quiet") && !alias.contains(" -q"), "{alias}");
}

#[test]
fn readme_is_short() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    assert!(text.lines().count() <= 150, "README.md: {} lines", text.lines().count());
}

/// Each command of README.md is one that gdr accepts: with --help it ends after it has parsed what stands before.
#[test]
fn commands_of_the_readme_are_accepted() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    let blocks = text.split("```").skip(1).step_by(2).flat_map(str::lines);
    let outside: String = text.split("```").step_by(2).collect();
    let spans = outside.split('`').skip(1).step_by(2);
    let mut commands = 0;
    for line in blocks.chain(spans) {
        let line = line.trim_start_matches("$ ").split(" #").next().unwrap_or_default();
        let Some(at) = line.split_whitespace().position(|word| word == "gdr") else {
            continue;
        };
        let words: Vec<&str> = line.split_whitespace().skip(at + 1).collect();
        // A line of output, or a name in a sentence.
        if at > 2 || words.is_empty() || words[0].ends_with(':') {
            continue;
        }
        let run = Command::new(env!("CARGO_BIN_EXE_gdr"))
            .args(&words)
            .arg("--help")
            .output()
            .expect("gdr");
        assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
        commands += 1;
    }
    assert!(commands > 12, "{commands} commands");
}

/// What a command prints, from the repository's root.
fn output(line: &str) -> String {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        match at % 2 {
            0 => words.extend(part.split_whitespace()),
            _ => words.push(part),
        }
    }
    assert_eq!(words[0], "gdr", "{line}");
    let output = Command::new(env!("CARGO_BIN_EXE_gdr"))
        .args(&words[1..])
        .current_dir(root())
        .env_remove("COLUMNS")
        .env_remove("XDG_CONFIG_HOME")
        .output()
        .expect("gdr");
    String::from_utf8(output.stdout).expect("text")
}

/// A block "```console" begins with `$ gdr …` and shows what that prints. A last line `…` stands for the rest.
/// GDR_BLESS=1 writes what is printed now, as many lines as the block had.
#[test]
fn examples_match_output() {
    const START: &str = "```console\n$ ";
    let mut examples = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).expect("a document");
        let mut blocks = text.split(START);
        let mut written = blocks.next().unwrap_or_default().to_owned();
        for block in blocks {
            let (example, rest) = block.split_once("\n```").expect("the end of a block");
            let (line, shown) = example.split_once('\n').unwrap_or((example, ""));
            let printed = output(line);
            let printed = match shown.strip_suffix("\n…") {
                Some(start) => {
                    let lines: Vec<&str> = printed.lines().take(start.lines().count()).collect();
                    format!("{}\n…", lines.join("\n"))
                }
                None => printed.trim_end().to_owned(),
            };
            if std::env::var_os("GDR_BLESS").is_none() {
                assert_eq!(printed, shown, "{}: {line}", document.display());
            }
            written.push_str(&format!("{START}{line}\n{printed}\n```{rest}"));
            examples += 1;
        }
        if written != text {
            fs::write(&document, written).expect("a document");
        }
    }
    assert!(examples > 5, "only {examples} examples: this test no longer reads the documents");
}
