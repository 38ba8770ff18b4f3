//! Dumps of other tools with as much as fits into a size.

use std::fmt::Write as _;

use super::super::dump::packed;
use super::made::address;
use super::products::{FIRST, SEPARATOR, entry};
use super::{Input, filled};

/// Functions of all formats: short ones, long ones, nested ones, and what is not a dump although it begins as one.
pub fn dumps(size: usize) -> Vec<Input> {
    let filled =
        |head: &str, item: &dyn Fn(usize) -> String, end: &str| filled(size, head, item, end);
    let gpu = |at: usize| {
        format!(
            "{} 3D controller [0302]: NVIDIA Corporation GH100 [10de:2330] (rev a1)\n",
            address(at, 0)
        )
    };
    let with_acs = |at: usize| {
        let class = if at.is_multiple_of(16) {
            "3D controller [0302]: X [10de:2330]"
        } else {
            "PCI bridge [0604]: X [1000:c030]"
        };
        format!(
            "{} {class}\n\tCapabilities: [100 v1] Access Control Services\n\t\tACSCtl: SrcValid+ TransBlk- ReqRedir+\n",
            address(at, 0)
        )
    };
    let hexadecimal = |at: usize| {
        let row = "00: de 10 30 23 46 05 10 00 a1 00 02 03 00 00 00 00\n";
        format!("{} 3D controller [0302]: X [10de:2330]\n{}\n", address(at, 0), row.repeat(16))
    };
    let xml = |inner: &str| {
        format!(
            "<topology version=\"2.0\"><object type=\"Machine\" cpuset=\"0x1\" nodeset=\"0x1\" complete_nodeset=\"0x1\">{inner}"
        )
    };
    let xml_gpu = |at: usize| {
        format!(
            "<object type=\"PCIDev\" pci_busid=\"{}\" pci_type=\"0302 [10de:2330] [0:0] a1\"/>",
            address(at, 0)
        )
    };
    let end = "</object></topology>";
    let mut few = xml("");
    (0..16_384).for_each(|at| few.push_str(&xml_gpu(at)));
    few.push_str(end);
    // Each function is near every second of 2,000 CPUs.
    let cpus = vec!["0x55555555"; 63].join(",");
    let mut many_cpus = xml("").replace("cpuset=\"0x1\"", &format!("cpuset=\"{cpus}\""));
    many_cpus.push_str(&format!(
        "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"{cpus}\" nodeset=\"0x1\"/>"
    ));
    (0..8_192).for_each(|at| many_cpus.push_str(&xml_gpu(at)));
    many_cpus.push_str(end);
    let attributes = (0..600_000).fold(xml("<object type=\"PCIDev\" "), |mut text, at| {
        write!(text, "a{at}=\"\" ").expect("a string takes it");
        text
    });
    vec![
        Input::new("lspci", filled("", &gpu, "")),
        Input::new("lspci short", filled("", &|at| format!("{:02x}:00.0 a: b\n", at % 256), "")),
        Input::new(
            "lspci names",
            filled(
                "",
                &|at| {
                    format!(
                        "{} VGA compatible controller: NVIDIA Corporation GH100 [H{at}]\n",
                        address(at, 0)
                    )
                },
                "",
            ),
        ),
        Input::new("lspci capabilities", filled("", &with_acs, "")),
        Input::new("lspci hexadecimal", filled("", &hexadecimal, "")),
        Input::new("lspci lines", filled(&gpu(0), &|_| "\tx\n".to_owned(), "")),
        Input::new("hwloc", few),
        Input::new("hwloc CPUs", many_cpus),
        Input::new("hwloc too many", filled(&xml(""), &xml_gpu, end)),
        Input::new("hwloc deep", filled(&xml(""), &|_| "<object type=\"Bridge\">".to_owned(), "")),
        Input::new(
            "hwloc infos",
            filled(&xml(""), &|_| "<info name=\"a\" value=\"b\"/>".to_owned(), end),
        ),
        Input::new("hwloc attributes", attributes + "/></object></topology>"),
        Input::new(
            "rdma_topo",
            filled("[", &|at| rdma_topo(at) + ",\n", &(rdma_topo(0xff_ff00) + "]")),
        ),
        Input::new("rdma_topo empty", filled("[", &|_| "{},".to_owned(), "{}]")),
        Input::new("archive", archive(size)),
        Input::new(
            "bug report files",
            filled(
                FIRST,
                &|at| format!("{SEPARATOR}*** /sys/class/infiniband/m{at}/fw_ver\n1\n"),
                SEPARATOR,
            ),
        ),
        Input::new(
            "bug report GPUs",
            filled(
                &format!("{FIRST}{}", smi("")),
                &|at| match at % 40_000 {
                    0 => smi(&gpu_of_smi(at)),
                    _ => gpu_of_smi(at),
                },
                SEPARATOR,
            ),
        ),
        Input::new(
            "bug report fields",
            filled(
                &format!("{FIRST}{}  {}\n", smi(&gpu_of_smi(0)), "h".repeat(500_000)),
                &|at| format!("   k{at} : v\n"),
                SEPARATOR,
            ),
        ),
        Input::new("NCCL", nccl(16_000, "")),
        Input::new("NCCL joined", nccl(120, &"m0000+".repeat(30))),
        Input::new("NCCL too many", filled(&nccl_head(), &nccl_gpu, "</cpu></system>")),
        Input::new("rdma_topo deep", "[".repeat(size)),
        Input::new(
            "JSON deep",
            filled("{\"schema\":\"gdr.snapshot/1\",\"files\":", &|_| "{\"a\":".to_owned(), ""),
        ),
        Input::new("nothing", vec![0; size]),
    ]
}

