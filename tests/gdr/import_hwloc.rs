//! `--from` with hwloc's XML: the facts of lstopo's output match the machine's own files or are unknown.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Gdr, Machine, agreement, classes, everywhere, file, lay_out_cpus, limited};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::Value;
use tempfile::TempDir;

/// lstopo's XML of a machine in a directory.
fn lstopo(root: &Path, file: &Path, options: &[&str]) {
    let output = Command::new("lstopo-no-graphics")
        .env("HWLOC_FSROOT", root)
        .env("HWLOC_COMPONENTS", "linux,stop")
        .args(["--of", "xml", "-f"])
        .args(options)
        .arg(file)
        .output()
        .expect("lstopo starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", root.display());
}

fn from(file: &Path) -> Gdr {
    Gdr::new().args(["--from".as_ref(), file.as_os_str()])
}

/// Pairs below a bridge or in one host bridge are known from the tree alone. On `broken` a bridge's buses are unreadable, so
/// devices below 04 are unknown; the software device of `virtual-functions` is not a function.
const EXCEPT: [(&str, &str); 1] = [("broken", "0000:04:00.0")];

/// Options, and whether all classes are known.
const MODES: [(&[&str], bool); 7] = [
    (&["--whole-io"], true),
    (&[], true),
    (&["--filter", "io:all"], true),
    (&["--whole-io", "--export-xml-flags", "1"], true),
    (&["--export-xml-flags", "1"], true),
    (&["--no-bridges"], false),
    (&["--filter", "osdev:none"], false),
];

#[test]
#[ignore = "needs lstopo-no-graphics"]
fn classes_match_machine_or_are_unknown() {
    let mut totals = [0; MODES.len()];
    for (name, machine, root) in everywhere() {
        lay_out_cpus(&machine, root.path());
        let machine = classes(Gdr::new().sysroot(root.path())).expect("the machine's classes");
        for (mode, (options, full)) in MODES.iter().enumerate() {
            let what = format!("{name} {options:?}");
            let xml = root.path().join("lstopo.xml");
            lstopo(root.path(), &xml, options);
            let Some(dump) = classes(from(&xml)) else {
                panic!("{what}: no classes");
            };
            totals[mode] += agreement(&what, &machine, &dump);
            let excepted = |bdf: &String| EXCEPT.contains(&(name.as_str(), bdf.as_str()));
            let near =
                |class: &Option<String>| matches!(class.as_deref(), Some("PIX" | "PXB" | "PHB"));
            for (pair, class) in machine.iter().filter(|(_, class)| *full && near(class)) {
                if !excepted(&pair.0) && !excepted(&pair.1) {
                    assert_eq!(dump.get(pair), Some(class), "{what}: {pair:?}");
                }
            }
        }
    }
    // All 312 pairs of a full dump; without bridges none is certain.
    for (mode, (options, full)) in MODES.iter().enumerate() {
        let expected = match (full, options) {
            (true, _) => 300,
            (false, ["--no-bridges"]) => 0,
            (false, _) => 250,
        };
        assert!(totals[mode] >= expected, "{options:?}: only {} pairs are known", totals[mode]);
    }
}

fn document(gdr: Gdr) -> Value {
    let run = gdr.args(["topo", "--format", "json", "--nvme"]).run();
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).expect("JSON")
}

#[test]
#[ignore = "needs lstopo-no-graphics"]
fn nodes_and_cpus_match_sysfs() {
    let mut same = 0;
    for (name, machine, root) in everywhere() {
        lay_out_cpus(&machine, root.path());
        let xml = root.path().join("lstopo.xml");
        for options in [&["--whole-io"][..], &["--whole-io", "--export-xml-flags", "1"]] {
            lstopo(root.path(), &xml, options);
            let devices = |gdr: Gdr| document(gdr)["devices"].as_array().expect("devices").clone();
            let (theirs, ours) = (devices(Gdr::new().sysroot(root.path())), devices(from(&xml)));
            for device in ours {
                let Some(real) = theirs.iter().find(|other| other["bdf"] == device["bdf"]) else {
                    continue;
                };
                // With one node, that is the node even if the kernel names none.
                for key in ["numa", "cpus"] {
                    if !device[key].is_null() && !real[key].is_null() {
                        assert_eq!(
                            device[key], real[key],
                            "{name} {options:?}: {key} of {}",
                            device["bdf"]
                        );
                        same += 1;
                    }
                }
            }
        }
    }
    assert!(same > 200, "only {same} nodes and CPU lists were compared");
}

