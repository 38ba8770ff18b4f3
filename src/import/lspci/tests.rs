//! Hand-written texts in lspci's format.

mod drawn;
mod runs;

use proptest::prelude::*;

use super::*;
use crate::model::config::AcsBits;
use crate::model::{Config, PciPath};

const PARTS: &str = include_str!("../../../profiles/devices.toml");

fn names() -> PciNames {
    PciNames::new(None, PARTS).expect("the list of parts")
}

fn read(text: &str) -> Facts {
    facts(text.as_bytes(), &names()).expect("facts")
}

fn device(facts: &Facts, bdf: &str) -> PciDevice {
    let bdf = bdf.parse().expect("an address");
    facts.device(bdf).cloned().unwrap_or_else(|| panic!("{bdf} is missing"))
}

/// `root/bridge/bridge`, with a question mark if the root is uncertain.
fn place(facts: &Facts, bdf: &str) -> String {
    match device(facts, bdf).place {
        Fact::Known(PciPath { root, rooted, bridges }) => {
            let bridges: Vec<String> = bridges.iter().map(|bridge| format!("/{bridge}")).collect();
            format!("{root}{}{}", if rooted { "" } else { "?" }, bridges.concat())
        }
        Fact::Unknown(why) => format!("{why:?}"),
    }
}

fn notes(facts: &Facts) -> Vec<String> {
    let notes = facts.notes.iter();
    notes.map(|note| format!("{}: {}", note.source, note.message)).collect()
}

/// Names say what several numbers are, and what a cut line is of.
#[test]
fn names_without_numbers_count() {
    let facts = read(
        "00:06.0 Ethernet controller: Amazon.com, Inc. Elastic Network Adapter (ENA)\n\
         00:07.0 Ethernet controller: Amazon.com, Inc. Elastic Fabric Adapter (EFA)\n\
         --\n\
         62:00.0 3D controller: NVIDIA",
    );
    let nics: Vec<String> = facts.unnamed_nics.iter().map(ToString::to_string).collect();
    assert_eq!(nics, ["0000:00:07.0"]);
    assert_eq!(facts.gpus().count(), 1);
    // grep prints the line of marks.
    assert!(notes(&facts).is_empty(), "{:?}", notes(&facts));
}

