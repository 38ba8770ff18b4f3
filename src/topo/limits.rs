//! How many pairs are computed. A real machine has fewer than a hundred GPUs and NICs; a file may claim any number, and what
//! is computed for each pair grows with its square.

use super::Topology;
use crate::model::Kind;

/// The most rows (GPUs, NICs and NVMe controllers) of which every pair gets a class. With all virtual functions of eight NICs
/// a machine has about a thousand.
pub const MAX_ROWS: usize = 1_024;

/// The most pairs with a GPU whose paths are computed hop by hop: 256 GPUs with each other, or 32 with every other row.
pub const MAX_PATHS: usize = 32_768;

impl Topology<'_> {
    /// Whether the class of every pair is computed.
    pub fn has_all_pairs(&self) -> bool {
        self.rows.len() <= MAX_ROWS
    }

    /// Whether the path of every pair with a GPU is computed.
    pub fn has_all_paths(&self) -> bool {
        let gpus = self.rows_of(Kind::Gpu).count();
        let others = self.rows.len() - gpus;
        self.has_all_pairs() && gpus * gpus.saturating_sub(1) / 2 + gpus * others <= MAX_PATHS
    }

    /// What is left out, and why; none where everything is computed.
    pub fn omission(&self) -> Option<String> {
        let rows = self.rows.len();
        let gpus = self.rows_of(Kind::Gpu).count();
        match (self.has_all_pairs(), self.has_all_paths()) {
            (false, _) => Some(format!(
                "there are {rows} GPUs, NICs and NVMe controllers; gdr computes all pairs of at most {MAX_ROWS}"
            )),
            (true, false) => Some(format!(
                "{gpus} GPUs among {rows} rows make more than {MAX_PATHS} pairs with a GPU; gdr computes no more paths"
            )),
            (true, true) => None,
        }
    }
}
