//! Files that are generated and committed: completions, man pages, JSON schemas, lists of checks and symptoms. A test fails
//! where one is stale.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::documents;

/// Every generated file: its path below the repository's root, and its bytes.
pub fn files() -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for (shell, name) in [
        (Shell::Bash, "gdr.bash"),
        (Shell::Zsh, "_gdr"),
        (Shell::Fish, "gdr.fish"),
    ] {
        let mut bytes = Vec::new();
        clap_complete::generate(shell, &mut gdr::cli::Cli::command(), "gdr", &mut bytes);
        files.push((Path::new("completions").join(name), bytes));
    }
    let mut command = gdr::cli::Cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, &mut files)?;
    for (name, schema) in [
        (
            "gdr.topo.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::render::json::Document>),
        ),
        (
            "gdr.doctor.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::render::doctor::Report<'_>>),
        ),
        (
            "gdr.path.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::model::Path>),
        ),
        (
            "gdr.probe.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::model::ProbeReport>),
        ),
        (
            "gdr.snapshot.1.json",
            schemars::schema_for!(gdr::model::Snapshot),
        ),
        (
            "gdr.explain.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::model::ExplainReport>),
        ),
        (
            "gdr.diff.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::model::DiffReport>),
        ),
        (
            "gdr.plan.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::model::Plan>),
        ),
        (
            "gdr.journal.1.json",
            schemars::schema_for!(gdr::model::Journal),
        ),
    ] {
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        files.push((Path::new("docs/schema").join(name), text.into_bytes()));
    }
    files.push((
        PathBuf::from("docs/checks.md"),
        documents::checks().into_bytes(),
    ));
    files.push((
        PathBuf::from("docs/symptoms.md"),
        documents::symptoms()?.into_bytes(),
    ));
    Ok(files)
}

/// The page of a command and those of its subcommands: gdr.1, gdr-topo.1.
fn pages(command: &clap::Command, files: &mut Vec<(PathBuf, Vec<u8>)>) -> anyhow::Result<()> {
    let name = command
        .get_display_name()
        .unwrap_or(command.get_name())
        .to_owned();
    // clap takes names that live as long as the program, which here is a moment.
    let title: &'static str = Box::leak(name.clone().into_boxed_str());
    let mut bytes = Vec::new();
    // A date would make the page stale every day.
    clap_mangen::Man::new(command.clone().name(title))
        .date("")
        .render(&mut bytes)?;
    files.push((Path::new("docs/man").join(format!("{name}.1")), bytes));
    for subcommand in command.get_subcommands() {
        pages(subcommand, files)?;
    }
    Ok(())
}

/// Writes them; with `check`, fails where one differs from what is committed.
pub fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut stale = Vec::new();
    for (path, bytes) in files()? {
        let at = root.join(&path);
        if fs::read(&at).is_ok_and(|there| there == bytes) {
            continue;
        }
        if check {
            stale.push(path.display().to_string());
            continue;
        }
        if let Some(directory) = at.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        fs::write(&at, bytes).with_context(|| format!("cannot write {}", at.display()))?;
    }
    if !stale.is_empty() {
        bail!(
            "stale: {}; run cargo xtask generate and commit what it writes",
            stale.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_committed_is_what_is_generated() {
        super::run(true).expect("fresh files");
    }
}
