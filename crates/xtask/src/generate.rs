//! Generated files that are committed: completions, man pages, JSON schemas, lists of checks and symptoms, pictures. A test fails if one is stale.
//! The lists in the code that name each check are written by hand or by this ([`families`]).

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use clap::CommandFactory as _;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use gdr::check;

use crate::{documents, families, pictures};

/// All generated files: path below the repository root, and content.
pub fn files() -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for (shell, name) in
        [(Shell::Bash, "gdr.bash"), (Shell::Zsh, "_gdr"), (Shell::Fish, "gdr.fish")]
    {
        let mut bytes = Vec::new();
        clap_complete::generate(
            shell,
            &mut with_names(gdr::cli::Cli::command()),
            "gdr",
            &mut bytes,
        );
        files.push((Path::new("completions").join(name), bytes));
    }
    let mut command = gdr::cli::Cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, "", &mut files)?;
    for (name, schema) in [
        (
            "gdr.topo.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::render::json::Document>),
        ),
        (
            "gdr.doctor.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::render::doctor::Report<'_>>),
        ),
        ("gdr.path.1.json", schemars::schema_for!(gdr::output::Document<gdr::model::Path>)),
        (
            "gdr.nccl.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::model::NcclDecisions>),
        ),
        ("gdr.probe.1.json", schemars::schema_for!(gdr::output::Document<gdr::model::ProbeReport>)),
        ("gdr.snapshot.1.json", schemars::schema_for!(gdr::model::Snapshot)),
        (
            "gdr.explain.1.json",
            schemars::schema_for!(gdr::output::Document<gdr::model::ExplainReport>),
        ),
        ("gdr.diff.1.json", schemars::schema_for!(gdr::output::Document<gdr::model::DiffReport>)),
        ("gdr.fleet.1.json", schemars::schema_for!(gdr::output::Document<gdr::model::FleetReport>)),
        ("gdr.record.1.json", schemars::schema_for!(gdr::output::Document<gdr::model::Record>)),
        ("gdr.history.1.json", schemars::schema_for!(gdr::output::Document<gdr::model::History>)),
        ("gdr.plan.1.json", schemars::schema_for!(gdr::output::Document<gdr::model::Plan>)),
        ("gdr.journal.1.json", schemars::schema_for!(gdr::model::Journal)),
    ] {
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        files.push((Path::new("docs/schema").join(name), text.into_bytes()));
    }
    for (name, text) in [
        ("checks.md", documents::checks()),
        ("gpu-initiated.md", documents::stacks()),
        ("symptoms.md", documents::symptoms()?),
        ("texts.md", documents::texts()),
    ] {
        files.push((Path::new("docs").join(name), text.into_bytes()));
    }
    files.extend(pictures::files()?);
    files.push((PathBuf::from("src/pci/pci.ids.zlib"), pci_ids()?));
    let literals = gdr::explain::literals_to_generate(&gdr::explain::shipped()?);
    let literals = literals.context("a pattern of profiles/symptoms.toml has no literals")?;
    files.push((PathBuf::from("src/explain/literals.txt"), literals.into_bytes()));
    Ok(files)
}

/// The list of the crate pci-ids without subsystems, in the format of `pci.ids`, compressed.
fn pci_ids() -> anyhow::Result<Vec<u8>> {
    let mut lines: Vec<String> = pci_ids::Vendors::iter()
        .map(|vendor| {
            let mut devices: Vec<_> = vendor.devices().collect();
            devices.sort_by_key(|device| device.id());
            let devices =
                devices.iter().map(|device| format!("\t{:04x}  {}\n", device.id(), device.name()));
            format!("{:04x}  {}\n{}", vendor.id(), vendor.name(), devices.collect::<String>())
        })
        .collect();
    let classes = pci_ids::Classes::iter().map(|class| {
        let subclasses =
            class.subclasses().map(|sub| format!("\t{:02x}  {}\n", sub.id(), sub.name()));
        format!("C {:02x}  {}\n{}", class.id(), class.name(), subclasses.collect::<String>())
    });
    lines.extend(classes);
    lines.sort();
    let text = lines.concat();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    Ok(encoder.finish()?)
}

