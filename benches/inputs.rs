//! How long every command takes, and how much memory: every recorded machine scaled up, and inputs with as much as fits. The bar is 5
//! seconds and 256 MiB for inputs of at most 8 MiB, 10 seconds and 512 MiB for those that unpack to at most 64 MiB.
//!
//! Run with `cargo bench --bench inputs`, or with `-- PART` for machines, texts, reports, products or unpacked; it needs GNU time. GDR=FILE measures another build. Figures are kept in docs/measured.

#[path = "../tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use support::crowded::{
    COMMANDS, COMPARISONS, Input, LARGEST, MAX_ROWS, ReadBy, UNPACKED, dumps, gpus, lay_out_gpus,
    logs, long_answers, many_devices, products, profiles, reports, scaled,
};
use support::{everywhere, recorded, scratch};

/// Seconds and MiB.
const SMALL: (f64, f64) = (5.0, 256.0);
const UNPACKED_TO_MUCH: (f64, f64) = (10.0, 512.0);

/// The commands for inputs that unpack to much: one of each part of gdr that reads them.
const FEW_COMMANDS: [&[&str]; 5] = [
    &["topo"],
    &["topo", "--nvme", "--format", "json"],
    &["doctor", "--profile", "all", "--platform", "bare-metal", "--format", "json"],
    &["snapshot", "--mask", "-o", "-"],
    &["fix", "--profile", "all", "--dry-run"],
];

/// What one run took.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
    mib: f64,
    /// It ended by a signal, or after a minute.
    failed: bool,
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
        if self.time.as_ref().is_none_or(|(worst, _)| cost.wall > worst.wall) {
            self.time = Some((cost, at.to_owned()));
        }
        if self.memory.as_ref().is_none_or(|(worst, _)| cost.mib > worst.mib) {
            self.memory = Some((cost, at.to_owned()));
        }
    }
}

struct Table {
    by_command: BTreeMap<String, Worst>,
    by_input: BTreeMap<String, Worst>,
    over: Vec<String>,
    limits: (f64, f64),
}

impl Table {
    fn new(limits: (f64, f64)) -> Self {
        Self { by_command: BTreeMap::new(), by_input: BTreeMap::new(), over: Vec::new(), limits }
    }

    fn measure(&mut self, input: &str, command: &str, args: &[String], stdin: Option<&Path>) {
        let mut cost = run(args, stdin);
        // Others share the machine: what seems slow is run again, and its fastest run counts.
        let (seconds, mib) = self.limits;
        for _ in 0..if cost.wall > seconds / 2.0 && cost.cpu <= seconds { 2 } else { 0 } {
            let again = run(args, stdin);
            if again.wall < cost.wall {
                cost = Cost { mib: again.mib.max(cost.mib), ..again };
            }
        }
        self.by_command.entry(command.to_owned()).or_default().add(cost, input);
        self.by_input.entry(input.to_owned()).or_default().add(cost, command);
        if cost.wall > seconds || cost.mib > mib || cost.failed {
            let failed = if cost.failed { ", and failed" } else { "" };
            self.over.push(format!(
                "{command}, {input}: {:.2} s, CPU {:.2} s, {:.0} MiB{failed}",
                cost.wall, cost.cpu, cost.mib
            ));
        }
    }

    fn files(&mut self, input: &str, args: &[&str], files: &[&Path]) {
        let command = args.join(" ");
        let args = args.iter().map(|arg| (*arg).to_owned());
        let files = files.iter().map(|file| file.display().to_string());
        let args: Vec<String> = args.chain(files).collect();
        self.measure(input, &command, &args, None);
    }

    /// Everything that reads gdr's own reports.
    fn reports(&mut self, size: usize, directory: &Path) {
        let mut few = None;
        for (by, input) in reports(size) {
            let name = input.name.clone();
            let input = if size > LARGEST { input.packed() } else { input };
            let file = input.written(directory);
            for format in ["table", "json", "html", "junit"] {
                self.files(&name, &["fleet", "report", "--format", format], &[&file]);
            }
            for command in ["topo", "doctor"] {
                self.files(&name, &[command, "--from"], &[&file]);
            }
            if by == ReadBy::Probe {
                let few = few.get_or_insert_with(|| file.clone());
                for comparison in COMPARISONS {
                    let args = [&["snapshot"], comparison, &["--diff"]].concat();
                    self.files(&name, &args, &[few, &file]);
                }
                self.files(&name, &["expect"], &[&file]);
                let probe = ["probe", "copy", "--sim", "--quick", "--size=64KiB"];
                self.files(&name, &[&probe[..], &["--baseline"]].concat(), &[&file]);
            }
            if few.as_ref() != Some(&file) {
                fs::remove_file(file).expect("a file");
            }
        }
    }

    fn log(&mut self, input: &Input, path: &Path) {
        for format in ["table", "json"] {
            let args = ["explain", "--no-run", "--format", format, "-"].map(str::to_owned);
            let (name, command) =
                (format!("log: {}", input.name), format!("explain - --format {format}"));
            self.measure(&name, &command, &args, Some(path));
        }
    }

    /// Every command on one recorded machine.
    fn machine(&mut self, name: &str, source: &str, path: &Path) {
        for command in COMMANDS {
            let args = command.iter().map(|arg| (*arg).to_owned());
            let args: Vec<String> =
                args.chain([source.to_owned(), path.display().to_string()]).collect();
            self.measure(name, &command.join(" "), &args, None);
        }
    }
}

