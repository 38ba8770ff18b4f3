//! How long `gdr fleet report` takes, and how much memory, for 125 to 4,000 nodes with a report of doctor and one of a probe each.
//! 1,000 nodes must take at most 2 seconds and 512 MiB.
//!
//! Run with `cargo bench --bench fleet`; it needs GNU time. Figures are kept in docs/measured.

#[path = "../tests/support/mod.rs"]
mod support;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use support::{reports, scratch};

const MAX_SECONDS: f64 = 2.0;
const MAX_MIB: f64 = 512.0;
/// Others share the machine: the fastest of these runs counts.
const RUNS: usize = 5;

fn main() {
    let mut out = std::io::stdout();
    let heading = format!("{:>6} {:>9} {:>9} {:>9}", "nodes", "MB", "seconds", "MiB");
    writeln!(out, "{heading}").expect("standard output");
    for nodes in [125, 250, 500, 1000, 2000, 4000] {
        let dir = scratch();
        let size = reports::write_equal(dir.path(), nodes);
        let (mut fastest, mut mib) = (f64::MAX, 0.0_f64);
        for _ in 0..RUNS {
            let costs = tempfile::NamedTempFile::new().expect("a temporary file");
            let started = Instant::now();
            let status = Command::new("time")
                .args(["-q", "-f", "%M", "-o"])
                .arg(costs.path())
                .args([env!("CARGO_BIN_EXE_gdr"), "fleet", "report"])
                .arg(dir.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("GNU time");
            assert!(status.code().is_some_and(|code| code != 2), "gdr fleet report failed");
            fastest = fastest.min(started.elapsed().as_secs_f64());
            let text = std::fs::read_to_string(costs.path()).expect("what it took");
            mib = mib.max(text.trim().parse::<f64>().expect("KiB") / 1024.0);
        }
        let line = format!("{nodes:>6} {:>9.1} {fastest:>9.2} {mib:>9.1}", size as f64 / 1e6);
        writeln!(out, "{line}").expect("standard output");
        assert!(
            nodes != 1000 || (fastest <= MAX_SECONDS && mib <= MAX_MIB),
            "1,000 nodes take more than {MAX_SECONDS} s or {MAX_MIB} MiB"
        );
    }
}
