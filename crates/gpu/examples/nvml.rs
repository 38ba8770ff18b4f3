//! Prints what NVML says of this machine as JSON: `nvml [links] [p2p] [details]`, all of it without
//! a word. With `FAKE_NVML` and `LD_LIBRARY_PATH` set as crate `fake-nvml-build` says, a simulated
//! machine.

use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wants = |word: &str| words.is_empty() || words.iter().any(|given| given == word);
    let query = gpu::nvml::Query {
        links: wants("links"),
        p2p: wants("p2p"),
        p2p_only: None,
        details: wants("details"),
    };
    let start = std::time::Instant::now();
    let outcome = gpu::nvml::read(&query, None);
    let took = start.elapsed();
    writeln!(
        std::io::stdout(),
        "{}",
        serde_json::to_string_pretty(&outcome)?
    )?;
    writeln!(std::io::stderr(), "{:.1} ms", took.as_secs_f64() * 1e3)?;
    Ok(())
}