/// A root port with a GPU and a NIC function below, hand-written after lspci 3.9 and 3.13.
const MACHINE: &str = "\
15:01.0 PCI bridge: Intel Corporation Device 352a (rev 04) (prog-if 00 [Normal decode])
\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx+
\tStatus: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-
\tNUMA node: 1
\tIOMMU group: 12
\tBus: primary=15, secondary=16, subordinate=17, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\t\tExtTag+ RBE+
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd- ExtTag+ PhantFunc- AuxPwr- NoSnoop-
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM not supported
\t\t\tClockPM- Surprise+ LLActRep+ BwNot+ ASPMOptComp+
\t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, LnkDisable- CommClk+
\t\t\tExtSynch- ClockPM- AutWidDis- BWInt- AutBWInt-
\t\tLnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)
\t\t\tTrErr- Train- SlotClk+ DLActive+ BWMgmt+ ABWMgmt-
\tCapabilities: [148 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir- UpstreamFwd+ EgressCtrl- DirectTrans-
\tKernel driver in use: pcieport

16:00.0 3D controller: NVIDIA Corporation Device 2335 (rev a1)
\tSubsystem: NVIDIA Corporation Device 18bf
\tPhysical Slot: 4
\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx+
\tStatus: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-
\tNUMA node: 1
\tRegion 0: Memory at 21a042000000 (64-bit, prefetchable) [size=16M]
\tCapabilities: [60] Express (v2) Endpoint, IntMsgNum 0
\tCapabilities: [100 v1] Device Serial Number b8-ce-f6-03-00-12-34-56
\tKernel driver in use: nvidia
\tKernel modules: nvidiafb, nouveau, nvidia

16:00.1 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr- Stepping- SERR- FastB2B- DisINTx+
\tStatus: Cap- 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-
\tRegion 0: Memory at <unassigned> (64-bit, prefetchable) [disabled] [size=32M]

";

#[test]
fn printed_values_are_known() {
    let facts = read(MACHINE);
    let port = device(&facts, "15:01.0");
    assert_eq!(port.ids.known().map(ToString::to_string).as_deref(), Some("8086:352a"));
    assert_eq!(port.numa_node, Fact::Known(Some(1)));
    let express = port.config.express.present().expect("a capability");
    assert_eq!((express.port, express.max_payload), (PortType::RootPort, 256));
    let acs = port.config.acs.present().expect("a capability");
    assert_eq!((acs.offset, acs.control), (0x148, AcsBits(0x15)));
    let attributes = port.attributes.as_ref().expect("attributes");
    assert_eq!(attributes.driver, Fact::Known(Some("pcieport".to_owned())));
    assert_eq!(attributes.iommu_group, Fact::Known(Some(12)));
    let link = attributes.link.present().expect("a link");
    assert_eq!(
        (link.current.to_string(), link.max.to_string()),
        ("16GT/s x16".into(), "32GT/s x16".into())
    );

    let gpu = device(&facts, "16:00.0");
    assert_eq!(gpu.ids.known().map(|ids| (ids.class, ids.device)), Some((0x030200, Some(0x2335))));
    assert_eq!(
        gpu.config.serial_number.present().map(ToString::to_string).as_deref(),
        Some("b8-ce-f6-03-00-12-34-56")
    );
    assert_eq!(place(&facts, "16:00.0"), "pci0000:15/0000:15:01.0");
    assert_eq!(place(&facts, "15:01.0"), "pci0000:15");
    assert_eq!(facts.unnamed_nics, ["16:00.1".parse().expect("an address")]);
    assert_eq!(notes(&facts), [""; 0]);
}

#[test]
fn missing_lines_mean_absence_only_if_certain() {
    let facts = read(MACHINE);
    let port = device(&facts, "15:01.0");
    assert!(port.config.ats.is_absent() && port.config.sriov.is_absent(), "{:?}", port.config);
    let gpu = device(&facts, "16:00.0");
    assert_eq!(gpu.config.express, Fact::Unknown(Why::NotCovered), "a title without registers");
    assert!(gpu.config.acs.is_absent());
    assert_eq!(gpu.attributes.as_ref().map(|of| of.iommu_group.clone()), Some(Fact::Known(None)));
    let nic = device(&facts, "16:00.1");
    assert_eq!(nic.numa_node, Fact::Known(None));
    assert!(
        nic.config.express.is_absent() && nic.config.ats.is_absent(),
        "Cap- says there are none"
    );
    let driver = |nic: &PciDevice| nic.attributes.as_ref().map(|of| of.driver.clone());
    assert_eq!(driver(&nic), Some(Fact::default()), "the line may be cut off");
    let modules = format!("{}\tKernel modules: mlx5_core\n", MACHINE.trim_end().to_owned() + "\n");
    assert_eq!(driver(&device(&read(&modules), "16:00.1")), Some(Fact::Known(None)));

    // Alone, it does not show whether nodes, groups and drivers are printed.
    let alone = &MACHINE[MACHINE.find("16:00.1").expect("the NIC")..];
    let nic = device(&read(alone), "16:00.1");
    assert_eq!(nic.numa_node, Fact::Unknown(Why::NotCovered));
    assert!(nic.config.express.is_absent());
    let cut = &MACHINE[..MACHINE.find("\tCapabilities: [148").expect("the capability")];
    let port = device(&read(cut), "15:01.0");
    assert_eq!(port.config.acs, Fact::Unknown(Why::NotCovered));
    assert!(port.config.express.present().is_some(), "what was printed before the cut is known");
}

#[test]
fn omitted_lines_are_unknown() {
    let (before, rest) =
        MACHINE.split_at(MACHINE.find("\tCapabilities: [148").expect("the capability"));
    let behind = &rest[rest.find("\n\n").expect("a blank line")..];
    let kernel = "\tKernel driver in use: pcieport";
    let known = |between: &str| {
        let port = device(&read(&format!("{before}{between}{behind}")), "15:01.0");
        assert!(port.config.express.present().is_some(), "{between}");
        port.config.acs.known().is_some()
    };
    assert!(known(kernel), "the last line is there, and nothing else");
    let lines = "\t\tFoo: 1\n".repeat(2100);
    for between in [
        "",
        "\t[...]",
        &format!("\t[...]\n{kernel}"),
        &format!("\t...\n{kernel}"),
        &format!("\t<snip>\n{kernel}"),
        &format!("\t(output truncated)\n{kernel}"),
        &format!("[...]\n{kernel}"),
        &format!("\n{kernel}"),
        &format!("{lines}{kernel}"),
    ] {
        assert!(!known(between), "{between}");
    }
    // Nor does a GPU cut off before its driver line count as driverless.
    let cut = MACHINE.replace(
        "\tKernel driver in use: nvidia\n\tKernel modules: nvidiafb, nouveau, nvidia\n",
        "",
    );
    let driver = device(&read(&cut), "16:00.0").attributes.map(|of| of.driver);
    assert_eq!(driver, Some(Fact::default()));
    let cut = MACHINE.replace("\tNUMA node: 1\n\tRegion", "\t[...]\n\tRegion");
    let gpu = device(&read(&cut), "16:00.0");
    assert_eq!(gpu.numa_node, Fact::default());
    assert_eq!(gpu.attributes.map(|of| of.iommu_group), Some(Fact::default()));
}

#[test]
fn numeric_capability_titles_count() {
    let acs = |title: &str, body: &str| {
        let text = MACHINE.replace("Access Control Services", title);
        let text = text.replace("ACSCap:", body).replace("ACSCtl:", body);
        device(&read(&text), "15:01.0").config
    };
    for title in ["#0d", "Unknown (13)", "Extended Capability ID 0xd"] {
        let config = acs(title, "x:");
        assert_eq!(config.acs, Fact::Unknown(Why::NotCovered), "{title}");
        assert!(config.ats.is_absent(), "{title}");
    }
    let other = acs("Extended Capability ID 0x23", "x:");
    assert!(other.acs.is_absent() && other.sriov.is_absent());
    let any = acs("Unknown", "x:");
    assert_eq!((any.acs, any.ats), (Fact::default(), Fact::default()));
}

#[test]
fn root_port_without_extended_list_has_none_if_space_is_readable() {
    let without =
        MACHINE.replace("[148 v1] Access Control Services", "[68] Debug port: BAR=1 offset=0000");
    // The GPU on a higher bus shows that extended space is readable.
    assert!(device(&read(&without), "15:01.0").config.acs.is_absent());
    let nowhere =
        without.replace("[100 v1] Device Serial Number b8-ce-f6-03-00-12-34-56", "[68] Null");
    assert_eq!(device(&read(&nowhere), "15:01.0").config.acs, Fact::Unknown(Why::NotCovered));
}

#[test]
fn unprivileged_dump_has_tree_but_no_capabilities() {
    let mut text = String::new();
    let mut skip = false;
    for line in MACHINE.lines() {
        let deeper = line.starts_with("\t\t");
        if line.starts_with("\tCapabilities") {
            if !skip {
                text.push_str("\tCapabilities: <access denied>\n");
            }
            skip = true;
        } else if !deeper {
            skip = false;
            text.push_str(line);
            text.push('\n');
        }
    }
    let facts = read(&text);
    let port = device(&facts, "15:01.0");
    assert_eq!(
        (&port.config.acs, &port.config.express),
        (&Fact::Unknown(Why::Denied), &Fact::Unknown(Why::Denied))
    );
    assert_eq!(place(&facts, "16:00.0"), "pci0000:15?/0000:15:01.0", "only root knows a root port");
    // Part of every Xeon root complex.
    let with =
        format!("15:00.0 System peripheral: Intel Corporation Device 09a2 (rev 04)\n\n{text}");
    assert_eq!(place(&read(&with), "16:00.0"), "pci0000:15/0000:15:01.0");
}

#[test]
fn single_v_has_titles_only() {
    let text = "\
0001:01:00.0 Ethernet controller: Mellanox Technologies Device 1021
\tFlags: bus master, fast devsel, latency 0, IRQ 16, NUMA node 0, IOMMU group 5
\tMemory at 21a042000000 (64-bit, prefetchable) [size=32M]
\tCapabilities: [60] Express Endpoint, MSI 00
\tCapabilities: [100] Address Translation Service (ATS)
\tKernel driver in use: mlx5_core

";
    let nic = device(&read(text), "0001:01:00.0");
    assert_eq!(nic.numa_node, Fact::Known(Some(0)));
    assert_eq!((&nic.config.ats, &nic.config.express), (&Fact::default(), &Fact::default()));
    assert!(nic.config.acs.is_absent());
    let attributes = nic.attributes.expect("attributes");
    assert_eq!(
        (attributes.iommu_group, attributes.resources),
        (Fact::Known(Some(5)), Fact::default())
    );
}

#[test]
fn device_off_the_bus_has_only_ids() {
    let text = "\
16:00.0 3D controller: NVIDIA Corporation Device 2335 (rev ff) (prog-if ff)
\t!!! Unknown header type 7f
\tPhysical Slot: 4
\tNUMA node: 1
\tRegion 0: Memory at 21a042000000 (64-bit, prefetchable) [size=16M]
\tKernel driver in use: nvidia

";
    let facts = read(text);
    let gpu = device(&facts, "16:00.0");
    assert!(gpu.ids.known().is_some_and(Ids::is_nvidia_gpu));
    assert_eq!(
        (&gpu.config.express, &gpu.config.acs),
        (&Fact::Unknown(Why::Broken), &Fact::Unknown(Why::Broken))
    );
    assert_eq!(gpu.numa_node, Fact::Known(Some(1)));
}

#[test]
fn management_functions_are_not_nics() {
    let vpd = "\tCapabilities: [48] Vital Product Data\n\t\tProduct Name: x\n\t\t\t[VA] Vendor specific: SW_MNG\n\t\tEnd\n";
    let text = MACHINE.replace("\tStatus: Cap- 66MHz", "\tStatus: Cap+ 66MHz");
    let text = text.trim_end().to_owned() + "\n" + vpd + "\n";
    assert_eq!(read(&text).unnamed_nics, []);
    assert_eq!(read(&text.replace("SW_MNG", "other")).unnamed_nics.len(), 1);
}

#[test]
fn contradictory_bridges_are_noted_with_lines() {
    let bridge = |bdf: &str, below: &str| {
        format!(
            "{bdf} PCI bridge: Intel Corporation Device 352a\n\tBus: primary=00, secondary={below}, subordinate=ff\n\n"
        )
    };
    let facts =
        read(&(bridge("00:01.0", "01") + &bridge("00:02.0", "01") + &bridge("05:00.0", "05")));
    assert_eq!(place(&facts, "05:00.0"), "Broken");
    let notes = notes(&facts);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].starts_with("lspci, line 4: 0000:00:01.0 and 0000:00:02.0 both lead to bus 01"),
        "{notes:?}"
    );
    assert!(notes[1].starts_with("lspci, line 7: "), "{notes:?}");
}