fn laid_out(name: &str) -> (Machine, TempDir) {
    let machine = Machine::load(name);
    let dir = machine.laid_out();
    lay_out_cpus(&machine, dir.path());
    (machine, dir)
}

#[test]
#[ignore = "needs lstopo-no-graphics"]
fn rows_have_device_names() {
    let (_, root) = laid_out("hgx-acs-redirect");
    let xml = root.path().join("lstopo.xml");
    lstopo(root.path(), &xml, &[]);
    let run = from(&xml).args(["topo", "--nvme"]).run();
    for expected in ["mlx5_0", "mlx5_3", "nvme0", "0-55,112-167", "56-111,168-223"] {
        assert!(run.stdout.contains(expected), "{expected}: {}", run.stdout);
    }
    // Without OS devices NICs are named by address.
    lstopo(root.path(), &xml, &["--filter", "osdev:none"]);
    let run = from(&xml).args(["topo"]).run();
    assert!(
        !run.stdout.contains("mlx5_0") && run.stdout.contains("0000:1a:00.0"),
        "{}",
        run.stdout
    );
    // Without I/O devices there is no topology, which is reported.
    lstopo(root.path(), &xml, &["--no-io"]);
    let run = from(&xml).args(["topo"]).run();
    assert_eq!(run.code, 2, "{}", run.stdout);
    run.assert_stderr("the dump does not contain them");
}

#[test]
#[ignore = "needs lstopo-no-graphics"]
fn facts_of_configuration_space_are_unknown() {
    let (_, root) = laid_out("hgx-acs-redirect");
    let xml = root.path().join("lstopo.xml");
    lstopo(root.path(), &xml, &[]);
    let run = from(&xml).args(["doctor", "--format", "json"]).run();
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    let acs: Vec<&Value> = findings.iter().filter(|finding| finding["id"] == "pcie.acs").collect();
    assert!(
        !acs.is_empty() && acs.iter().all(|finding| finding["outcome"] == "unknown"),
        "{acs:?}"
    );
}

/// In a container with one of two nodes, hwloc omits the other and moves its devices.
#[test]
#[ignore = "needs lstopo-no-graphics"]
fn keeps_node_unusable_by_container() {
    let (_, root) = laid_out("dual-epyc");
    let files = [
        ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
        ("proc/self/cgroup", "0::/box\n"),
        ("sys/fs/cgroup/cgroup.controllers", "cpuset\n"),
        ("sys/fs/cgroup/box/cgroup.controllers", "cpuset\n"),
        ("sys/fs/cgroup/box/cpuset.cpus.effective", "0-7\n"),
        ("sys/fs/cgroup/box/cpuset.mems.effective", "0\n"),
    ];
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    let machine = classes(Gdr::new().sysroot(root.path())).expect("the machine's classes");
    let xml = root.path().join("lstopo.xml");
    for options in [&["--whole-io"][..], &["--export-xml-flags", "1"]] {
        lstopo(root.path(), &xml, options);
        let text = std::fs::read_to_string(&xml).expect("XML");
        assert!(
            text.contains("allowed_nodeset=\"0x00000001\""),
            "the container was not seen: {text}"
        );
        assert_eq!(agreement("container", &machine, &classes(from(&xml)).expect("classes")), 28);
    }
}

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
"#;

