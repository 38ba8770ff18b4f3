//! How long every command takes, and how much memory, for inputs of at most 8 MiB: every recorded machine scaled up, and
//! inputs with as much as fits. The bar is 5 seconds and 256 MiB.
//!
//! Run with `cargo bench --bench inputs`; it needs GNU time. GDR=FILE measures another build. Figures are kept in docs/measured.

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use support::crowded::{
    COMMANDS, COMPARISONS, Input, MAX_ROWS, compressed, dumps, gpus, lay_out_gpus, logs,
    long_answers, many_devices, profiles, scaled,
};
use support::{everywhere, recorded, scratch};

const MAX_SECONDS: f64 = 5.0;
const MAX_MIB: f64 = 256.0;

/// What one run took.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
    mib: f64,
}

/// The greatest costs seen, each with what it was seen at.
#[derive(Default)]
struct Worst {
    runs: usize,
    time: Option<(Cost, String)>,
    memory: Option<(Cost, String)>,
}

impl Worst {
    fn add(&mut self, cost: Cost, at: &str) {
        self.runs += 1;
        if self
            .time
            .as_ref()
            .is_none_or(|(worst, _)| cost.wall > worst.wall)
        {
            self.time = Some((cost, at.to_owned()));
        }
        if self
            .memory
            .as_ref()
            .is_none_or(|(worst, _)| cost.mib > worst.mib)
        {
            self.memory = Some((cost, at.to_owned()));
        }
    }
}

#[derive(Default)]
struct Table {
    by_command: BTreeMap<String, Worst>,
    by_input: BTreeMap<String, Worst>,
    over: Vec<String>,
}

impl Table {
    fn measure(&mut self, input: &str, command: &str, args: &[String], stdin: Option<&Path>) {
        let mut cost = run(args, stdin);
        // Others share the machine: what seems slow is run again, and its fastest run counts.
        for _ in 0..if cost.wall > MAX_SECONDS / 2.0 { 2 } else { 0 } {
            let again = run(args, stdin);
            if again.wall < cost.wall {
                cost = Cost {
                    mib: again.mib.max(cost.mib),
                    ..again
                };
            }
        }
        self.by_command
            .entry(command.to_owned())
            .or_default()
            .add(cost, input);
        self.by_input
            .entry(input.to_owned())
            .or_default()
            .add(cost, command);
        if cost.wall > MAX_SECONDS || cost.mib > MAX_MIB {
            self.over.push(format!(
                "{command}, {input}: {:.2} s, {:.0} MiB",
                cost.wall, cost.mib
            ));
        }
    }

    /// Every command on one recorded machine.
    fn machine(&mut self, name: &str, source: &str, path: &Path) {
        for command in COMMANDS {
            let args = command.iter().map(|arg| (*arg).to_owned());
            let args: Vec<String> = args
                .chain([source.to_owned(), path.display().to_string()])
                .collect();
            self.measure(name, &command.join(" "), &args, None);
        }
    }
}