/// 64 bytes of a switch port's header, bus 17 to 18; the rest is zero.
fn port_bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut put = |at: usize, these: &[u8]| {
        if let Some(slot) = bytes.get_mut(at..at + these.len()) {
            slot.copy_from_slice(these);
        }
    };
    put(0x00, &[0x00, 0x10, 0x30, 0xc0, 0x07, 0x00, 0x10, 0x00]);
    put(0x08, &[0xb0, 0x00, 0x04, 0x06, 0x00, 0x00, 0x01, 0x00]);
    put(0x18, &[0x17, 0x18, 0x18, 0x00]);
    put(0x34, &[0x40]);
    put(0x40, &[0x10, 0x00, 0x62, 0x00]);
    put(0x100, &[0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, 0x04, 0x00]);
    bytes
}

fn dumped(first: &str, bytes: &[u8]) -> String {
    let rows = bytes.chunks(16).zip(0..).map(|(row, at): (&[u8], usize)| {
        let row: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:02x}: {}\n", at * 16, row.join(" "))
    });
    format!("{first}\n{}\n", rows.collect::<String>())
}

#[test]
fn bytes_decide_as_far_as_they_go() {
    let first = "17:01.0 PCI bridge: Nobody Thing";
    let config = |length: usize| -> Config {
        device(&read(&dumped(first, &port_bytes(length))), "17:01.0").config
    };
    let all = config(4096);
    assert_eq!(all.acs.present().map(|acs| acs.control), Some(AcsBits(4)));
    assert!(all.ats.is_absent());
    let legacy = config(256);
    assert_eq!(
        legacy.express.present().map(|express| express.port),
        Some(PortType::DownstreamPort)
    );
    assert_eq!(
        (&legacy.acs, &legacy.sriov),
        (&Fact::Unknown(Why::NotCovered), &Fact::Unknown(Why::NotCovered))
    );
    let header = config(64);
    assert_eq!(
        (&header.express, &header.acs),
        (&Fact::Unknown(Why::NotCovered), &Fact::Unknown(Why::NotCovered))
    );
    assert!(header.header.known().is_some());
    // A text cut within the bytes.
    assert_eq!(config(1000).acs, Fact::Unknown(Why::NotCovered));
    assert_eq!(config(100).express, Fact::Unknown(Why::NotCovered));
    assert_eq!(config(48), Config::default());
    let facts = read(&(dumped(first, &port_bytes(64)) + "18:00.0 0302: 10de:2330\n"));
    assert_eq!(place(&facts, "18:00.0"), "pci0000:17?/0000:17:01.0");
}

