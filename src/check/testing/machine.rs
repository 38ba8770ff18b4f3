//! The machine, part by part.

use std::collections::BTreeMap;

use super::{BRIDGES, GPU, NIC, bdf, set_acs};
use crate::model::config::*;
use crate::model::*;

/// A PCI Express capability with a link: current speed and width, best speed and width.
pub fn express(current: (u8, u8), max: (u8, u8)) -> Fact<Option<Express>> {
    let link = |(speed, width)| Link { speed: LinkSpeed(speed), width };
    Fact::Known(Some(Express {
        offset: 0x60,
        port: PortType::Endpoint,
        max_payload: 256,
        max_read_request: 4096,
        relaxed_ordering: true,
        extended_tag: true,
        no_snoop: false,
        link: Some(LinkPair {
            max: link(max),
            current: link(current),
            target: None,
            aspm_enabled: Aspm::default(),
            port_number: 0,
        }),
    }))
}

fn device(address: &str, bridges: &[&str], ids: (u16, u16, u32), driver: &str) -> PciDevice {
    let root = RootBus { domain: 0, bus: 0 };
    let window = |bar, size| Resource { bar, start: 1 << 44, size, flags: 0x14_220c };
    PciDevice {
        bdf: bdf(address),
        place: Fact::Known(PciPath {
            root,
            rooted: true,
            bridges: bridges.iter().map(|bridge| bdf(bridge)).collect(),
        }),
        ids: Fact::Known(Ids { vendor: ids.0, device: Some(ids.1), class: ids.2 }),
        numa_node: Fact::Known(Some(0)),
        config: Config {
            express: express((5, 16), (5, 16)),
            acs: Fact::Known(None),
            ats: Fact::Known(None),
            ..Config::default()
        },
        attributes: Some(Box::new(Attributes {
            driver: Fact::Known(Some(driver.to_owned())),
            resources: Fact::Known(vec![
                window(0, 16 << 20),
                window(2, 256 << 30),
                window(4, 32 << 20),
            ]),
            iommu_group: Fact::Known(None),
            physical_function: Fact::Known(None),
            errors: Fact::Known(Some(ErrorCounts::default())),
            ..Attributes::default()
        })),
    }
}

/// An H200 below the root port 00:BUS.0.
pub fn gpu(address: &str) -> PciDevice {
    let port = format!("0000:00:{:02x}.0", bdf(address).bus);
    device(address, &[&port], (Ids::NVIDIA, 0x2335, 0x03_0200), "nvidia")
}

pub fn root_port(address: &str) -> PciDevice {
    device(address, &[], (0x8086, 0x352a, 0x06_0400), "pcieport")
}

/// An RDMA device on a PCI function, with one active port.
pub fn rdma(name: &str, at: &str) -> RdmaDevice {
    RdmaDevice {
        name: name.to_owned(),
        place: Fact::Known(Some(bdf(at))),
        parent: Fact::Known(None),
        ports: Fact::Known(vec![RdmaPort {
            number: 1,
            state: Fact::Known("ACTIVE".to_owned()),
            link_layer: Fact::Known("InfiniBand".to_owned()),
            rate: Fact::Known("400 Gb/sec (4X NDR)".to_owned()),
            physical_state: Fact::Known("LinkUp".to_owned()),
            counters: Fact::Known(Some(BTreeMap::new())),
            ..RdmaPort::default()
        }]),
        uverbs: Fact::Known(Some(node("/dev/infiniband/uverbs0", 231))),
        management: Fact::Known(false),
        physical_function: Fact::Known(None),
        firmware: Fact::Known(Some("28.43.2026".to_owned())),
        ..RdmaDevice::default()
    }
}

/// A node that everybody may use.
pub fn node(path: &str, major: u32) -> NodeFile {
    NodeFile {
        path: path.to_owned(),
        state: Fact::Known(Some(NodeState {
            character: true,
            major,
            minor: 0,
            mode: 0o666,
            usable: Fact::Known(true),
        })),
    }
}

/// A line of options, the first of its file.
pub fn options(file: &str, module: &str, options: &str) -> Directive {
    Directive {
        source: file.to_owned(),
        line: 1,
        command: crate::model::Command::Options {
            module: module.to_owned(),
            options: options.to_owned(),
        },
    }
}

/// An H200 as CUDA sees it.
fn cuda_gpu(ordinal: u32, at: &str) -> CudaGpu {
    let (yes, no) = (Fact::Known(true), Fact::Known(false));
    CudaGpu {
        ordinal,
        bdf: Some(bdf(at)),
        name: Fact::Known("NVIDIA H200".to_owned()),
        compute: Fact::Known(ComputeCapability { major: 9, minor: 0 }),
        integrated: no.clone(),
        stream_memops: StreamMemops {
            v1: no.clone(),
            v1_64_bit: no.clone(),
            v1_nor: no.clone(),
            v2_64_bit: yes.clone(),
            v2_nor: yes.clone(),
        },
        flush_remote_writes: no.clone(),
        rdma: yes.clone(),
        rdma_flush: Fact::Known(1),
        rdma_ordering: Fact::Known(200),
        dma_buf: yes,
        fabric_handles: no,
        memory_node: Fact::Known(None),
    }
}

