//! Inputs that hold more than any machine, and every command that looks at a machine: for the test of the
//! memory limit and the bench of the time.

mod dumps;
mod made;
mod products;
mod reports;
mod scale;
mod snapshots;
mod texts;

use std::path::{Path, PathBuf};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

pub use dumps::dumps;
pub use made::lay_out_gpus;
pub use products::{Product, products};
pub use reports::{ReadBy, reports};
pub use scale::{MAX_ROWS, scaled};
pub use snapshots::{gpus, long_answers, many_devices};
pub use texts::{PLACES, journals, logs, profiles};

/// The size up to which every input keeps within the limits of memory and time.
pub const LARGEST: usize = 8 << 20;

/// The size of a text up to which every input keeps within the larger limits, as a file or unpacked; no larger text is read.
pub const UNPACKED: usize = 64 << 20;

pub struct Input {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Input {
    fn new(name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let (name, bytes) = (name.to_owned(), bytes.into());
        assert!(bytes.len() <= UNPACKED, "{name} has {} bytes", bytes.len());
        Self { name, bytes }
    }

    /// The same input, compressed.
    pub fn packed(self) -> Self {
        let packed = compress_to_vec(self.bytes.as_slice(), CompressionLevel::Fastest);
        Self { name: format!("{} zst", self.name), bytes: packed }
    }

    /// Writes it as a file of its name.
    pub fn written(&self, directory: &Path) -> PathBuf {
        let path = directory.join(&self.name);
        std::fs::write(&path, &self.bytes).expect("a file");
        path
    }
}

/// Items until a text has this size.
fn filled(size: usize, head: &str, item: &dyn Fn(usize) -> String, end: &str) -> String {
    let mut text = head.to_owned();
    for at in 0.. {
        let next = item(at);
        if text.len() + next.len() + end.len() > size {
            break;
        }
        text.push_str(&next);
    }
    text + end
}

/// Every command and format that looks at a recorded machine or at one laid out, without `--from` or `--sysroot`.
pub const COMMANDS: [&[&str]; 36] = [
    &["topo"],
    &["topo", "--format", "json"],
    &["topo", "--format", "svg"],
    &["topo", "--format", "nvidia-smi"],
    &["topo", "--format", "nvidia-smi", "--pci"],
    &["topo", "--nvme", "--pci"],
    &["topo", "--nvme", "--format", "json"],
    &["topo", "--p2p", "r"],
    &["topo", "--pairs"],
    &["topo", "--path", "GPU0", "GPU1"],
    &["topo", "--check"],
    &["doctor", "--profile", "all", "-v"],
    &["doctor", "--profile", "all", "--platform", "bare-metal"],
    &["doctor", "--profile", "all", "--platform", "bare-metal", "--format", "json"],
    &["doctor", "--profile", "all", "--format", "markdown"],
    &["doctor", "--profile", "all", "--format", "prometheus"],
    &["explain", "pcie.acs"],
    &["explain", "pcie.acs", "--format", "json"],
    &["explain", "ibv_reg_mr failed with error Bad address"],
    &["fix", "--profile", "all", "--dry-run"],
    &["fix", "--profile", "all", "--dry-run", "--format", "script"],
    &["fix", "--profile", "all", "--dry-run", "--format", "json"],
    &["fix", "stream-memops", "peer-mapping", "--dry-run"],
    &["fix-acs", "--dry-run", "--platform", "bare-metal"],
    &["fix-acs", "--dry-run", "--platform", "bare-metal", "--format", "json"],
    &["snapshot", "-o", "-"],
    &["snapshot", "--mask", "-o", "-"],
    &["probe", "copy"],
    &["probe", "host"],
    &["probe", "p2p"],
    &["probe", "p2p", "--format", "curve"],
    &["probe", "p2p", "--format", "json"],
    &["probe", "p2p", "--format", "svg"],
    &["probe", "rdma"],
    &["probe", "rdma", "--format", "json"],
    &["probe", "async"],
];

/// How two snapshots are compared.
pub const COMPARISONS: [&[&str]; 2] = [&["--all"], &["--all", "--format", "json"]];