#[test]
fn bytes_override_text() {
    let text = "17:01.0 PCI bridge: Nobody Thing\n\tBus: primary=00, secondary=99, subordinate=99, sec-latency=0";
    let facts = read(&dumped(text, &port_bytes(4096)));
    let port = device(&facts, "17:01.0");
    assert_eq!(port.ids.known().map(ToString::to_string).as_deref(), Some("1000:c030"));
    // -vvv -x: the text has what the 64 bytes lack.
    let (before, after) = MACHINE.split_at(MACHINE.find("\n\n16:00.0").expect("a blank line") + 1);
    let rows = dumped("", &port_bytes(64));
    let text = format!("{before}{}{}", rows.trim_start(), after.trim_start_matches('\n'));
    let port = device(&read(&text), "15:01.0");
    assert_eq!(port.config.acs.present().map(|acs| acs.control), Some(AcsBits(0x15)));
    assert_eq!(port.config.header.known().map(|header| header.device), Some(0xc030));
}

#[test]
fn fake_host_bridge_is_not_root() {
    let below = "17:00.0 PCI bridge: Intel Corporation Device 352a\n\tBus: primary=17, secondary=18, subordinate=18\n\n";
    let text = |bridge: &str| format!("{}{bridge}", below.replace("17:00.0", "17:01.0"));
    let endpoint =
        "\tControl: x\n\tStatus: Cap+\n\tCapabilities: [60] Express (v2) Endpoint, MSI 00\n\n";
    for (bridge, root) in [
        ("17:02.0 0600: 8086:1234\n".to_owned(), "pci0000:17"),
        (format!("17:02.0 0600: 8086:1234\n{endpoint}"), "pci0000:17?"),
        ("17:02.0 0600: 10ee:9034\n".to_owned(), "pci0000:17?"),
    ] {
        assert_eq!(place(&read(&text(&bridge)), "17:01.0"), root, "{bridge}");
    }
}

