//! What is known of NICs by the name of their kernel driver: by which paths it reaches GPU memory, since which versions, and what it lacks.
//! A kernel of a distribution may have a driver that is newer than its number.

/// A driver of NICs.
#[derive(Debug, PartialEq, Eq)]
pub struct NicDriver {
    /// The drivers of its PCI functions.
    pub functions: &'static [&'static str],
    /// Its name as an RDMA driver.
    pub name: &'static str,
    pub dmabuf: Dmabuf,
    /// It registers memory that a peer memory client of the kernel (nvidia-peermem) resolves.
    pub peer_memory: bool,
    /// Why a NIC of it may report no atomic operations.
    pub atomics: Option<&'static str>,
}

/// Registration of dma-bufs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dmabuf {
    /// The first releases of Linux and of rdma-core.
    Since { kernel: (u32, u32), rdma_core: u32 },
    /// No release so far.
    Never,
}

const fn since(kernel: (u32, u32), rdma_core: u32) -> Dmabuf {
    Dmabuf::Since { kernel, rdma_core }
}

/// `.reg_user_mr_dmabuf` of the driver's `ib_device_ops`, by the pull requests of the RDMA subsystem for each release (6.3 irdma, 6.6
/// bnxt_re, 6.15 mana), and `reg_dmabuf_mr` of the provider in rdma-core's tags.
const DRIVERS: [NicDriver; 9] = [
    NicDriver {
        functions: &["mlx5_core"],
        name: "mlx5",
        dmabuf: since((5, 12), 34),
        peer_memory: true,
        atomics: None,
    },
    NicDriver {
        functions: &["mlx4_core"],
        name: "mlx4",
        dmabuf: Dmabuf::Never,
        peer_memory: true,
        atomics: None,
    },
    NicDriver {
        functions: &["efa"],
        name: "efa",
        dmabuf: since((5, 16), 38),
        peer_memory: true,
        atomics: Some("EFA has none"),
    },
    NicDriver {
        functions: &["ice", "i40e", "idpf", "irdma"],
        name: "irdma",
        dmabuf: since((6, 3), 45),
        peer_memory: false,
        // Linux 6.12, drivers/infiniband/hw/irdma/verbs.c: irdma_query_device leaves atomic_cap at IB_ATOMIC_NONE.
        atomics: Some("irdma has none on Intel's X722 and E810"),
    },
    NicDriver {
        functions: &["bnxt_en"],
        name: "bnxt_re",
        dmabuf: since((6, 6), 48),
        peer_memory: true,
        // Linux 6.12, drivers/infiniband/hw/bnxt_re/main.c: bnxt_re_setup_chip_ctx.
        atomics: Some(
            "bnxt_re may have none where a bridge up to the root port does not route PCI Express atomics: its kernel log then says \
             'platform doesn't support global atomics'",
        ),
    },
    NicDriver {
        functions: &["mana"],
        name: "mana",
        dmabuf: since((6, 15), 57),
        peer_memory: false,
        atomics: None,
    },
    NicDriver {
        functions: &["ionic"],
        name: "ionic",
        dmabuf: since((6, 18), 61),
        peer_memory: false,
        atomics: None,
    },
    NicDriver {
        functions: &["erdma"],
        name: "erdma",
        dmabuf: Dmabuf::Never,
        peer_memory: true,
        atomics: None,
    },
    NicDriver {
        functions: &["hns3", "hns-roce"],
        name: "hns",
        dmabuf: Dmabuf::Never,
        peer_memory: true,
        atomics: None,
    },
];

impl NicDriver {
    /// The driver of a NIC, by that of its PCI function.
    pub fn of(function: &str) -> Option<&'static Self> {
        DRIVERS.iter().find(|driver| driver.functions.contains(&function))
    }

    /// From which versions on it registers dma-bufs, as a clause.
    pub fn dmabuf_versions(&self) -> String {
        let name = self.name;
        match self.dmabuf {
            Dmabuf::Since { kernel: (major, minor), rdma_core } => format!(
                "{name} registers dma-bufs from Linux {major}.{minor} and rdma-core {rdma_core} on"
            ),
            Dmabuf::Never => format!("{name} registers no dma-buf"),
        }
    }
}

/// From which version of rdma-core on each provider registers dma-bufs, oldest first.
pub fn dmabuf_providers() -> String {
    let provider = |driver: &NicDriver| match driver.dmabuf {
        Dmabuf::Since { rdma_core, .. } => Some(format!("{} {rdma_core}", driver.name)),
        Dmabuf::Never => None,
    };
    let providers: Vec<String> = DRIVERS.iter().filter_map(provider).collect();
    providers.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_one_driver() {
        let name = |function| NicDriver::of(function).map(|driver| driver.name);
        assert_eq!(name("ice"), Some("irdma"));
        assert_eq!(name("bnxt_en"), Some("bnxt_re"));
        assert_eq!(name("virtio-pci"), None);
    }

    #[test]
    fn versions_in_words() {
        let words = |function| NicDriver::of(function).map(NicDriver::dmabuf_versions);
        assert_eq!(
            words("bnxt_en").as_deref(),
            Some("bnxt_re registers dma-bufs from Linux 6.6 and rdma-core 48 on")
        );
        assert_eq!(words("erdma").as_deref(), Some("erdma registers no dma-buf"));
        assert_eq!(dmabuf_providers(), "mlx5 34, efa 38, irdma 45, bnxt_re 48, mana 57, ionic 61");
    }
}
