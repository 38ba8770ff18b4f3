//! Limits of the number of pairs. Real machines have fewer than a hundred GPUs and NICs, but a file may claim any number,
//! and the work grows with its square.

use super::Topology;
use crate::model::Kind;

/// Limit of rows (GPUs, NICs, NVMe controllers) for which every pair is classified. With all virtual functions of eight
/// NICs a machine has about a thousand.
pub const MAX_ROWS: usize = 1_024;

/// Limit of pairs with a GPU for which paths are computed: 256 GPUs with each other, or 32 with all other rows.
pub const MAX_PATHS: usize = 32_768;

impl Topology<'_> {
    pub fn has_all_pairs(&self) -> bool {
        self.rows.len() <= MAX_ROWS
    }

    pub fn has_all_paths(&self) -> bool {
        if !self.has_all_pairs() {
            return false;
        }
        let gpus = self.rows_of(Kind::Gpu).count();
        let others = self.rows.len() - gpus;
        gpus * gpus.saturating_sub(1) / 2 + gpus * others <= MAX_PATHS
    }

    /// What is omitted, and why.
    pub fn omission(&self) -> Option<String> {
        let rows = self.rows.len();
        let gpus = self.rows_of(Kind::Gpu).count();
        match (self.has_all_pairs(), self.has_all_paths()) {
            (false, _) => Some(format!(
                "there are {rows} GPUs, NICs and NVMe controllers; gdr computes all pairs only up to {MAX_ROWS}"
            )),
            (true, false) => Some(format!(
                "{gpus} GPUs among {rows} rows make more than {MAX_PATHS} pairs with a GPU, the limit for paths"
            )),
            (true, true) => None,
        }
    }
}