#[test]
fn virtual_functions_on_separate_bus_share_bridge() {
    let text = "\
00:01.0 PCI bridge: Intel Corporation Device 352a
\tBus: primary=00, secondary=01, subordinate=02, sec-latency=0

01:00.0 Ethernet controller: Mellanox Technologies Device 1021
\tCapabilities: [180 v1] Single Root I/O Virtualization (SR-IOV)
\t\tIOVCtl:\tEnable+ Migration- Interrupt- MSE+ ARIHierarchy+
\t\tIOVSta:\tMigration-
\t\tInitial VFs: 8, Total VFs: 8, Number of VFs: 2, Function Dependency Link: 00
\t\tVF offset: 256, stride: 1, Device ID: 101e

02:00.0 Ethernet controller: Mellanox Technologies Device 101e
";
    assert_eq!(place(&read(text), "02:00.0"), "pci0000:00/0000:00:01.0");
    assert_eq!(place(&read(&text.replace("VFs: 2", "VFs: 0")), "02:00.0"), "pci0000:02?");
}

#[test]
fn paravirtual_devices_mark_guest() {
    for (part, expected) in [
        ("00:01.0 0604: 1b36:000c", 1),
        ("00:15.0 0604: 15ad:07a0\n00:16.0 0604: 15ad:07a0\n01:00.0 0200: 1af4:1041", 3),
        ("01:00.0 0200: 1af4:1041", 0),
        ("01:00.0 0302: 10de:2330", 0),
    ] {
        assert_eq!(read(part).platform.paravirtual_devices, expected, "{part}");
    }
}

