//! RDMA devices: functions, nodes, ports, firmware and libraries. Only `rdma.device` judges software devices and the
//! management functions of NVSwitch systems, which are no NICs.

mod async_nic;
mod core;
mod counters;
mod data_direct;
mod device;
mod firmware;
mod lossless;
mod mixed_stack;
mod modules;
mod netns;
mod nonprefetchable;
mod port;
mod provider;
mod register;
mod uar_map;
mod write_ordering;

pub use nonprefetchable::{SETTING, prefetchable_nics};

use super::nics::{driver, nvidia_nics, rdma_nics};
use super::{Check, Ctx, Judgement, Source, or_skip};
use crate::model::{Area, Fact, NetworkInterface, PciDevice, RdmaDevice, RdmaPort, Severity};
use device::device;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "rdma.modules",
        rule: "Each RDMA device has its verbs node, and each NVIDIA NIC its RDMA device.",
        sources: "/sys/class/infiniband, /sys/class/infiniband_verbs, /dev/infiniband, PCI functions",
        severity: Severity::Warn,
        why: "Programs open a NIC through /dev/infiniband/uverbsN, which ib_uverbs creates. \
            Without it libibverbs lists no device, even if /sys has one.",
        remedy: "Load ib_uverbs, and mlx5_ib for NVIDIA NICs; rdma_ucm only for programs that use the \
            connection manager. rdma-core's udev rules do so at boot.",
        references: &["https://docs.kernel.org/infiniband/user_verbs.html"],
        explained_by: &["rdma.mixed-stack"],
        reads: &[],
        judge: modules::modules,
    },
    Check {
        id: "rdma.mixed-stack",
        rule: "All loaded RDMA modules belong to one stack: the kernel's own, or MLNX_OFED or \
            DOCA-OFED.",
        sources: "/proc/modules (modules that use mlx_compat: all of OFED's, none of the kernel's \
            own), /usr/bin/ofed_info",
        severity: Severity::Error,
        why: "Modules of two stacks reject each other's symbols ('disagrees about version'), and \
            nvidia-peermem works only with the stack that it was built against.",
        remedy: "Install the OFED modules for the running kernel (its packages rebuild them with \
            DKMS), or remove OFED completely.",
        references: &[
            "docs: NVIDIA DOCA-OFED, Installation",
            "https://github.com/cifsd-team/ksmbd/issues/574",
            "https://github.com/microsoft/lisa/pull/3134",
        ],
        explained_by: &[],
        reads: &[],
        judge: mixed_stack::mixed_stack,
    },
    Check {
        id: "rdma.device",
        rule: "At least one NIC supports RDMA, and this user may open it.",
        sources: "/sys/class/infiniband, /dev/infiniband",
        severity: Severity::Warn,
        why: "GPUDirect RDMA needs an RDMA NIC. A program cannot use a device without a verbs \
            node, or whose node the user may not open.",
        remedy: "Load the NIC's RDMA driver and ib_uverbs; pass the nodes to the container; allow \
            users to open them.",
        references: &["https://docs.kernel.org/infiniband/user_verbs.html"],
        explained_by: &["rdma.modules", "rdma.mixed-stack", "platform.container"],
        reads: &[],
        judge: device,
    },
    Check {
        id: "rdma.async-nic",
        rule: "There is a NIC of the mlx5 family: Connect-IB, ConnectX-4 or later, BlueField.",
        sources: "the kernel driver of each NIC",
        severity: Severity::Info,
        why: "With GPUDirect Async the GPU writes a NIC's doorbell and reads its completions, so \
            the queue layouts must be known: those of mlx5. A ConnectX-3 (mlx4) supports \
            GPUDirect RDMA, not Async.",
        remedy: "Use an mlx5 NIC. The old stack needed MLNX_OFED 4.2 or later, or 3.4 with a patched \
            libmlx5; today rdma-core's libmlx5 is enough.",
        references: &[
            "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
            "docs: mlx5dv(7)",
        ],
        explained_by: &[],
        reads: &[],
        judge: async_nic::async_nic,
    },
    Check {
        id: "rdma.provider",
        rule: "Each RDMA device has its user-space driver (provider library).",
        sources: "ibv_get_device_list, /sys/class/infiniband",
        severity: Severity::Error,
        why: "libibverbs opens one provider library for each kind of device (libmlx5, libefa, \
            ...). Programs do not find a device without its provider, even if /sys has it.",
        remedy: "Install the providers: Debian and Ubuntu ibverbs-providers, Fedora and RHEL \
            libibverbs, or the user space of the vendor's stack; in a container image, too.",
        references: &[
            "https://github.com/linux-rdma/rdma-core/blob/v64.0/Documentation/libibverbs.md",
        ],
        explained_by: &["rdma.device", "rdma.modules"],
        reads: &[Source::Verbs],
        judge: provider::provider,
    },
    Check {
        id: "rdma.netns",
        rule: "RDMA devices are shared among network namespaces, or this namespace has the devices \
            that it needs.",
        sources: "/sys/module/ib_core/parameters/netns_mode, /proc/self/ns",
        severity: Severity::Warn,
        why: "In exclusive mode a container sees only the RDMA devices that were moved into its \
            network namespace; in both modes a RoCE address works only in the namespace of its \
            interface.",
        remedy: "rdma dev set NAME netns CONTAINER for each device, as an SR-IOV or RDMA device \
            plugin does; or rdma system set netns shared while only the first network namespace \
            exists.",
        references: &[
            "https://man7.org/linux/man-pages/man8/rdma-system.8.html",
            "https://man7.org/linux/man-pages/man8/rdma-dev.8.html",
        ],
        explained_by: &[],
        reads: &[],
        judge: netns::netns,
    },
    Check {
        id: "rdma.port",
        rule: "A port is active; over Ethernet it has a RoCE v2 address that other machines can \
            reach and that is usable in this namespace; its packets have the full size. The MTU \
            is judged on active ports only: below 1024 bytes it warns, below 4096 it is noted.",
        sources: "/sys/class/infiniband/*/ports/*, /sys/class/net; under --live active_mtu and max_mtu of ibv_query_port",
        severity: Severity::Warn,
        why: "A port that is down transfers nothing. Programs address a RoCE peer by an index into \
            the GID table: an index of the wrong type, or of an interface in another namespace, \
            ends in timeouts (status 12, errno 110). A packet has up to 96 bytes of headers, \
            whatever its payload.",
        remedy: "Bring the link up; on InfiniBand start a subnet manager; on Ethernet give the \
            interface an IP address, and set the index variables to a RoCE v2 entry; an \
            interface MTU of 4192 or more, also on switches and peers, allows packets of 4096 \
            bytes.",
        references: &[
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
            "https://docs.kernel.org/admin-guide/abi-stable.html",
        ],
        explained_by: &["rdma.modules"],
        reads: &[Source::Verbs],
        judge: port::port,
    },
    Check {
        id: "rdma.counters",
        rule: "With --live: no counter of errors of an active port rises between two readings. Errors since the \
            counters were reset are noted, not judged.",
        sources: "/sys/class/infiniband/*/ports/*/counters and hw_counters, statistics of the port's network \
            interfaces (ethtool -S); under --live twice, 2 s apart",
        severity: Severity::Warn,
        why: "The transport of RDMA repeats lost packets in hardware, so a lossy or congested network shows \
            as a lower speed and nowhere else but in these counters. They count since the driver was \
            loaded, so only a rise says that something is wrong now.",
        remedy: "See the meaning and the usual cause of each counter in the finding. gdr probe rdma shows \
            which counters rise during its own traffic, at both ends.",
        references: &[
            "https://docs.kernel.org/admin-guide/abi-stable.html",
            "https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html",
            "https://enterprise-support.nvidia.com/s/article/understanding-mlx5-linux-counters-and-status-parameters",
        ],
        explained_by: &[],
        reads: &[Source::Network],
        judge: counters::counters,
    },
    Check {
        id: "rdma.lossless",
        rule: "Where priorities have flow control (PFC), RoCE packets travel in one of them, and DCQCN is on \
            for it; flow control is by priority or for the whole link, not both.",
        sources: "PFC, DSCP table and pause frames by netlink and ethtool; NCCL_IB_TC, UCX_IB_TRAFFIC_CLASS; \
            tc/*/traffic_class and ecn/roce_np, ecn/roce_rp of MLNX_OFED; default_roce_tos of the kernel",
        severity: Severity::Warn,
        why: "A NIC sorts packets into priorities by their DSCP or VLAN tag. If RoCE packets carry another one \
            than the lossless priority's, switches drop them under load although PFC is set up, and \
            RDMA repeats whole windows.",
        remedy: "Give programs the traffic class whose DSCP belongs to the lossless priority (NCCL_IB_TC, \
            UCX_IB_TRAFFIC_CLASS, --traffic-class of gdr probe rdma): 4 times the DSCP. Let the NIC trust \
            the DSCP (dcb app replace dev INTERFACE dscp-prio 26:3, or mlnx_qos --trust dscp), and set up \
            the switches in the same way.",
        references: &[
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
            "https://man7.org/linux/man-pages/man8/dcb-pfc.8.html",
            "https://man7.org/linux/man-pages/man8/dcb-app.8.html",
            "https://docs.nvidia.com/networking/display/MLNXOFEDv497100LTS/Explicit+Congestion+Notification+%28ECN%29",
            "https://docs.kernel.org/admin-guide/abi-testing.html",
        ],
        explained_by: &[],
        reads: &[Source::Network],
        judge: lossless::lossless,
    },
    Check {
        id: "rdma.core",
        rule: "libibverbs, its provider and the kernel register dma-buf memory.",
        sources: "the symbol ibv_reg_dmabuf_mr; under --live its answer to file -1",
        severity: Severity::Warn,
        why: "Without nvidia-peermem, a NIC gets GPU memory as a dma-buf. errno 95 (provider) and \
            93 (kernel) mean that dma-buf is not supported; every other number is about the file \
            only.",
        remedy: "Install rdma-core 34 or later (mlx5 34, efa 38, irdma 45, bnxt_re 48, mana 57, ionic \
            61; mlx4, rxe, erdma and hns have no such function) and kernel 5.12 or later. OFED \
            numbers its libibverbs differently: the symbol decides.",
        references: &[
            "https://github.com/linux-rdma/rdma-core/blob/v64.0/libibverbs/man/ibv_reg_mr.3",
            "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/transport/net_ib/gdr.cc",
        ],
        explained_by: &["rdma.device", "rdma.modules", "rdma.provider"],
        reads: &[Source::Verbs],
        judge: core::core,
    },
    Check {
        id: "rdma.register",
        rule: "With --live: the best NIC of a GPU registers some of its memory, by dma-buf or by \
            nvidia-peermem; for a GPU with NVLink-C2C also by the memory path expected of the pair.",
        sources: "under --live cuMemAlloc, then cuMemGetHandleForAddressRange with ibv_reg_dmabuf_mr, and ibv_reg_mr; for a \
            GPU with NVLink-C2C also with the PCIe mapping, by ibv_reg_dmabuf_mr and mlx5dv_reg_dmabuf_mr (Data Direct)",
        severity: Severity::Warn,
        why: "Modules, symbols and versions suggest that a memory path works; a registration \
            proves it. It does not prove that bytes arrive: gdr probe rdma transfers some.",
        remedy: "EFAULT (14) from ibv_reg_mr: load nvidia-peermem (peermem.loaded). 95 or 93 with a \
            dma-buf: provider or kernel cannot register it (rdma.core); no dma-buf at all: \
            gpu.dmabuf. ENOMEM (12): the limit of locked memory (limits.memlock), or a full BAR1 \
            (gpu.bar1). ENOTSUPP (524): the GPU's driver does not map its memory for this NIC \
            (param.grdma-topo); with the PCIe mapping, because they are not in one IOMMU group \
            (rdma.data-direct).",
        references: &[
            "https://docs.nvidia.com/cuda/gpudirect-rdma/",
            "https://github.com/linux-rdma/rdma-core/blob/v64.0/libibverbs/man/ibv_reg_mr.3",
            "https://github.com/linux-rdma/rdma-core/blob/v64.0/providers/mlx5/man/mlx5dv_reg_dmabuf_mr.3.md",
        ],
        explained_by: &[
            "gpu.driver",
            "rdma.device",
            "rdma.provider",
            "rdma.core",
            "peermem.loaded",
            "gpu.dmabuf",
            "param.grdma-topo",
            "limits.memlock",
            "pcie.iommu",
        ],
        reads: &[Source::Registration, Source::Verbs, Source::Modules],
        judge: register::register,
    },
    Check {
        id: "rdma.nonprefetchable",
        rule: "With a GPU older than Pascal, the NIC's first BAR is not prefetchable.",
        sources: "bit 3 of BAR 0 in the NIC's config; NON_PREFETCHABLE_PF_BAR of mlxconfig or mstconfig",
        severity: Severity::Info,
        why: "GPUs before Pascal cannot map the NIC's doorbell pages if its BAR is prefetchable: \
            GPUDirect Async then cannot register them.",
        remedy: "mlxconfig -d BDF set NON_PREFETCHABLE_PF_BAR=1 and a firmware reset. The BAR must \
            then fit below 4 GiB, where bridges have little space: PF_LOG_BAR_SIZE may have to \
            shrink first, or the NIC may not come up.",
        references: &[
            "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
            "https://github.com/Mellanox/mstflint",
        ],
        explained_by: &[],
        reads: &[Source::Settings],
        judge: nonprefetchable::nonprefetchable,
    },
    Check {
        id: "rdma.write-ordering",
        rule: "The NIC may relax the order of its writes.",
        sources: "Device Control of the NIC's PCI Express capability; PCI_WR_ORDERING of mlxconfig or mstconfig",
        severity: Severity::Info,
        why: "Writes that must stay in order wait for each other: on AMD EPYC and in virtual \
            machines this costs most of the bandwidth into GPU memory.",
        remedy: "Turn on relaxed ordering in the firmware's setup; programs then request it per \
            region (NCCL does), or PCI_WR_ORDERING=force_relax sets it for all.",
        references: &["https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"],
        explained_by: &[],
        reads: &[],
        judge: write_ordering::write_ordering,
    },
    Check {
        id: "rdma.data-direct",
        rule: "The driver maps a coherent GPU's memory for a ConnectX-8 Data Direct function over PCI Express.",
        sources: "PCI functions 15b3:2100, iommu_group, driver version, /proc/driver/nvidia/params",
        severity: Severity::Info,
        why: "On Grace Blackwell the Data Direct function writes to GPU memory over PCI Express \
            instead of through the CPU. The driver maps memory for it if both are in one IOMMU group or in none, or, \
            before 595, if NVreg_GrdmaPciTopoCheckOverride=1.",
        remedy: "Set the ACS bits that rdma_topo prints for Data Direct on the kernel command line \
            (pci=config_acs=...).",
        references: &[
            "https://docs.nvidia.com/multi-node-nvlink-systems/grace-blackwell-cx8-gpudirect-rdma-guide/",
            "https://github.com/linux-rdma/rdma-core/blob/v64.0/kernel-boot/rdma_topo",
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/kernel-open/nvidia/nv-pci.c",
        ],
        explained_by: &[],
        reads: &[],
        judge: data_direct::data_direct,
    },
    Check {
        id: "rdma.firmware",
        rule: "The NIC's firmware is not older than the oldest supported version.",
        sources: "/sys/class/infiniband/*/fw_ver, profiles/devices.toml",
        severity: Severity::Info,
        why: "Firmware older than a device's first public release was never meant for production.",
        remedy: "Update the firmware with the vendor's tool (mlxfwmanager, mstflint).",
        references: &[
            "docs: profiles/devices.toml names the source of each number",
            "https://docs.nvidia.com/networking/display/connectx8firmwarev40440208/changes+and+new+features",
        ],
        explained_by: &[],
        reads: &[],
        judge: firmware::firmware,
    },
    Check {
        id: "rdma.uar-map",
        rule: "With --live: CUDA registers the doorbell page of an mlx5 NIC for each GPU.",
        sources: "under --live mlx5dv_init_obj on a queue pair in a thread domain, cuMemHostRegister with \
                  CU_MEMHOSTREGISTER_IOMEMORY on its register",
        severity: Severity::Info,
        why: "With GPUDirect Async the GPU rings the NIC's doorbell. CUDA error 800: the driver \
            allows peer mappings only with CAP_SYS_ADMIN (PeerMappingOverride is off); 304: the \
            driver could not follow the mapping in this kernel; 801: the driver maps no \
            registers on this platform.",
        remedy: "For 800 set NVreg_RegistryDwords=\"PeerMappingOverride=1;\" for the nvidia module, \
            and reload it; for 304 use a driver made for this kernel. Until then a CPU thread \
            can ring the doorbell (gdr probe async --hca proxy).",
        references: &[
            "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/arch/nvalloc/unix/src/osmemdesc.c",
            "https://github.com/gpudirect/libgdsync/issues/97",
            "https://github.com/deepseek-ai/DeepEP/issues/163",
        ],
        explained_by: &["gpu.driver", "rdma.device", "param.peer-mapping"],
        reads: &[Source::Registration, Source::Modules],
        judge: uar_map::uar_map,
    },
];

