//! A lost fact improves no verdict: whatever cannot be read any more, no finding gets better, no pair becomes good and no
//! profile becomes ready.
//!
//! Each path that a check read is taken away or denied, on every machine and in every form, and each part of what a library
//! answered. `GDR_DELETIONS` says for how many seconds, `GDR_SEED` in which order.

mod answers;
mod lossy;
mod machines;
mod others;
pub mod verdicts;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gdr::collect;
use gdr::model::Outcome;
use gdr::profile::{Profile, SHIPPED};
use gdr::world::World;
use machines::{Loss, Source, Subject, sources};
use verdicts::Verdicts;

use crate::support::{Machine, merge};

/// Losses of one machine before it is another's turn.
const IN_A_ROW: usize = 40;

/// Kinds of improvements, each with the number of losses and one of them.
type Kinds = BTreeMap<String, (usize, String)>;

struct Run {
    profiles: Vec<Profile>,
    random: Random,
    kinds: Kinds,
    losses: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let parse = |(name, text): &(&str, &str)| Profile::parse(name, text, |_| true);
        let mut profiles: Vec<Profile> = SHIPPED
            .iter()
            .filter(|(name, _)| *name != "all")
            .map(|profile| parse(profile).expect("a profile"))
            .collect();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/expect/other.toml");
        let text = std::fs::read_to_string(path).expect("a profile that nothing meets");
        profiles.push(parse(&("other", &text)).expect("a profile"));
        Self { profiles, random: Random(seed), kinds: Kinds::new(), losses: 0 }
    }

    fn lose(&mut self, subject: &Subject, loss: &Loss) {
        if others::is_another_machine(subject.form, loss) {
            return;
        }
        let Some(after) = subject.after(loss, &self.profiles) else {
            return;
        };
        self.losses += 1;
        for (kind, example) in subject.before.improvements(&after) {
            let Subject { name, form, .. } = subject;
            let kind = format!("{kind} | {}", general(loss));
            let found = self
                .kinds
                .entry(kind)
                .or_insert_with(|| (0, format!("{name}, {form:?}, {loss:?}: {example}")));
            found.0 += 1;
        }
    }

    fn report(&self) -> String {
        let kinds = self.kinds.iter();
        let lines =
            kinds.map(|(kind, (count, example))| format!("{kind} ({count})\n    {example}\n"));
        lines.collect()
    }
}

/// A loss without addresses and numbers.
fn general(loss: &Loss) -> String {
    let text = match loss {
        Loss::Path(path, how) => format!("{how:?} {path}"),
        Loss::Answer(pointer, how) | Loss::Tool(pointer, how) => format!("{how:?} {pointer}"),
    };
    let mut out = String::new();
    for part in text.split_inclusive('/') {
        let is_address = part.len() > 10 && part.as_bytes()[4] == b':';
        if is_address {
            out.push_str("BDF/")
        } else {
            out.push_str(&part.replace(|c: char| c.is_ascii_digit(), ""))
        }
    }
    out
}

/// Splitmix64: the same numbers from the same seed, everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = usize::try_from(self.next() % (at as u64 + 1)).expect("an index");
            list.swap(at, other);
        }
    }
}

/// Machines in a random order, and of each some losses, until the time is over or nothing is left to lose.
fn lose_some(run: &mut Run, time: Duration, most: usize) -> usize {
    let end = Instant::now() + time;
    let mut sources: Vec<Source> = sources();
    run.random.shuffle(&mut sources);
    let mut subjects: Vec<(Option<Subject>, Vec<Loss>)> = Vec::new();
    let mut machines = 0;
    loop {
        let mut left = false;
        for (at, source) in sources.iter().enumerate() {
            if Instant::now() >= end || run.losses >= most {
                return machines;
            }
            if at == subjects.len() {
                let subject = source.subject(&run.profiles);
                let mut losses = subject.losses();
                run.random.shuffle(&mut losses);
                subjects.push((Some(subject), losses));
                machines += 1;
            }
            let (kept, losses) = &mut subjects[at];
            let Some(subject) = kept else { continue };
            for loss in losses.split_off(losses.len().saturating_sub(IN_A_ROW)) {
                run.lose(subject, &loss);
            }
            if losses.is_empty() { *kept = None } else { left = true }
        }
        if !left {
            return machines;
        }
    }
}

/// What an attacker found first: each file is removed from a directory on which the check failed, warned or was unknown.
#[test]
fn known_losses_are_open() {
    let below = |port: &str, device: serde_json::Value| {
        let port = serde_json::json!({port: {"below": device}});
        serde_json::json!({"roots": {"0000:00": {"below": {"00:01.0": {"below": {"01:00.0": {"below": port}}}}}}})
    };
    let gpu = serde_json::json!({"03:00.0": {"is": "h200", "iommu": "DMA-FQ"}});
    let nic = serde_json::json!({"04:00.0": {"is": "cx7-eth", "rdma": {"name": "mlx5_0", "layer": "Ethernet"}}});
    let status = ["Uid:\t1000\t1000\t1000\t1000", "CapEff:\t0000000000000000"];
    let user = serde_json::json!({"files": {"proc/self/status": status}});
    let run = Run::new(0);
    for (patch, check, lost) in [
        (below("02:00.0", gpu), "pcie.iommu", "sys/bus/pci/devices/0000:03:00.0/iommu_group"),
        (below("02:01.0", nic), "rdma.port", "sys/class/infiniband/mlx5_0/ports/1/link_layer"),
        (user, "param.peer-mapping", "proc/driver/nvidia/params"),
    ] {
        let change = |machine: &mut serde_json::Value| merge(machine, &patch);
        let root = Machine::load_changed("sound", change).laid_out();
        let worst = || {
            let world = World::directory(root.path()).expect("a root");
            let facts = collect::facts(&world, collect::CollectOptions::everything(false));
            Verdicts::of(&facts, &run.profiles).worst(check)
        };
        let before = worst();
        assert!(before.is_some_and(is_open), "{check}: {before:?}");
        std::fs::remove_file(root.path().join(lost)).expect("a file");
        let after = worst();
        assert!(after.is_some_and(is_open), "{check} without {lost}: {before:?} -> {after:?}");
    }
}

fn is_open(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Fail | Outcome::Warn | Outcome::Unknown)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
#[ignore = "slow: 600 losses; GDR_DELETIONS=SECONDS takes random ones for so long"]
fn no_lost_fact_improves_a_verdict() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let any = || now.map_or(0, |now| now.as_secs());
    // Without a time the same losses on every machine, so that a change that makes a verdict better is seen where it is made.
    let (seconds, most) = match number("GDR_DELETIONS") {
        Some(seconds) => (seconds, usize::MAX),
        None => (600, 600),
    };
    let seeds = [number("GDR_SEED").unwrap_or_else(|| match most {
        usize::MAX => any(),
        _ => 38,
    })];
    let time = Duration::from_secs(seconds);
    for seed in &seeds {
        let mut run = Run::new(*seed);
        let machines = lose_some(&mut run, time, most);
        let summary = format!("GDR_SEED={seed}: {} losses on {machines} machines", run.losses);
        // For a person: the test shows it only if it fails.
        let _ = writeln!(std::io::stderr(), "{summary}");
        let kinds = run.kinds.len();
        assert!(kinds == 0, "{summary}, {kinds} kinds improve a verdict:\n{}", run.report());
    }
}