fn run(args: &[String], stdin: Option<&Path>) -> Cost {
    let gdr = std::env::var_os("GDR").unwrap_or_else(|| env!("CARGO_BIN_EXE_gdr").into());
    let costs = tempfile::NamedTempFile::new().expect("a temporary file");
    let stdin = stdin.map_or(Stdio::null(), |path| {
        fs::File::open(path).expect("a file").into()
    });
    let started = Instant::now();
    let status = Command::new("time")
        .args(["-q", "-f", "%U %S %M", "-o"])
        .arg(costs.path())
        .arg(gdr)
        .args(args)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("GNU time starts");
    let wall = started.elapsed().as_secs_f64();
    assert!(
        status.code().is_some_and(|code| code <= 3),
        "{args:?}: {status}"
    );
    let text = fs::read_to_string(costs.path()).expect("the costs");
    let mut numbers = text
        .split_ascii_whitespace()
        .map(|word| word.parse::<f64>().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    let (user, system, kib) = (next(), next(), next());
    Cost {
        wall,
        cpu: user + system,
        mib: kib / 1024.0,
    }
}

/// Machines as many times as have all their pairs computed, and the recorded ones also as many times as fit.
fn scaled_up() -> Vec<Input> {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let mut inputs = Vec::new();
    for name in recorded() {
        let text =
            fs::read_to_string(machines.join(&name).join("snapshot.json")).expect("a snapshot");
        inputs.extend([MAX_ROWS, usize::MAX].map(|rows| scaled(&name, &text, rows)));
    }
    for (name, _, root) in everywhere() {
        let output = Command::new(env!("CARGO_BIN_EXE_gdr"))
            .args(["snapshot", "-o", "-", "--sysroot"])
            .arg(root.path())
            .output()
            .expect("gdr starts");
        let text = String::from_utf8(output.stdout).expect("a snapshot");
        let path = Path::new(&name);
        let short = path
            .file_stem()
            .unwrap_or(path.as_os_str())
            .to_string_lossy();
        inputs.push(scaled(&short, &text, MAX_ROWS));
        if path.extension().is_some() {
            inputs.push(scaled(&short, &text, usize::MAX));
        }
    }
    inputs
}

fn main() {
    let directory = scratch();
    let mut table = Table::default();
    let write = |input: &Input| -> PathBuf { input.written(directory.path()) };
    let few = write(&gpus(8));
    let text = |path: &Path| path.display().to_string();

    let thousands = [gpus(4_000), gpus(8_000), compressed(&gpus(8_000))];
    for input in scaled_up()
        .iter()
        .chain(&thousands)
        .chain(&many_devices())
        .chain(&long_answers())
    {
        let path = write(input);
        table.machine(&input.name, "--from", &path);
        for comparison in COMPARISONS {
            let head = [
                "snapshot".to_owned(),
                "--diff".to_owned(),
                text(&few),
                text(&path),
            ];
            let args: Vec<String> = head
                .into_iter()
                .chain(comparison.iter().map(|arg| (*arg).to_owned()))
                .collect();
            table.measure(
                &input.name,
                &format!("snapshot --diff {}", comparison.join(" ")),
                &args,
                None,
            );
        }
        fs::remove_file(path).expect("a file");
    }
    for input in dumps() {
        table.machine(&input.name, "--from", &write(&input));
    }
    for input in logs() {
        let path = write(&input);
        for format in ["table", "json"] {
            let args = ["explain", "--no-run", "--format", format, "-"].map(str::to_owned);
            table.measure(
                &format!("log: {}", input.name),
                &format!("explain - --format {format}"),
                &args,
                Some(&path),
            );
        }
    }
    for input in profiles() {
        let path = directory.path().join("profile.toml");
        fs::write(&path, &input.bytes).expect("a file");
        let args = ["doctor", "--profile", &text(&path), "--from", &text(&few)].map(str::to_owned);
        table.measure(
            &format!("profile: {}", input.name),
            "doctor --profile FILE",
            &args,
            None,
        );
    }
    let root = scratch();
    lay_out_gpus(root.path(), 4_000);
    table.machine("root with 4000 GPUs", "--sysroot", root.path());
    print(&table).expect("standard output");
    assert!(
        table.over.is_empty(),
        "over {MAX_SECONDS} s or {MAX_MIB} MiB: {:#?}",
        table.over
    );
}

fn print(table: &Table) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (what, at, rows) in [
        ("command", "input", &table.by_command),
        ("input", "command", &table.by_input),
    ] {
        writeln!(
            out,
            "| {what} | runs | longest s | its CPU s | {at} | largest MiB | {at} |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for (name, worst) in rows {
            if let (Some((time, slow)), Some((memory, large))) = (&worst.time, &worst.memory) {
                writeln!(
                    out,
                    "| {name} | {} | {:.2} | {:.2} | {slow} | {:.0} | {large} |",
                    worst.runs, time.wall, time.cpu, memory.mib
                )?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}
