//! The command line of every probe: devices, depth, sizes, NUMA nodes, output format. What one probe has beside them stands in
//! `arguments.rs` of its folder.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::depth::Depth;
use super::rendezvous::SecretError;
use super::scope::{Nodes, Scope};
use super::supervise::Probe;
use super::terms::Terms;
use crate::model::Shares;

/// The command line of one probe.
pub trait Arguments {
    type Probe: Probe;

    /// The profile whose shares of a link's rate a figure is compared with.
    const PROFILE: &'static str;

    /// True if the probe needs facts about pairs of GPUs.
    const OF_PAIRS: bool = false;

    fn scope(&self) -> &ScopeArguments;

    /// The other machine, which results may name.
    fn peer_host(&self) -> Option<String> {
        None
    }

    /// The probe that these options mean. On a recorded machine nothing is measured, so no other machine is needed.
    fn probe(&self, scope: Scope, is_live: bool) -> Result<Self::Probe, UsageError>;
}

/// Options that do not go together, or that this machine cannot do.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    #[error("{0}")]
    Options(String),
    #[error(transparent)]
    Secret(#[from] SecretError),
}

impl From<String> for UsageError {
    fn from(text: String) -> Self {
        Self::Options(text)
    }
}

impl From<&str> for UsageError {
    fn from(text: &str) -> Self {
        Self::Options(text.to_owned())
    }
}

/// Masks of a report.
#[derive(Debug, Args)]
pub struct MaskOptions {
    /// Replace host and user names, UUIDs, GUIDs, MAC and IP addresses; the key in this file makes the masks the same in every file
    ///
    /// The masks are those of gdr snapshot and gdr fleet report with this key. Without the key nobody can find out which name a
    /// mask stands for by trying names, and whoever has the key can: keep it.
    #[arg(long, value_name = "FILE")]
    pub mask_key: Option<PathBuf>,
}

/// Options of every probe.
#[derive(Debug, Args)]
pub struct ScopeArguments {
    /// GPUs: all, a number as in gdr topo, a PCI address or a UUID; separate several with commas
    #[arg(long, value_name = "GPU", value_delimiter = ',', default_value = "all")]
    pub gpu: Vec<String>,

    /// Simulate every device that is not named, in host memory; needs no GPU, NIC or library, and every output says so
    #[arg(long, conflicts_with = "gpu")]
    pub sim: bool,

    /// Only the most relevant tests, in less than 5 seconds per GPU
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,

    /// All tests, with more samples; a minute or more per GPU
    #[arg(long)]
    pub full: bool,

    /// Measure only these sizes, such as 4096, 64KiB or 1MiB; separate several with commas
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub size: Vec<ByteSize>,

    /// Profiles whose table `probe` sets when a result is slow [default: gdrcopy, mpi for host, p2p for p2p, rdma for
    /// rdma]
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Vec<String>,

    /// Save the report, as a baseline for later runs; nothing is saved if the probe fails
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Compare every figure with the saved ones; a figure that is worse beyond noise makes the exit status 1
    #[arg(long, value_name = "FILE", conflicts_with = "mask_key")]
    pub baseline: Option<PathBuf>,

    /// Run the probe this many times; each figure is the median of the runs' medians
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub runs: u8,

    /// Output format of the report
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ProbeFormat::Table)]
    pub format: ProbeFormat,

    /// Masks.
    #[command(flatten)]
    pub masks: MaskOptions,
}

impl ScopeArguments {
    /// The selected devices, and how much is measured.
    pub fn scope(&self, shares: Shares, timeout: Duration) -> Scope {
        let mut sizes: Vec<usize> = self.size.iter().map(|size| size.0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let depth = match (self.quick, self.full) {
            (true, _) => Depth::Quick,
            (_, true) => Depth::Full,
            _ => Depth::Default,
        };
        Scope {
            sim: self.sim,
            gpus: self.gpu.clone(),
            terms: Terms { depth, sizes, shares, timeout },
        }
    }
}

/// The nodes of CPUs that copy to and from a GPU.
pub fn copying_nodes(wanted: Option<Nodes>, depth: Depth) -> Nodes {
    match wanted {
        Some(nodes) => nodes,
        None if depth == Depth::Quick => Nodes::Near,
        None => Nodes::All,
    }
}

/// Output format of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProbeFormat {
    /// For people.
    Table,
    /// Bandwidth over size, as a chart in the terminal.
    Curve,
    /// For programs: schema gdr.probe/1.
    Json,
    /// Bandwidth over size, as a drawing.
    Svg,
    /// One page for a browser, to keep or to send.
    Html,
    /// For CI systems: JUnit XML.
    Junit,
}

impl FromStr for Nodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            "near" => Ok(Self::Near),
            number => match number.parse() {
                Ok(node) => Ok(Self::One(node)),
                Err(_) => Err("expected 'all', 'near' or the number of a node".to_owned()),
            },
        }
    }
}

/// Maximum size of a copy.
const MAX_SIZE: usize = 1 << 30;

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub usize);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kib" => 10,
            "m" | "mib" => 20,
            "g" | "gib" => 30,
            _ => {
                return Err("expected a number with KiB, MiB, GiB or no unit".to_owned());
            }
        };
        let number: usize = number.parse().map_err(|_| "expected a whole number".to_owned())?;
        let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes <= MAX_SIZE);
        match bytes {
            Some(0) => Err("the size must not be 0".to_owned()),
            Some(bytes) => Ok(Self(bytes)),
            None => Err("the size must not exceed 1 GiB".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_binary_sizes() {
        for (text, bytes) in
            [("1", 1), ("64KiB", 65536), ("64k", 65536), ("1M", 1 << 20), ("1gib", 1 << 30)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for (text, word) in [
            ("", "whole number"),
            ("KiB", "whole number"),
            ("1KB", "KiB, MiB"),
            ("-1", "KiB, MiB"),
            ("1.5M", "KiB, MiB"),
            ("0", "not be 0"),
            ("2G", "1 GiB"),
            ("99999999999999999999", "whole number"),
            ("9999999999999999999G", "1 GiB"),
        ] {
            let error = text.parse::<ByteSize>().expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn parses_nodes() {
        assert_eq!("all".parse(), Ok(Nodes::All));
        assert_eq!("near".parse(), Ok(Nodes::Near));
        assert_eq!("3".parse(), Ok(Nodes::One(3)));
        assert!("far".parse::<Nodes>().is_err());
    }
}