#[test]
fn recognises_lspci_text() {
    assert!(is_format(MACHINE.as_bytes()) && is_format(b"hello\n> 00:00.0 0600: 8086:0001"));
    for text in
        ["", "hello", "{}", "-[0000:00]-+-00.0  x", "00:01.0: BAR 0: assigned", "\tControl: I/O-"]
    {
        assert!(!is_format(text.as_bytes()), "{text}");
    }
}

#[test]
fn ignores_functions_above_limit() {
    let line = |n: usize, class: &str| {
        format!("{:04x}:{:02x}:{:02x}.{} {class}\n", n >> 16, n >> 8 & 0xff, n >> 3 & 0x1f, n & 7)
    };
    let others: String = (0..17_000).map(|n| line(n, "0c03: 8086:1234")).collect();
    let found = read(&others);
    assert_eq!((found.devices().len(), found.unnamed_nics.len()), (16_384, 0));
    let notes = notes(&found);
    assert!(notes[0].ends_with("more than 16384 functions: 616 ignored"), "{notes:?}");
}

proptest! {
    #[test]
    fn random_text_does_not_panic(text in "\\PC*", bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let names = names();
        let _ = facts(text.as_bytes(), &names);
        let _ = facts(&bytes, &names);
    }

    #[test]
    fn mutated_text_does_not_panic(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "\\PC{0,8}"), 1..12),
    ) {
        let names = names();
        let mut text: Vec<char> = MACHINE.chars().collect();
        text.extend(dumped("18:00.0 Bridge: x y", &port_bytes(4096)).chars());
        for (from, length, with) in cuts {
            let from = from.index(text.len().max(1)).min(text.len());
            let to = (from + length.index(200)).min(text.len());
            text.splice(from..to, with.chars());
        }
        let text: String = text.into_iter().collect();
        let _ = facts(text.as_bytes(), &names);
    }
}