const CLASS: &str = "/sys/class/infiniband";

/// Judges each NIC; one judgement if there is none.
fn each_nic(ctx: &Ctx<'_>, judge: impl Fn(&RdmaDevice) -> Vec<Judgement>) -> Vec<Judgement> {
    if let Fact::Unknown(why) = ctx.facts.rdma {
        return vec![Judgement::unknown("machine", why, Area::Sys, CLASS)];
    }
    let judgements: Vec<Judgement> = rdma_nics(ctx.facts).flat_map(judge).collect();
    or_skip(judgements, "There is no NIC with RDMA.")
}

/// Judges each port of each NIC; one judgement if there is no NIC.
fn each_port(ctx: &Ctx<'_>, judge: impl Fn(&RdmaDevice, &RdmaPort) -> Judgement) -> Vec<Judgement> {
    each_nic(ctx, |nic| match &nic.ports {
        Fact::Known(ports) => ports.iter().map(|port| judge(nic, port)).collect(),
        Fact::Unknown(why) => vec![Judgement::unknown(
            &nic.name,
            *why,
            Area::Sys,
            &format!("{CLASS}/{}/ports", nic.name),
        )],
    })
}

/// The device name, with the port number if it has several ports.
fn subject(nic: &RdmaDevice, port: &RdmaPort) -> String {
    match nic.ports.known().map_or(0, Vec::len) {
        0 | 1 => nic.name.clone(),
        _ => format!("{}/{}", nic.name, port.number),
    }
}

