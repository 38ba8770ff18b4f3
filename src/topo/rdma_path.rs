//! The path that a NIC is expected to take to a GPU's memory, as NCCL chooses it: Data Direct, NVLink-C2C or PCI Express.

use super::classify::class;
use super::forced_pcie::{Demand, is_efa};
use super::topology::{Topology, end_of};
use crate::model::{
    Bdf, Fact, Facts, Ids, Kind, PciClass, RdmaPath, Row, VerbsOutcome, VerbsTrial, Why,
};

/// aws-ofi-nccl exports each buffer of its own with `CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE` (src/nccl_ofi_cuda.cpp, since
/// August 2025), and without its flush buffer NCCL has no GPUDirect RDMA.
const EFA: &str = "NCCL's plugin for EFA (aws-ofi-nccl)";

/// NCCL v2.30.7-1, src/graph/paths.cc: on systems with NVLink-C2C the mapping is forced unless the path is P2C.
const NCCL: &str = "NCCL";

impl Topology<'_> {
    /// The expected path between a GPU and a NIC, in either order; unknown if a fact that decides it is missing, and for a software NIC.
    pub fn rdma_path(&self, a: usize, b: usize) -> Fact<RdmaPath> {
        let kind = |row: usize| self.rows.get(row).map(|row| row.kind);
        let (gpu, nic) = match (kind(a), kind(b)) {
            (Some(Kind::Gpu), Some(Kind::Nic)) => (a, b),
            (Some(Kind::Nic), Some(Kind::Gpu)) => (b, a),
            _ => return Fact::Unknown(Why::NotCovered),
        };
        let row = &self.rows[nic];
        if row.software || row.bdf.is_none() {
            return Fact::Unknown(Why::NotCovered);
        }
        match self.is_coherent(gpu) {
            Fact::Known(true) => {}
            Fact::Known(false) => return Fact::Known(RdmaPath::Pcie),
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
        let bdf = self.rows[gpu].bdf;
        match data_direct(self.facts, row) {
            Fact::Known(function @ Some(_)) => match self.is_below_one_bridge(bdf, function) {
                Fact::Known(true) => return Fact::Known(RdmaPath::DataDirect),
                Fact::Known(false) => {}
                Fact::Unknown(why) => return Fact::Unknown(why),
            },
            Fact::Known(None) => {}
            Fact::Unknown(why) => return Fact::Unknown(why),
        }
        let is_below = self.is_below_one_bridge(bdf, row.bdf);
        is_below.map(|is_below| if is_below { RdmaPath::Pcie } else { RdmaPath::C2c })
    }

    /// What asks for the forced mapping of a GPU's memory for a NIC; none if the default mapping serves it, or if the GPU is not coherent.
    pub fn forced_mapping(&self, gpu: usize, nic: usize) -> Fact<Option<Demand>> {
        let (Some(gpu_row), Some(nic_row)) = (self.rows.get(gpu), self.rows.get(nic)) else {
            return Fact::Unknown(Why::NotCovered);
        };
        let Some(function) = nic_row.bdf.filter(|_| gpu_row.coherent) else {
            return Fact::Known(None);
        };
        if self.device(nic).is_some_and(is_efa) {
            // NCCL does not use GPUDirect RDMA across sockets.
            return match (&gpu_row.numa, &nic_row.numa) {
                (Fact::Known(Some(a)), Fact::Known(Some(b))) if a != b => Fact::Known(None),
                _ => Fact::Known(Some(Demand { by: EFA, function })),
            };
        }
        self.rdma_path(gpu, nic).and_then(|path| match path {
            RdmaPath::C2c => Fact::Known(None),
            RdmaPath::Pcie => Fact::Known(Some(Demand { by: NCCL, function })),
            RdmaPath::DataDirect => data_direct(self.facts, nic_row)
                .map(|function| function.map(|function| Demand { by: NCCL, function })),
        })
    }

    fn is_coherent(&self, gpu: usize) -> Fact<bool> {
        let ids = self.device(gpu).map(|device| device.ids.clone());
        ids.unwrap_or_default().and_then(|ids| match ids.device {
            Some(_) if !ids.is_unknown_gpu() => Fact::Known(ids.is_coherent_gpu()),
            Some(_) | None => Fact::Unknown(Why::NotCovered),
        })
    }

    /// Whether two functions have a path that does not pass the host bridge, so that the GPU's PCIe mapping serves it.
    fn is_below_one_bridge(&self, a: Option<Bdf>, b: Option<Bdf>) -> Fact<bool> {
        // NUMA nodes tell only farther classes apart.
        let end = |bdf| end_of(self.facts, bdf, Fact::Known(None));
        class(self.facts, &end(a), &end(b))
            .map(|class| matches!(class, PciClass::Pix | PciClass::Pxb))
    }
}

/// The NIC's Data Direct function: as libmlx5 named it, or none on a machine that has no such function.
fn data_direct(facts: &Facts, nic: &Row) -> Fact<Option<Bdf>> {
    let trials = match &facts.verbs {
        Fact::Known(VerbsOutcome::Read(verbs)) => verbs.trials.as_ref(),
        _ => None,
    };
    if let Some(VerbsTrial::Opened(device)) = trials.and_then(|trials| trials.get(&nic.label))
        && let Fact::Known(function) = device.data_direct
    {
        return Fact::Known(function);
    }
    match &facts.pci {
        Fact::Unknown(why) => return Fact::Unknown(*why),
        Fact::Known(_) if facts.partial => return Fact::Unknown(Why::NotCovered),
        Fact::Known(_) => {}
    }
    let mut devices = facts.devices().iter();
    if devices.any(|device| device.ids.known().is_some_and(Ids::is_data_direct)) {
        // Which NIC it belongs to, only libmlx5 tells.
        Fact::Unknown(Why::NotCovered)
    } else {
        Fact::Known(None)
    }
}