fn nccl_head() -> String {
    // Every second CPU.
    let cpus = vec!["55555555"; 28].join(",");
    format!("<system version=\"1\"><cpu numaid=\"0\" affinity=\"{cpus}\" arch=\"x86_64\">")
}

fn nccl_gpu(at: usize) -> String {
    format!("<pci busid=\"{}\" class=\"0x030200\" vendor=\"0x10de\"/>", address(at, 0))
}

/// Functions, every second one with NICs, whose names NCCL joins.
fn nccl(functions: usize, names: &str) -> String {
    let nic = |at: usize| {
        format!(
            "<pci busid=\"{}\" class=\"0x020700\" vendor=\"0x15b3\"><nic><net name=\"{names}m{at}\" port=\"1\" speed=\"400000\"/></nic></pci>",
            address(at, 0)
        )
    };
    // A NIC takes three elements.
    let each = (0..functions / 2).map(|at| match at % 2 {
        0 => nic(at),
        _ => nccl_gpu(at),
    });
    nccl_head() + &each.collect::<String>() + "</cpu></system>"
}

/// The begin of the output of `nvidia-smi -q`.
fn smi(first: &str) -> String {
    format!("{SEPARATOR}/usr/bin/nvidia-smi -q\n\n==NVSMI LOG==\nAttached GPUs : 1\n{first}")
}

fn gpu_of_smi(at: usize) -> String {
    format!("GPU {}\n  Performance State : P0\n", address(at, 0))
}

/// Files and directories that gdr keeps, each as short as an entry can be.
fn archive(size: usize) -> Vec<u8> {
    let entries = (0..size / 512).map(|at| match at % 2 {
        0 => entry(&format!("s/sys/class/infiniband/{at}"), b'0'),
        _ => entry(&format!("s/sys/class/infiniband/d{at}/"), b'5'),
    });
    entries.flatten().collect()
}

/// A NIC with an RDMA device, or every fourth time a GPU, on a root bus of its own.
fn rdma_topo(at: usize) -> String {
    let bdf = address(at, 0);
    let (vendor, device, class, infiniband) = match at % 4 {
        0 => ("10DE", "2330", "bc03sc02i00", String::new()),
        _ => ("15B3", "1021", "bc02sc07i00", format!("\"mlx5_{at}\"")),
    };
    let (ids, class_bytes) = match at % 4 {
        0 => ([0xde, 0x10, 0x30, 0x23], [0x00, 0x02, 0x03]),
        _ => ([0xb3, 0x15, 0x21, 0x10], [0x00, 0x07, 0x02]),
    };
    let mut config = [0_u8; 64];
    config[..4].copy_from_slice(&ids);
    config[9..12].copy_from_slice(&class_bytes);
    format!(
        "{{\"realpath\":\"/sys/devices/pci{}/{bdf}\",\"config\":\"{}\",\"iommu_group\":null,\
         \"modalias\":\"pci:v0000{vendor}d0000{device}sv00000000sd00000000{class}\",\"numa_node\":0,\
         \"subsystems\":{{\"infiniband\":[{infiniband}]}}}}",
        &bdf[..bdf.len() - 5],
        packed(&config)
    )
}