/// The network interfaces of a port, by name, as far as the kernel answered.
fn interfaces<'a>(
    ctx: &Ctx<'a>,
    nic: &RdmaDevice,
    port: &RdmaPort,
) -> impl Iterator<Item = (&'a String, &'a NetworkInterface)> {
    let port = format!("{}:{}", nic.name, port.number);
    let network = ctx.facts.network.known().into_iter();
    network
        .flat_map(|network| &network.interfaces)
        .filter(move |(_, interface)| interface.port == port)
}

/// Judges each mlx5 NIC; one judgement for every NIC with another or an unknown driver.
fn each_mlx5(ctx: &Ctx<'_>, judge: impl Fn(&RdmaDevice) -> Vec<Judgement>) -> Vec<Judgement> {
    each_nic(ctx, |nic| match driver(ctx.facts, nic) {
        Fact::Known(driver) if driver == MLX5 => judge(nic),
        Fact::Known(driver) => {
            vec![Judgement::skip(&nic.name, format!("It is no mlx5 NIC: {driver} drives it."))]
        }
        Fact::Unknown(why) => {
            vec![Judgement::unknown(&nic.name, why, Area::Sys, "the NIC's driver")]
        }
    })
}

/// The kernel module that makes these NICs RDMA devices.
fn rdma_module<'a>(mut nics: impl Iterator<Item = &'a PciDevice>) -> &'static str {
    let is_mlx4 = |nic: &PciDevice| {
        let driver = nic.attributes.as_ref().and_then(|attributes| attributes.driver.present());
        driver.is_some_and(|driver| driver == "mlx4_core")
    };
    match nics.all(is_mlx4) {
        true => "mlx4_ib",
        false => "mlx5_ib",
    }
}

/// The kernel driver of Connect-IB, ConnectX-4 and later, and BlueField.
const MLX5: &str = "mlx5_core";
