//! Facts → Topology: PCI forest, class of each pair, paths, best NIC of each GPU. Pure.

mod acs;
mod advice;
mod classify;
mod decisions;
mod forced_pcie;
mod forest;
mod hardware;
mod limits;
mod nccl;
mod nearest;
mod nvlinks;
mod pairing;
mod path;
mod rating;
mod rdma_path;
mod rows;
mod share;
mod topology;

#[cfg(test)]
mod tests;

pub use acs::{Redirect, redirects, verb};
pub use decisions::{nccl_decisions, nccl_level, nccl_number};
pub use forced_pcie::{
    Demand, ForcedPcie, forced_pcie, has_override as forced_pcie_has_override, is_efa,
    remedy as forced_pcie_remedy,
};
pub use forest::{Forest, Role};
pub use hardware::hardware;
pub use limits::{MAX_PATHS, MAX_ROWS};
pub use nccl::{NcclSystem, nccl_system};
pub use path::{Narrowest, narrowest};
pub use topology::{Topology, topology};