/// Hand-written after hwloc 3's export: OS devices have bits, pci_type has the interface, infos are below topology.
const BITS: &str = r#"<topology version="3.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" nodeset="0x00000003" complete_nodeset="0x00000003" gp_index="1">
    <object type="Package" os_index="0" cpuset="0x0000000f" nodeset="0x00000003" complete_nodeset="0x00000003" gp_index="2">
      <object type="NUMANode" os_index="0" cpuset="0x0000000f" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3"/>
      <object type="NUMANode" os_index="1" subtype="GPUMemory" cpuset="0x0000000f" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="4"/>
      <object type="Bridge" gp_index="5" bridge_type="0-1" depth="0" bridge_pci="0000:[10-14]">
        <object type="Bridge" gp_index="6" bridge_type="1-1" depth="1" bridge_pci="0000:[11-14]" pci_busid="0000:10:01.0" pci_type="0604 [8086:352a] [0000:0000] 04 00" pci_link_speed="63.015385">
          <object type="PCIDev" gp_index="7" pci_busid="0000:11:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1 00" pci_link_speed="63.015385">
            <object type="OSDev" gp_index="8" name="nvml0" subtype="NVML" osdev_type="12">
              <info name="GPUVendor" value="NVIDIA Corporation"/>
              <info name="GPUModel" value="NVIDIA H100 80GB HBM3"/>
              <info name="NVIDIAUUID" value="GPU-00000000-0000-0000-0000-000000000001"/>
            </object>
          </object>
          <object type="PCIDev" gp_index="9" pci_busid="0000:11:00.1" pci_type="0207 [15b3:1021] [15b3:0041] 00 00">
            <object type="OSDev" gp_index="10" name="mlx5_0" subtype="OpenFabrics" osdev_type="48">
              <info name="Port1State" value="1"/>
            </object>
            <object type="OSDev" gp_index="11" name="ib0" osdev_type="16"/>
          </object>
          <object type="PCIDev" gp_index="12" pci_busid="0000:13:00.0" pci_type="0108 [144d:a824] [144d:a801] 00 02">
            <object type="OSDev" gp_index="13" name="nvme0n1" osdev_type="1"/>
          </object>
        </object>
      </object>
    </object>
  </object>
  <info name="OSName" value="Linux"/>
</topology>
"#;

#[test]
fn reads_hwloc_3_and_stops_at_inconsistent_bus() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let xml = file(&dir, "three.xml", format!("{HEAD}{BITS}").as_bytes());
    let document = document(from(&xml));
    let rows: Vec<(&str, &str)> = document["devices"]
        .as_array()
        .expect("devices")
        .iter()
        .map(|d| (d["bdf"].as_str().expect("text"), d["label"].as_str().expect("text")))
        .collect();
    assert_eq!(
        rows,
        [
            ("0000:11:00.0", "NVIDIA H100 80GB HBM3"),
            ("0000:11:00.1", "mlx5_0"),
            ("0000:13:00.0", "nvme0")
        ]
    );
    let classes = classes(from(&xml)).expect("classes");
    let class = |a: &str, b: &str| classes[&(a.to_owned(), b.to_owned())].clone();
    assert_eq!(class("0000:11:00.0", "0000:11:00.1").as_deref(), Some("PIX"));
    // Bus 13 is below the bridge to 11, but hwloc did not say through which bridge.
    assert_eq!(class("0000:11:00.0", "0000:13:00.0"), None);
    // The GPU's memory node has no CPUs.
    assert_eq!(document["devices"][0]["numa"], 0, "{document}");
}

#[test]
fn ignores_two_bridges_to_one_bus() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let twice = BITS.replace(
        r#"      <object type="Bridge" gp_index="5""#,
        r#"      <object type="Bridge" gp_index="50" bridge_type="0-1" bridge_pci="0000:[11-12]"/>
      <object type="Bridge" gp_index="5""#,
    );
    let xml = file(&dir, "twice.xml", format!("{HEAD}{twice}").as_bytes());
    let classes = classes(from(&xml)).expect("classes");
    assert!(classes.values().all(Option::is_none), "{classes:?}");
}