fn run(args: &[String], stdin: Option<&Path>) -> Cost {
    let gdr = std::env::var_os("GDR").unwrap_or_else(|| env!("CARGO_BIN_EXE_gdr").into());
    let costs = tempfile::NamedTempFile::new().expect("a temporary file");
    let stdin = stdin.map_or(Stdio::null(), |path| fs::File::open(path).expect("a file").into());
    let started = Instant::now();
    let status = Command::new("time")
        .args(["-q", "-f", "%U %S %M", "-o"])
        .arg(costs.path())
        .args(["prlimit", "--cpu=60", "--as=8589934592"])
        .arg(gdr)
        .args(args)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("GNU time starts");
    let wall = started.elapsed().as_secs_f64();
    let text = fs::read_to_string(costs.path()).expect("the costs");
    let mut numbers =
        text.split_ascii_whitespace().map(|word| word.parse::<f64>().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    let (user, system, kib) = (next(), next(), next());
    Cost {
        wall,
        cpu: user + system,
        mib: kib / 1024.0,
        failed: status.code().is_none_or(|code| code > 3),
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
        let short = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
        inputs.push(scaled(&short, &text, MAX_ROWS));
        if path.extension().is_some() {
            inputs.push(scaled(&short, &text, usize::MAX));
        }
    }
    inputs
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |part: &str| {
        let mut wanted = wanted.iter().filter(|word| !word.starts_with('-')).peekable();
        wanted.peek().is_none() || wanted.any(|word| word == part)
    };
    let directory = scratch();
    let directory = directory.path();
    let mut small = Table::new(SMALL);
    let mut large = Table::new(UNPACKED_TO_MUCH);
    if is_wanted("machines") {
        machines(&mut small, directory);
    }
    if is_wanted("texts") {
        texts(&mut small, directory);
    }
    if is_wanted("reports") {
        small.reports(LARGEST, directory);
    }
    if is_wanted("products") {
        two_counts(&mut small, directory);
    }
    if is_wanted("unpacked") {
        large.reports(UNPACKED, directory);
        unpacked(&mut large, directory);
    }
    let mut over = Vec::new();
    for (title, table) in
        [("Inputs of at most 8 MiB", small), ("Inputs that unpack to at most 64 MiB", large)]
    {
        print(title, &table).expect("standard output");
        over.extend(table.over);
    }
    assert!(over.is_empty(), "over the limits: {over:#?}");
}

/// Inputs with two large counts.
fn two_counts(table: &mut Table, directory: &Path) {
    for product in products() {
        let files = (product.files)(product.larger);
        let write = |(at, bytes): (usize, &Vec<u8>)| {
            let path = directory.join(format!("{at}.json"));
            fs::write(&path, bytes).expect("a file");
            path
        };
        let files: Vec<PathBuf> = files.iter().enumerate().map(write).collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        table.files(product.name, product.args, &files);
    }
}

/// Dumps, archives and logs.
fn unpacked(table: &mut Table, directory: &Path) {
    for input in dumps(UNPACKED) {
        let name = input.name.clone();
        let file = input.packed().written(directory);
        for command in FEW_COMMANDS {
            table.files(&name, &[command, &["--from"]].concat(), &[&file]);
        }
        table.files(&name, &["explain", "--no-run"], &[&file]);
        fs::remove_file(file).expect("a file");
    }
    for input in logs(UNPACKED) {
        let name = Input { name: input.name.clone(), bytes: Vec::new() };
        let file = input.packed().written(directory);
        table.log(&name, &file);
        fs::remove_file(file).expect("a file");
    }
}

/// Recorded machines, and one that is laid out.
fn machines(table: &mut Table, directory: &Path) {
    let few = gpus(8).written(directory);
    let thousands = [gpus(4_000), gpus(8_000), gpus(8_000).packed()];
    for input in scaled_up().iter().chain(&thousands).chain(&many_devices()).chain(&long_answers())
    {
        let path = input.written(directory);
        table.machine(&input.name, "--from", &path);
        for comparison in COMPARISONS {
            let args = [&["snapshot"], comparison, &["--diff"]].concat();
            table.files(&input.name, &args, &[&few, &path]);
        }
        fs::remove_file(path).expect("a file");
    }
    let root = scratch();
    lay_out_gpus(root.path(), 4_000);
    table.machine("root with 4000 GPUs", "--sysroot", root.path());
}

/// Dumps, logs and profiles.
fn texts(table: &mut Table, directory: &Path) {
    let few = gpus(8).written(directory);
    let text = |path: &Path| path.display().to_string();
    for input in dumps(LARGEST) {
        table.machine(&input.name, "--from", &input.written(directory));
    }
    for input in logs(LARGEST) {
        table.log(&input, &input.written(directory));
    }
    for input in profiles() {
        let path = directory.join("profile.toml");
        fs::write(&path, &input.bytes).expect("a file");
        let args = ["doctor", "--profile", &text(&path), "--from", &text(&few)].map(str::to_owned);
        table.measure(&format!("profile: {}", input.name), "doctor --profile FILE", &args, None);
    }
}

fn print(title: &str, table: &Table) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "## {title}\n")?;
    for (what, at, rows) in
        [("command", "input", &table.by_command), ("input", "command", &table.by_input)]
    {
        writeln!(out, "| {what} | runs | longest s | its CPU s | {at} | largest MiB | {at} |")?;
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
