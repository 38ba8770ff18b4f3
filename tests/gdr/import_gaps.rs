//! Dumps that leave devices out, and NICs without an active port: hand-written XML after hwloc 2's export.

use std::path::Path;

use crate::support::{Gdr, classes, file};
use serde_json::Value;

/// Two host bridges on two NUMA nodes, a GPU and a NIC below one switch port of each. The first NIC's port has this state.
fn two_nodes(state: u32) -> String {
    let node = |node: u32, bus: u32, state: u32| {
        let cpus = 3 << (2 * node);
        format!(
            r#"<object type="Package" os_index="{node}" cpuset="{cpus:#x}" nodeset="{set:#x}" complete_nodeset="{set:#x}">
      <object type="NUMANode" os_index="{node}" cpuset="{cpus:#x}" nodeset="{set:#x}" complete_nodeset="{set:#x}"/>
      <object type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[{bus:02x}-{end:02x}]">
        <object type="Bridge" bridge_type="1-1" depth="1" bridge_pci="0000:[{below:02x}-{end:02x}]" pci_busid="0000:{bus:02x}:01.0" pci_type="0604 [8086:352a] [0000:0000] 04">
          <object type="PCIDev" pci_busid="0000:{below:02x}:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1"/>
          <object type="PCIDev" pci_busid="0000:{below:02x}:00.1" pci_type="0207 [15b3:1021] [15b3:0041] 00">
            <object type="OSDev" name="mlx5_{node}" osdev_type="3"><info name="Port1State" value="{state}"/></object>
          </object>
        </object>
      </object>
    </object>"#,
            set = 1 << node,
            below = bus + 1,
            end = bus + 4,
        )
    };
    format!(
        r#"<topology version="2.0"><object type="Machine" cpuset="0xf" nodeset="0x3" complete_nodeset="0x3">{}{}</object></topology>"#,
        node(0, 0x10, state),
        node(1, 0x90, 4),
    )
}

fn from(xml: &Path) -> Gdr {
    Gdr::new().args(["--from".as_ref(), xml.as_os_str()])
}

fn outcome(xml: &Path, check: &str) -> Value {
    let run = from(xml).args(["doctor", "--only", check, "--format", "json"]).run();
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    report["findings"][0]["outcome"].clone()
}

/// The kernel's port states: 1 is DOWN, 4 is ACTIVE.
#[test]
fn nic_without_active_port_is_no_partner() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let up = file(&dir, "up.xml", two_nodes(4).as_bytes());
    assert_eq!(from(&up).args(["topo", "--check"]).run().code, 0);
    let down = file(&dir, "down.xml", two_nodes(1).as_bytes());
    let run = from(&down).args(["topo", "--check"]).run();
    assert_eq!(run.code, 1);
    for text in [
        "GPU0 -> NIC1: bad: SYS",
        "NIC0 (mlx5_0) is nearer",
        "Connect a port of mlx5_0 (0000:11:00.1)",
        "GPU1 -> NIC1: good: PIX",
    ] {
        assert!(run.stdout.contains(text), "{text}: {}", run.stdout);
    }
    let pairs = from(&down).args(["topo", "--pairs"]).run().stdout;
    let commands: Vec<&str> = pairs.lines().filter(|line| line.starts_with("env ")).collect();
    assert_eq!(commands.len(), 2, "{pairs}");
    assert!(
        commands.iter().all(|line| line.contains("mlx5_1:1") && !line.contains("mlx5_0")),
        "{pairs}"
    );
    assert_eq!(outcome(&up, "pcie.locality"), "pass");
    assert_eq!(outcome(&down, "pcie.locality"), "warn");
}

