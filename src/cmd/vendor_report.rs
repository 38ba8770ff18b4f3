//! `gdr snapshot --with-reports`: one archive for a vendor, masked: the snapshot, what gdr says of it, counters and the kernel log.

use std::io::Write;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tar::{Builder, Header};

use super::machine::Machine;
use crate::cli::{self, Command as GdrCommand};
use crate::model::{Fact, LibraryAnswer, Snapshot, ToolOutput, Why};
use crate::world::World;

/// Name of the kernel log among the tools of a snapshot, while it is masked.
const KERNEL_LOG: &str = "kernel log";
/// Words of the lines of the kernel log that concern GPUs, NICs, PCI Express and IOMMUs, in small letters.
const WORDS: [&str; 14] = [
    "nvrm",
    "nvidia",
    "nvlink",
    "xid",
    "mlx5",
    "infiniband",
    "irdma",
    "bnxt",
    "efa ",
    "aer:",
    "pcieport",
    "iommu",
    "dmar",
    "amd-vi",
];
/// The last lines that are kept, and how long each may be.
const MAX_LINES: usize = 5_000;
const MAX_LINE: usize = 1_024;

/// The lines of the machine's kernel log that concern it. In a snapshot they are masked together with everything else.
pub fn kernel_log(world: &World) -> LibraryAnswer<ToolOutput> {
    let failed = |why, message: &str| LibraryAnswer::Failed { why, message: message.to_owned() };
    match world.tools.output(world.files.as_ref(), "dmesg", &[], &str::to_owned) {
        Ok(Fact::Known(Some(log))) if log.code == Some(0) => {
            LibraryAnswer::Answered(ToolOutput { text: concerning(&log.text), ..log })
        }
        Ok(Fact::Known(Some(_))) => failed(Why::Denied, "dmesg may not read it: run gdr as root"),
        Ok(Fact::Known(None)) => failed(Why::NotCovered, "dmesg is not installed"),
        Ok(Fact::Unknown(why)) => failed(why, "it was not recorded"),
        Err((why, message)) => LibraryAnswer::Failed { why, message },
    }
}

fn concerning(log: &str) -> String {
    let lines = log.lines().filter(|line| {
        let line = line.to_ascii_lowercase();
        WORDS.iter().any(|word| line.contains(word))
    });
    let mut lines: Vec<&str> =
        lines.map(|line| &line[..line.floor_char_boundary(MAX_LINE)]).collect();
    let kept = lines.split_off(lines.len().saturating_sub(MAX_LINES));
    kept.iter().map(|line| format!("{line}\n")).collect()
}

/// Adds the kernel log to what is masked.
pub fn add_kernel_log(snapshot: &mut Snapshot, log: LibraryAnswer<ToolOutput>) {
    snapshot.tools.insert(KERNEL_LOG.to_owned(), log);
}

/// The archive of a masked snapshot; `text` is its document.
pub fn archive(mut snapshot: Snapshot, err: &mut dyn Write) -> anyhow::Result<Vec<u8>> {
    if !snapshot.masked {
        bail!("only a masked snapshot goes to a vendor");
    }
    let log = snapshot.tools.remove(KERNEL_LOG);
    let taken = snapshot.taken.clone();
    let text = super::document::text(&snapshot)?;
    let mut replayed = snapshot;
    replayed.host = replayed.host.replayed("snapshot.json", &taken);
    let machine = Machine::World(World::snapshot(replayed));
    let mut run = |arguments: &[&str]| said(&machine, arguments, err);
    let json = run(&["doctor", "--profile", "all", "--format", "json"])?;
    let doctor: Value = serde_json::from_slice(&json).context("cannot read doctor's report")?;
    let mut files = vec![
        ("snapshot.json", "the machine: gdr --from snapshot.json repeats everything here", text),
        (
            "doctor.txt",
            "what gdr doctor says, for people",
            run(&["doctor", "--profile", "all", "--verbose"])?,
        ),
        ("doctor.json", "the same for programs", json),
        ("topo.txt", "how GPUs and NICs are connected", run(&["topo"])?),
        ("topo.json", "the same for programs", run(&["topo", "--format", "json"])?),
        ("counters.txt", "counters of errors that are not zero", counters(&doctor).into_bytes()),
    ];
    let missing = match log {
        Some(LibraryAnswer::Answered(log)) => {
            files.push((
                "kernel-log.txt",
                "lines of the kernel log about GPUs, NICs, PCI Express and IOMMUs",
                log.text.into_bytes(),
            ));
            String::new()
        }
        Some(LibraryAnswer::Failed { message, .. }) => {
            format!("\nMissing: the kernel log: {message}.\n")
        }
        None => String::new(),
    };
    let listed = files.iter().map(|(name, what, _)| format!("{name:<16} {what}\n"));
    let readme = format!(
        "A machine as gdr {} read it at {taken}.\n\n{}{missing}\nSerial numbers, UUIDs, GUIDs, MAC and IP addresses, host and user names are \
         replaced, each by the same text everywhere.\nPCI addresses, versions, sizes and counters are as they were.\n",
        env!("CARGO_PKG_VERSION"),
        listed.collect::<String>()
    );
    files.insert(0, ("README.txt", "", readme.into_bytes()));
    let seconds = humantime::parse_rfc3339(&taken).ok();
    let seconds = seconds
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .map_or(0, |passed| passed.as_secs());
    pack(&files, seconds)
}

/// What a command prints about the machine.
fn said(machine: &Machine, arguments: &[&str], err: &mut dyn Write) -> anyhow::Result<Vec<u8>> {
    let line = ["gdr", "--color", "never"].iter().chain(arguments).map(Into::into);
    let cli = cli::parse(line).context("a command of gdr")?;
    let mut out = Vec::new();
    match &cli.command {
        GdrCommand::Doctor(options) => {
            super::doctor::run(machine, &cli.global, options, &mut out, err)?
        }
        GdrCommand::Topo(options) => {
            super::topo::run(machine, &cli.global, options, &mut out, err)?
        }
        _ => bail!("no report of a machine: {arguments:?}"),
    };
    Ok(out)
}

fn counters(doctor: &Value) -> String {
    let all = doctor["readings"]["counters"].as_object().into_iter().flatten();
    let lines = all.flat_map(|(of, counters)| {
        let counters = counters.as_object().into_iter().flatten();
        counters.map(move |(name, count)| format!("{of} {name} {count}\n"))
    });
    let lines: String = lines.collect();
    if lines.is_empty() { "none\n".to_owned() } else { lines }
}

fn pack(files: &[(&str, &str, Vec<u8>)], seconds: u64) -> anyhow::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    for (name, _, content) in files {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(seconds);
        archive.append_data(&mut header, format!("gdr-report/{name}"), content.as_slice())?;
    }
    Ok(archive.into_inner()?)
}