/// The man pages of a command and its subcommands: gdr.1, gdr-topo.1.
fn pages(
    command: &clap::Command,
    words: &str,
    files: &mut Vec<(PathBuf, Vec<u8>)>,
) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    // clap requires a static name; the leak is small and the process short.
    let title: &'static str = Box::leak(name.clone().into_boxed_str());
    let mut bytes = Vec::new();
    // A date would make the page stale every day.
    let man = clap_mangen::Man::new(command.clone().name(title)).date("");
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    man.render_synopsis_section(&mut bytes)?;
    man.render_description_section(&mut bytes)?;
    man.render_options_section(&mut bytes)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut bytes)?;
    }
    let words = words.trim_start();
    let sections = gdr::cli::sections(words)
        .with_context(|| format!("src/cli/help.rs has no sections for '{words}'"))?;
    bytes.extend(roff(&sections).into_bytes());
    if command.get_version().is_some() {
        man.render_version_section(&mut bytes)?;
    }
    files.push((Path::new("docs/man").join(format!("{name}.1")), bytes));
    for subcommand in command.get_subcommands() {
        pages(subcommand, &format!("{words} {}", subcommand.get_name()), files)?;
    }
    Ok(())
}

/// The sections below the options, as roff.
fn roff(sections: &gdr::cli::Sections) -> String {
    let escaped = |text: &str| text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let mut page = String::new();
    for (heading, list) in sections.lists().iter().filter(|(_, list)| !list.is_empty()) {
        page.push_str(&format!(".SH {}\n", heading.to_uppercase()));
        for (name, meaning) in list {
            page.push_str(&format!(".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(meaning)));
        }
    }
    page + &format!(".SH SEE ALSO\n{}\n", escaped(sections.see_also))
}

/// Adds the names of checks, families, profiles and fixes as values, for shell completion. gdr itself accepts more: a profile may be a
/// file.
fn with_names(command: clap::Command) -> clap::Command {
    let families =
        check::all().filter_map(|check| check.id.split_once('.')).map(|(family, _)| family);
    let mut checks: Vec<&str> = check::all().map(|check| check.id).chain(families).collect();
    checks.sort_unstable();
    checks.dedup();
    let profiles: Vec<&str> = gdr::profile::SHIPPED.iter().map(|(name, _)| *name).collect();
    let fixes: Vec<&str> = gdr::fix::FIXES.iter().map(|fix| fix.id).collect();
    let named = |command: clap::Command, argument: &'static str, names: &[&'static str]| {
        let parser = PossibleValuesParser::new(names.iter().copied());
        command.mut_arg(argument, |argument| argument.value_parser(parser))
    };
    command
        .mut_subcommand("doctor", |doctor| {
            let doctor = named(named(doctor, "only", &checks), "skip", &checks);
            named(doctor, "profile", &profiles)
        })
        .mut_subcommand("explain", |explain| named(explain, "profile", &profiles))
        .mut_subcommand("fix", |fix| named(named(fix, "profile", &profiles), "ids", &fixes))
        .mut_subcommand("probe", |probe| {
            let probes: Vec<String> =
                probe.get_subcommands().map(|one| one.get_name().to_owned()).collect();
            probes.into_iter().fold(probe, |probe, one| {
                probe.mut_subcommand(one, |one| named(one, "profile", &profiles))
            })
        })
}

/// Enters new checks, and writes the files; with `check`, fails if one differs from the committed file.
pub fn run(check: bool) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let incomplete = families::incomplete(&root)?;
    if !incomplete.is_empty() && !check {
        return enter(&root, &incomplete);
    }
    let mut stale: Vec<String> =
        incomplete.iter().map(|(path, _)| path.display().to_string()).collect();
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
        bail!("stale: {}; run cargo xtask generate and commit what it writes", stale.join(", "));
    }
    Ok(())
}

/// Writes the lists of checks and begins again: the other files are made by a gdr that is compiled with the new checks.
fn enter(root: &Path, lists: &[(PathBuf, String)]) -> anyhow::Result<()> {
    for (path, text) in lists {
        fs::write(root.join(path), text)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    for arguments in [&["fmt", "--package", "gdr"][..], &["xtask", "generate"]] {
        let status = Command::new(&cargo).args(arguments).current_dir(root).status();
        let status = status.with_context(|| format!("cannot start cargo {}", arguments[0]))?;
        if !status.success() {
            bail!("cargo {} failed: {status}", arguments.join(" "));
        }
    }
    Ok(())
}
