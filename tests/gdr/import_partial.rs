//! A part of lspci's text gives no verdict that the whole does not give: what a text leaves out is unknown.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::checks::case::run;
use crate::support::{Machine, corpus, names};
use serde_json::Value;

fn lspci(root: &Path, options: &[&str]) -> String {
    let path = format!("sysfs.path={}", root.join("sys/bus/pci").display());
    let output =
        Command::new("lspci").args(["-O", &path]).args(options).output().expect("lspci runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The outcomes of each check, with a message of each.
type Outcomes = BTreeMap<String, BTreeMap<String, String>>;

fn outcomes(text: &str) -> Option<Outcomes> {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("a text");
    let mut args = vec![OsString::from("--from"), file.path().into()];
    args.extend(["doctor", "--profile", "all", "--format", "json"].map(OsString::from));
    let run = run(args);
    // A filter may leave nothing.
    let report: Value = serde_json::from_str(&run.stdout).ok()?;
    let mut found: Outcomes = Outcomes::new();
    for finding in report["findings"].as_array().expect("findings") {
        let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
        found.entry(text("id")).or_default().insert(text("outcome"), text("message"));
    }
    Some(found)
}

/// As an unprivileged user sees it.
fn denied(text: &str) -> String {
    let mut out = String::new();
    let mut is_skipped = false;
    for line in text.lines() {
        let is_capability = line.starts_with("\tCapabilities");
        if is_capability && !is_skipped {
            out.push_str("\tCapabilities: <access denied>\n");
        }
        is_skipped = is_capability || (is_skipped && line.starts_with("\t\t"));
        if !is_skipped {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// The functions whose first line is wanted.
fn blocks(text: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let wanted = text.split("\n\n").filter(|block| is_wanted(block));
    wanted.map(|block| format!("{}\n\n", block.trim_matches('\n'))).collect()
}

fn parts(root: &Path) -> Vec<(String, String)> {
    let whole = lspci(root, &["-vvv", "-nn"]);
    let mut parts = vec![
        ("access denied".to_owned(), denied(&whole)),
        ("no bridges".to_owned(), blocks(&whole, |block| !block.contains("PCI bridge"))),
        ("bridges".to_owned(), blocks(&whole, |block| block.contains("PCI bridge"))),
        ("no root ports".to_owned(), blocks(&whole, |block| !block.contains("Root Port"))),
        ("first half".to_owned(), whole[..whole.floor_char_boundary(whole.len() / 2)].to_owned()),
    ];
    let filters: [&[&str]; 5] =
        [&[], &["-d", "10de:"], &["-d", "15b3:"], &["-d", "::0604"], &["-t"]];
    for filter in filters {
        for detail in
            [&["-nn"][..], &["-v", "-nn"], &["-vv"], &["-vvv"], &["-v", "-xxx"], &["-xxxx"]]
        {
            let options = [filter, detail].concat();
            parts.push((options.join(" "), lspci(root, &options)));
        }
    }
    parts
}

/// What a part may not say: a verdict of which the whole has none, or an absence.
fn wrong<'a>(
    whole: &BTreeMap<String, String>,
    part: &'a BTreeMap<String, String>,
) -> Vec<(&'a String, &'a String)> {
    let is_verdict = |outcome: &str| ["fail", "warn", "pass", "skip"].contains(&outcome);
    part.iter().filter(|(name, _)| is_verdict(name) && !whole.contains_key(*name)).collect()
}

#[test]
#[ignore = "needs lspci"]
fn part_of_a_text_gives_no_other_verdict() {
    let mut machines: Vec<Machine> = names().iter().map(|name| Machine::load(name)).collect();
    machines.extend(corpus().iter().map(|path| Machine::from_corpus(path)));
    let mut failures = Vec::new();
    let mut compared = 0;
    for machine in machines.iter().filter(|machine| machine.name != "broken") {
        let dir = machine.laid_out();
        // Bytes of the whole decide what its lines leave open.
        let mut whole: Outcomes = Outcomes::new();
        for options in [&["-vvv", "-nn"][..], &["-vvv", "-nn", "-xxxx"]] {
            for (id, found) in outcomes(&lspci(dir.path(), options)).unwrap_or_default() {
                whole.entry(id).or_default().extend(found);
            }
        }
        // Many options give equal texts.
        let mut known = BTreeMap::new();
        for (what, text) in parts(dir.path()) {
            let found = known.entry(text).or_insert_with_key(|text| outcomes(text));
            for (id, part) in found.iter().flatten() {
                compared += 1;
                for (outcome, message) in wrong(&whole[id], part) {
                    failures.push(format!(
                        "{}: {what}: {id}: {outcome}: {message}, but {:?}",
                        machine.name, whole[id]
                    ));
                }
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
}
