//! Runs cargo and finds what it built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// `cargo build`, or another command of cargo that takes its options.
pub fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Without --quiet, because a build takes minutes and says which crate it is at.
    cargo.args([command, "--message-format", "json-render-diagnostics"]);
    cargo
}

/// Runs a command of [`cargo`]; returns the files of what it built.
pub fn run(command: &mut Command) -> anyhow::Result<Vec<PathBuf>> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.context("cannot run cargo")?;
    if !output.status.success() {
        let arguments = command.get_args().map(|argument| argument.display().to_string());
        let words: Vec<String> = arguments.collect();
        bail!("cargo {}: {}", words.join(" "), output.status);
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let files = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("filenames")?.as_array().cloned())
        .flatten()
        .filter_map(|file| file.as_str().map(PathBuf::from));
    Ok(files.collect())
}

pub fn find<'f>(files: &'f [PathBuf], name: &str) -> anyhow::Result<&'f Path> {
    let mut files = files.iter();
    let file = files.find(|path| path.file_name().is_some_and(|found| found == name));
    file.map(PathBuf::as_path).with_context(|| format!("cargo built no {name}"))
}