#[test]
fn all_ports_down_leave_no_partner() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let text = two_nodes(1).replace(r#"value="4""#, r#"value="2""#);
    let xml = file(&dir, "down.xml", text.as_bytes());
    let run = from(&xml).args(["topo", "--check"]).run();
    assert_eq!(run.code, 1);
    run.assert_stdout("GPU0: bad: no NIC has an active port; the nearest is NIC0 (mlx5_0, PIX)");
    let pairs = from(&xml).args(["topo", "--pairs"]).run().stdout;
    assert!(!pairs.contains("mlx5_0:") && !pairs.contains("NCCL_IB_HCA"), "{pairs}");
}

/// A filter of lstopo that keeps GPUs alone says nothing of NICs; one other network function says that there is no RDMA NIC.
#[test]
fn dump_without_network_functions_leaves_nics_unknown() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let nic = r#"pci_type="0207 [15b3:1021] [15b3:0041] 00""#;
    let filtered: String = two_nodes(4)
        .lines()
        .filter(|line| !line.contains("mlx5_"))
        .map(|line| line.replace(nic, r#"pci_type="0680 [10de:1ac2] [0000:0000] a1""#) + "\n")
        .collect();
    let os = r#"<object type="OSDev" name="card0" osdev_type="1"/></object>"#;
    let filtered =
        filtered.replacen("</object>\n        </object>", &format!("{os}\n        </object>"), 1);
    assert!(!filtered.contains("15b3") && filtered.contains("card0"), "{filtered}");
    let xml = file(&dir, "filtered.xml", filtered.as_bytes());
    assert_eq!(outcome(&xml, "rdma.device"), "unknown");
    let ethernet = filtered.replacen("0680 [10de:1ac2]", "0200 [8086:1563]", 1);
    let xml = file(&dir, "ethernet.xml", ethernet.as_bytes());
    assert_eq!(outcome(&xml, "rdma.device"), "fail");
}

/// On POWER each host bridge is a PCI domain; `lstopo --no-bridges` leaves out what is above the devices.
#[test]
fn domains_decide_without_bridges() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let device = |address: &str, ids: &str| {
        format!(r#"<object type="PCIDev" pci_busid="{address}" pci_type="{ids}"/>"#)
    };
    let (gpu, nic) = ("0302 [10de:1db1] [10de:1212] a1", "0207 [15b3:1019] [1014:0635] 00");
    let package = |node: u32, devices: [String; 3]| {
        let (cpus, set) = (3 << (2 * node), 1 << node);
        format!(
            r#"<object type="Package" cpuset="{cpus:#x}" nodeset="{set:#x}" complete_nodeset="{set:#x}">
<object type="NUMANode" os_index="{node}" cpuset="{cpus:#x}" nodeset="{set:#x}" complete_nodeset="{set:#x}"/>{}</object>"#,
            devices.concat()
        )
    };
    let xml = format!(
        r#"<topology version="2.0"><object type="Machine" cpuset="0xf" nodeset="0x3" complete_nodeset="0x3">{}{}</object></topology>"#,
        package(
            0,
            [device("0003:01:00.0", nic), device("0004:04:00.0", gpu), device("0004:05:00.0", gpu)]
        ),
        package(
            1,
            [device("0033:01:00.0", nic), device("0035:03:00.0", gpu), device("0035:04:00.0", gpu)]
        ),
    );
    let xml = file(&dir, "power.xml", xml.as_bytes());
    let classes = classes(from(&xml)).expect("classes");
    let class = |a: &str, b: &str| classes[&(a.to_owned(), b.to_owned())].clone();
    assert_eq!(class("0003:01:00.0", "0004:04:00.0").as_deref(), Some("NODE"));
    assert_eq!(class("0004:04:00.0", "0035:03:00.0").as_deref(), Some("SYS"));
    assert_eq!(class("0004:04:00.0", "0004:05:00.0"), None);
    let table = from(&xml).args(["topo"]).run().stdout;
    assert!(table.contains("GPU0 -> NIC0: bad: NODE"), "{table}");
    assert!(table.contains("?     unknown in this source"), "{table}");
    // The bus that the function is on is not a root bus.
    assert!(!table.contains("pci0004:04"), "{table}");
}