/// The machine with a second GPU, which both libraries know as a peer of the first.
pub fn two_gpus(second: &str) -> Facts {
    let mut facts = machine();
    super::Edit::add(&mut facts, gpu(second));
    if let Fact::Known(NvmlOutcome::Read(nvml)) = &mut facts.nvml {
        nvml.gpus.push(NvmlGpu { index: 1, bdf: bdf(second), ..nvml.gpus[0].clone() });
        let granted = [P2pCapability::Read, P2pCapability::Write]
            .map(|way| (way, Fact::Known(P2pStatus::Ok)));
        nvml.pairs = [(0, 1), (1, 0)]
            .map(|(from, to)| NvmlPair { from, to, p2p: granted.clone().into() })
            .to_vec();
    }
    if let Fact::Known(CudaOutcome::Read(cuda)) = &mut facts.cuda {
        cuda.gpus.push(cuda_gpu(1, second));
        cuda.pairs = [(0, 1), (1, 0)]
            .map(|(from, to)| CudaPair {
                from,
                to,
                can_access: Fact::Known(true),
                ..CudaPair::default()
            })
            .to_vec();
    }
    facts
}

pub fn machine() -> Facts {
    let [root, up, gpu_port, nic_port] = BRIDGES;
    let bridge = |address, bridges: &[&str]| {
        device(address, bridges, (0x1000, 0xc030, 0x06_0400), "pcieport")
    };
    let mut facts = Facts {
        pci: Fact::Known(vec![
            root_port(root),
            bridge(up, &[root]),
            bridge(gpu_port, &[root, up]),
            bridge(nic_port, &[root, up]),
            device(GPU, &[root, up, gpu_port], (Ids::NVIDIA, 0x2335, 0x03_0200), "nvidia"),
            device(NIC, &[root, up, nic_port], (Ids::MELLANOX, 0x1021, 0x02_0700), "mlx5_core"),
        ]),
        numa: Fact::Known(vec![NumaNode { id: 0, cpus: IdList::new(0..32) }]),
        rdma: Fact::Known(vec![rdma("mlx5_0", NIC)]),
        rdma_stack: RdmaStack {
            shared: Fact::Known(Some(true)),
            connection_manager: Fact::Known(true),
            ofed: Fact::Known(false),
            mlx5_version: Fact::Known(None),
            efa_version: Fact::Known(None),
        },
        verbs: Fact::Known(VerbsOutcome::Read(Box::new(Verbs {
            devices: vec!["mlx5_0".to_owned()],
            library: Some("/usr/lib/x86_64-linux-gnu/libibverbs.so.1".to_owned()),
            reg_dmabuf_mr: Fact::Known(true),
            trials: None,
        }))),
        nvidia_nodes: Fact::Known(
            ["/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"]
                .map(|path| node(path, 195))
                .to_vec(),
        ),
        ..Facts::default()
    };
    for port in [root, gpu_port, nic_port] {
        // Source validation and upstream forwarding alone redirect nothing.
        set_acs(&mut facts, port, 0x11);
    }
    facts.driver = driver();
    facts.nvml = Fact::Known(NvmlOutcome::Read(Box::new(nvml())));
    facts.cuda = Fact::Known(CudaOutcome::Read(Box::new(Cuda {
        driver_version: Fact::Known(13000),
        gpus: vec![cuda_gpu(0, GPU)],
        ..Cuda::default()
    })));
    let peer_memory = &mut facts.peer_memory;
    peer_memory.nvidia_peermem = Fact::Known(true);
    peer_memory.nv_peer_mem = Fact::Known(false);
    peer_memory.clients = Fact::Known(Some(vec!["nv_mem".to_owned(), "nv_mem_nc".to_owned()]));
    peer_memory.nv_peer_mem_version = Fact::Known(None);
    peer_memory.peerdirect_support = Fact::Known(Some("0".to_owned()));
    let gdrdrv = &mut facts.gdrdrv;
    gdrdrv.node = Some(node("/dev/gdrdrv", 240));
    gdrdrv.version = Fact::Known(Some("2.5".to_owned()));
    gdrdrv.params = Fact::Known(Some(
        [
            ("Version", "2.5"),
            ("Built for NVIDIA driver flavor", "opensource"),
            ("Use persistent mapping", "yes"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    ));
    facts.kernel = Kernel {
        release: Fact::Known("6.8.0-90-generic".to_owned()),
        command_line: Fact::Known("ro quiet".to_owned()),
        modules: Fact::Known(Vec::new()),
        char_devices: Fact::Known(BTreeMap::from([("gdrdrv".to_owned(), vec![240])])),
        iommus: Fact::Known(Vec::new()),
        cma: Fact::Known(None),
        ..Kernel::default()
    };
    let module_files = &mut facts.module_files;
    module_files.on_disk =
        Fact::Known(Some(vec![module_file("nvidia_peermem", &["ib_uverbs", "ib_core", "nvidia"])]));
    module_files.peer_memory_exporters = Fact::Known(Some(vec!["ib_uverbs".to_owned()]));
    module_files.at_boot = Fact::Known(vec![AtBoot {
        path: "/etc/modules-load.d/nvidia-peermem.conf".to_owned(),
        names: "nvidia-peermem".to_owned(),
    }]);
    module_files.ofed = Fact::Known(Some("24.10-1.1.4".to_owned()));
    module_files.openibd = Fact::Known(false);
    let limits = &mut facts.limits;
    limits.memlock_settings = Fact::Known(Vec::new());
    limits.services = Fact::Known(Vec::new());
    limits.rdma_cgroup = Fact::Known(Vec::new());
    limits.max_map_count = Fact::Known(65530);
    facts.environment = Fact::Known(BTreeMap::new());
    facts.software = Software {
        libraries: Fact::Known(vec![Library {
            name: "libcuda.so.1".to_owned(),
            path: "/usr/lib64/libcuda.so.1".to_owned(),
            version: Some("580.159.04".to_owned()),
            found: Found::Cache,
            plugins: None,
            words: Fact::Known(Vec::new()),
        }]),
        perftest: Fact::Known(None),
        unread: BTreeMap::new(),
    };
    facts.modprobe = Modprobe {
        directories: vec!["/etc/modprobe.d".to_owned()],
        directives: Fact::Known(vec![options(
            "/etc/modprobe.d/nvidia.conf",
            "nvidia",
            "NVreg_RegistryDwords=\"PeerMappingOverride=1;\"",
        )]),
        command_line: Fact::Known(Vec::new()),
        initramfs: Some(Fact::Known(Some(Initramfs {
            path: "/boot/initrd.img-6.8.0-90-generic".to_owned(),
            packing: vec!["zstd".to_owned()],
            ..Initramfs::default()
        }))),
        ..Modprobe::default()
    };
    facts.process = Process {
        memlock_soft: Fact::Known(None),
        memlock_hard: Fact::Known(None),
        capabilities: Fact::Known(0),
        uid: Fact::Known(1000),
        initial_user_namespace: Fact::Known(true),
        ..Process::default()
    };
    facts.platform = Platform {
        hypervisor_flag: Fact::Known(false),
        architecture: Fact::Known("x86_64".to_owned()),
        dmi_vendor: Fact::Known(Some("Supermicro".to_owned())),
        container_marks: Fact::Known(Vec::new()),
        lockdown: Fact::Known(Some("none".to_owned())),
        secure_boot: Fact::Known(None),
        mounts: Fact::Known(vec![Mount {
            at: "/dev/shm".to_owned(),
            kind: "tmpfs".to_owned(),
            read_only: false,
            size: None,
        }]),
        ..Platform::default()
    };
    facts
}

/// A module on disk and what it needs.
fn module_file(name: &str, needs: &[&str]) -> ModuleFile {
    ModuleFile {
        name: name.to_owned(),
        path: format!("updates/dkms/{}.ko.zst", name.replace('_', "-")),
        needs: needs.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn driver() -> Driver {
    let params = [
        ("EnableStreamMemOPs", "0"),
        ("DmaRemapPeerMmio", "1"),
        ("RegistryDwords", "PeerMappingOverride=1;"),
        ("RegistryDwordsPerDevice", ""),
    ];
    let line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)";
    let model = DriverGpu { model: Some("NVIDIA H200".to_owned()), ..DriverGpu::default() };
    Driver {
        version_line: Fact::Known(Some(line.to_owned())),
        module_version: Fact::Known(Some("580.159.04".to_owned())),
        params: Fact::Known(Some(
            params.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        )),
        gpus: Fact::Known(BTreeMap::from([(bdf(GPU), model)])),
    }
}

fn nvml() -> Nvml {
    let unknown = Why::NotCovered;
    Nvml {
        driver_version: Fact::Known("580.159.04".to_owned()),
        cuda_version: Fact::Known(13000),
        gpus: vec![NvmlGpu {
            index: 0,
            bdf: bdf(GPU),
            name: Fact::Known("NVIDIA H200".to_owned()),
            uuid: Fact::Unknown(unknown),
            minor: Fact::Known(0),
            active_links: Fact::Known(Vec::new()),
            inactive_links: Fact::Known(0),
            link_errors: Fact::Unknown(unknown),
            memory_node: Fact::Known(None),
            bar1: Fact::Known(Bar1 { total: 256 << 30, used: 1 << 30 }),
            memory_total: Fact::Known(150_754_820_096),
            persistence: Fact::Known(true),
            mig: Fact::Known(false),
            fabric: Fact::Known("not_supported".to_owned()),
            fabric_registration: Fact::Unknown(unknown),
            performance_state: Fact::Known(0),
            virtualization: Fact::Known("none".to_owned()),
            architecture: Fact::Known("hopper".to_owned()),
        }],
        ..Nvml::default()
    }
}