/// Each is rejected with one sentence, quickly and with little memory. The deadline is for a debug build on a busy machine.
#[test]
#[ignore = "needs prlimit"]
fn rejects_hostile_documents_early() {
    let machine = r#"<topology version="2.0"><object type="Machine" cpuset="0x1" nodeset="0x1" complete_nodeset="0x1">"#;
    let end = "</object></topology>";
    let entities: String = ('b'..='k')
        .zip('a'..)
        .map(|(name, of)| format!("<!ENTITY {name} \"{}\">", format!("&{of};").repeat(10)))
        .collect();
    let gpu = |n: u32| {
        format!(
            "<object type=\"PCIDev\" pci_busid=\"{:04x}:{:02x}:{:02x}.{}\" pci_type=\"0302 [10de:2330] [0:0] a1\"/>",
            n >> 16,
            n >> 8 & 255,
            n >> 3 & 31,
            n & 7
        )
    };
    let gpus = |many: u32| (0..many).map(gpu).collect::<String>();
    let cases: [(&str, String, &str); 11] = [
        ("deep", format!("{machine}{}", "<object type=\"Group\">".repeat(100_000)), "nest deeper"),
        (
            "laughs",
            format!(
                "<!DOCTYPE topology [<!ENTITY a \"ha\">{entities}]>{machine}<info name=\"&k;\"/>{end}"
            ),
            "document type defines entities",
        ),
        ("entity", format!("{machine}<info name=\"HostName\" value=\"&k;\"/>{end}"), "entity"),
        ("functions", format!("{machine}{}{end}", gpus(16_385)), "more than 16384 PCI functions"),
        ("twice", format!("{machine}{}{}{end}", gpu(1), gpu(1)), "twice"),
        ("cut", format!("{machine}{}", gpu(1)), "truncated"),
        ("crossed", format!("{machine}</topology></object>"), "not well-formed"),
        (
            "version",
            "<topology version=\"7.0\"></topology>".to_owned(),
            "unsupported format with version 7",
        ),
        ("second", format!("{machine}{end}<topology/>"), "is not a single 'topology'"),
        (
            "attributes",
            format!("{machine}<object type=\"PCIDev\" {}/>{end}", "a=\"1\" ".repeat(1_000_000)),
            "attribute",
        ),
        ("other", "<nvidia_smi_log/>".to_owned(), "nvidia-smi -q -x"),
    ];
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, text, expected) in cases {
        let path = file(&dir, name, text.as_bytes());
        let started = Instant::now();
        let run = limited(&path);
        assert_eq!(run.code, 2, "{name}: {}", run.stderr);
        assert!(
            run.stderr.contains(expected) && run.stderr.lines().count() == 1,
            "{name}: {}",
            run.stderr
        );
        assert!(started.elapsed() < Duration::from_secs(120), "{name}: {:?}", started.elapsed());
    }
}

#[test]
#[ignore = "needs prlimit"]
fn reads_64_mib_with_little_memory() {
    // The size limit, less the surrounding text.
    const SIZE: usize = (64 << 20) - 1024;
    let head = r#"<topology version="2.0"><object type="Machine" cpuset="0x1" nodeset="0x1" complete_nodeset="0x1">"#;
    let gpu = r#"<object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1"/>"#;
    let filling =
        r#"<object type="PU" os_index="1" cpuset="0x00000001" nodeset="0x00000001" gp_index="7"/>"#;
    let set = format!(
        "<object type=\"Group\" cpuset=\"{}\">{gpu}</object>",
        "0xffffffff,".repeat(SIZE / 11)
    );
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, inner) in [("many", filling.repeat(SIZE / filling.len()) + gpu), ("one", set)] {
        let path = file(&dir, name, format!("{head}{inner}</object></topology>").as_bytes());
        let run = limited(&path);
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        assert!(run.stdout.contains("0000:01:00.0"), "{name}: {}", run.stdout);
    }
}

/// Truncated and mutated real documents never make gdr panic.
#[test]
fn mutated_documents_do_not_panic() {
    let text = format!("{HEAD}{BITS}");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let try_one = |bytes: &[u8]| {
        let path: PathBuf = file(&dir, "changed.xml", bytes);
        from(&path).args(["topo", "--nvme"]).run()
    };
    let mut runner =
        TestRunner::new(Config { cases: 150, failure_persistence: None, ..Config::default() });
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    runner
        .run(&(any::<prop::sample::Index>(), any::<bool>(), changes), |(cut, whole, changes)| {
            let mut bytes = text.clone().into_bytes();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if !whole {
                bytes.truncate(cut.index(bytes.len()));
            }
            let run = try_one(&bytes);
            prop_assert!(matches!(run.code, 0 | 2), "{}: {}", run.code, run.stderr);
            prop_assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
            Ok(())
        })
        .expect("no change makes gdr fall over");
}
