//! The test machines themselves: directories have the layout of the real sysfs and of the recorder.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::support::{Machine, corpus, gdr, names, scratch};

#[test]
fn layout_matches_real_sysfs() {
    let dir = Machine::load("grace-gh200").laid_out();
    let read = |path: &str| std::fs::read_to_string(dir.path().join(path)).expect(path);
    let resolved = |path: &str| dir.path().join(path).canonicalize().expect(path);
    let gpu = "sys/bus/pci/devices/0019:01:00.0";
    let place = "sys/devices/platform/NVDA2019:00/pci0019:00/0019:00:00.0/0019:01:00.0";
    assert_eq!(resolved(gpu), resolved(place));
    let link = std::fs::read_link(dir.path().join(gpu)).expect(gpu);
    let above = "../../../devices/platform/NVDA2019:00/pci0019:00/0019:00:00.0/0019:01:00.0";
    assert_eq!(link, Path::new(above));
    assert_eq!(read(&format!("{gpu}/numa_node")), "1\n");
    assert_eq!(read(&format!("{gpu}/local_cpulist")), "72-143\n");
    assert_eq!(read(&format!("{gpu}/current_link_speed")), "32.0 GT/s PCIe\n");
    assert_eq!(read(&format!("{gpu}/iommu_group/type")), "DMA-FQ\n");
    let group = resolved(&format!("{gpu}/iommu_group/devices/0019:01:00.0"));
    assert_eq!(group, resolved(place));
    let rdma = resolved("sys/class/infiniband/mlx5_0/device");
    assert_eq!(rdma, resolved("sys/bus/pci/devices/0002:01:00.0"));
    assert_eq!(read("sys/devices/system/node/online"), "0-2,10\n");
    assert_eq!(read("sys/devices/system/node/has_cpu"), "0-1\n");
    assert_eq!(read("sys/devices/system/node/node2/cpulist"), "\n");
    assert_eq!(read("sys/devices/system/cpu/online"), "0-143\n");
    assert_eq!(read(&format!("{gpu}/resource")).lines().count(), 13);
}

#[test]
fn broken_machine_is_broken() {
    let dir = Machine::load("broken").laid_out();
    let at = |path: &str| dir.path().join("sys/bus/pci/devices").join(path);
    let size = |path: &str| std::fs::read(at(path)).map(|bytes| bytes.len()).ok();
    assert_eq!(size("0000:02:00.0/config"), Some(0));
    assert_eq!(size("0000:00:04.0/config"), Some(20));
    assert!(!at("0000:06:00.0/numa_node").exists());
    let out = std::fs::read_link(at("0000:07:00.0")).expect("a link");
    assert_eq!(out, Path::new("../../../../../../etc"));
    let config = std::fs::read(at("0000:04:00.0/config")).expect("config");
    assert_eq!((config[0x34], config[0x41]), (0x40, 0x40));
    let version = std::fs::read(dir.path().join("proc/driver/nvidia/version")).expect("version");
    assert!(std::str::from_utf8(&version).is_err());
}

/// A captured GPU's resource file, as the kernel printed it.
#[test]
fn captured_resources_match() {
    let dir = Machine::load("h200-x2").laid_out();
    let path = "sys/bus/pci/devices/0000:00:06.0/resource";
    let text = std::fs::read_to_string(dir.path().join(path)).expect(path);
    let none = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    let expected = [
        "0x0000104002000000 0x0000104002ffffff 0x000000000014220c\n",
        none,
        "0x0000100000000000 0x0000103fffffffff 0x000000000014220c\n",
        none,
        "0x0000104000000000 0x0000104001ffffff 0x000000000014220c\n",
        none,
        none,
    ];
    assert_eq!(text, expected.concat());
}

/// Facts by device that both layouts must share.
fn facts(root: &Path) -> BTreeMap<String, (String, [String; 3], Vec<u8>)> {
    let root = root.canonicalize().expect("a root");
    std::fs::read_dir(root.join("sys/bus/pci/devices"))
        .expect("devices")
        .filter_map(Result::ok)
        .map(|entry| {
            let real = entry.path().canonicalize().expect("a device");
            let text = |name| std::fs::read_to_string(real.join(name)).expect(name);
            let config = std::fs::read(real.join("config")).expect("config");
            let place = real.strip_prefix(&root).expect("inside the root");
            let names = ["class", "vendor", "device"].map(text);
            // ACS at 0x100; a bridge's buses, or an endpoint's BAR.
            let buses = if config[0x0e] & 0x7f == 1 { 0x18..0x1b } else { 0..0 };
            let bytes = [&config[0x100..0x108], &config[buses]].concat();
            let bdf = entry.file_name().to_string_lossy().into_owned();
            (bdf, (place.display().to_string(), names, bytes))
        })
        .collect()
}

#[test]
#[ignore = "needs ../shared/tools/sysroot.py, python3"]
fn recorded_machines_match_recorder_layout() {
    for file in corpus() {
        let theirs = scratch();
        let python = Command::new("python3")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/tools/sysroot.py"))
            .arg(&file)
            .arg(theirs.path())
            .status()
            .expect("python3 starts");
        assert!(python.success(), "sysroot.py on {}", file.display());
        let machine = Machine::from_corpus(&file);
        assert!(!machine.matrix.is_empty(), "{} has a matrix", file.display());
        let ours = machine.laid_out();
        let (ours, theirs) = (facts(ours.path()), facts(theirs.path()));
        assert_eq!(ours.len(), machine.devices.len());
        for (bdf, expected) in &theirs {
            assert_eq!(ours.get(bdf), Some(expected), "{} {bdf}", file.display());
        }
    }
}

#[test]
fn expectations_match_machines() {
    for name in names() {
        let machine = Machine::load(&name);
        let expect = machine.expect();
        let has = |bdf: &String| machine.devices.iter().any(|d| d.bdf == *bdf);
        let rdma = |expected: &String| {
            let hard = machine.devices.iter().filter_map(|d| d.rdma.as_ref());
            let mut all = hard.chain(&machine.soft_rdma);
            all.any(|r| r.name == *expected)
        };
        let gpus: Vec<_> = expect.gpus.iter().flatten().collect();
        let in_order: Vec<_> = machine
            .devices
            .iter()
            .filter(|d| d.vendor.0 == 0x10de && d.class.0 >> 16 == 0x03)
            .map(|d| &d.bdf)
            .collect();
        let stated: Vec<_> = gpus.iter().map(|(_, bdf)| *bdf).collect();
        assert_eq!(stated, in_order, "{name}: GPUs by address");
        assert!(expect.nics.iter().flatten().all(|(_, n)| rdma(n)), "{name}");
        assert!(expect.virtual_functions.keys().all(rdma), "{name}");
        assert!(expect.acs_unknown.iter().all(has), "{name}");
        let findings = expect.acs_findings.iter().flatten();
        assert!(findings.map(|f| &f.port).all(has), "{name}");
        // A class is symmetric.
        for (row, columns) in &expect.classes {
            for (column, class) in columns {
                let back = expect.classes.get(column).and_then(|r| r.get(row));
                assert!(back.is_none_or(|b| b == class), "{name}: {row} {column}");
                let known = ["PIX", "PXB", "PHB", "NODE", "SYS"];
                assert!(known.contains(&class.as_str()), "{name}: {class}");
            }
        }
    }
}

#[test]
fn binary_starts() {
    assert_eq!(gdr(&["--help"]).code, 0);
}
