//! Ports with ACS bits at switches, root ports and host bridges: outcomes, pairs and fixes.

use crate::check::testing::{
    Edit, GPU, GPU_PORT, NIC, NIC_PORT, ROOT_PORT, assert_says, bdf, bind, findings, fix, gpu,
    machine, only, outcomes, root_port, set_acs, set_device_id,
};
use crate::model::{Fact, Facts, NvLink, NvmlOutcome, Outcome, PciPath, PortType, RootBus, Why};

const SECOND: &str = "0000:05:00.0";
const SECOND_PORT: &str = "0000:00:05.0";

/// A second GPU below another root port, with this number of NVLinks to the first.
fn two_gpus(links: Fact<usize>) -> Facts {
    let mut facts = machine();
    facts.add(root_port(SECOND_PORT));
    facts.add(gpu(SECOND));
    set_acs(&mut facts, SECOND_PORT, 0);
    let Fact::Known(NvmlOutcome::Read(nvml)) = &mut facts.nvml else {
        panic!("no NVML");
    };
    let mut second = nvml.gpus[0].clone();
    (second.index, second.bdf) = (1, bdf(SECOND));
    let link = |to: &str| NvLink {
        index: 0,
        remote: Fact::Known("gpu".to_owned()),
        remote_bdf: Fact::Known(bdf(to)),
    };
    nvml.gpus[0].active_links = links.clone().map(|count| vec![link(SECOND); count]);
    second.active_links = links.map(|count| vec![link(GPU); count]);
    nvml.gpus.push(second);
    facts
}

#[test]
fn source_validation_and_upstream_forwarding_pass() {
    let found = only("pcie.acs", &machine());
    assert_eq!(found.outcome, Outcome::Pass);
    assert_eq!(found.message, "2 ports on the paths between GPUs and NICs redirect nothing.");
    assert_eq!(found.subject, format!("{GPU_PORT}, {NIC_PORT}"));
    let bits = "SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl- DirectTrans-";
    assert_eq!(found.evidence[0].value, format!("0x0011 ({bits})"));
}

#[test]
fn redirecting_switch_port_fails() {
    let mut facts = machine();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    // The root port is above the common switch, so its bits do not matter.
    set_acs(&mut facts, ROOT_PORT, 0x1d);
    let found = findings("pcie.acs", &facts, &["rdma"]);
    assert_eq!(outcomes(&found), [(GPU_PORT, Outcome::Fail), (NIC_PORT, Outcome::Pass)]);
    assert!(found[0].message.starts_with(
        "ACS redirects traffic at 0000:02:00.0: the downstream port redirects (ReqRedir, CmpltRedir) that of GPU0 and NIC0 (PIX): "
    ));
    let command = "setpci -s 0000:02:00.0 ECAP_ACS+0x6.w=0000:000c";
    assert_eq!(fix(&found[0]), ("acs", command.to_owned()));
    assert_eq!(found[0].evidence[0].source, "0000:02:00.0 config 0x14e, ACS control");
    assert!(!found[0].message.contains("IOMMU translates"));
}

#[test]
fn redirecting_root_port_warns() {
    let mut facts = machine();
    // PHB: the NIC is below another root port.
    facts.add(root_port("0000:00:02.0"));
    facts.device_mut(NIC).place = Fact::Known(PciPath {
        root: RootBus { domain: 0, bus: 0 },
        rooted: true,
        bridges: vec![bdf("0000:00:02.0")],
    });
    for port in [ROOT_PORT, GPU_PORT] {
        set_acs(&mut facts, port, 0x1d);
    }
    let found = findings("pcie.acs", &facts, &[]);
    assert_eq!(outcomes(&found), [(ROOT_PORT, Outcome::Warn), ("0000:00:02.0", Outcome::Pass)]);
    assert_says(&found[0], "GPU0 and NIC0 (PHB)");
}

#[test]
fn bits_between_host_bridges_are_info() {
    let mut facts = machine();
    facts.add(root_port("0000:80:01.0"));
    for (device, bridges) in [(NIC, vec![bdf("0000:80:01.0")]), ("0000:80:01.0", Vec::new())] {
        facts.device_mut(device).place =
            Fact::Known(PciPath { root: RootBus { domain: 0, bus: 0x80 }, rooted: true, bridges });
    }
    for port in [ROOT_PORT, "0000:80:01.0"] {
        set_acs(&mut facts, port, 0x1d);
    }
    // Only information: the kernel sets these bits whenever an IOMMU is on.
    let found = findings("pcie.acs", &facts, &["rdma"]);
    assert_eq!(outcomes(&found), [(ROOT_PORT, Outcome::Info), ("0000:80:01.0", Outcome::Info)]);
    assert!(
        found[0].message.contains("GPU0 and NIC0 (NODE)") && found[0].message.contains("anyway")
    );
}

#[test]
fn gpus_connected_by_nvlink_are_not_judged() {
    for (links, outcome, word) in [
        (Fact::Known(4), None, ""),
        (Fact::Known(0), Some(Outcome::Warn), "GPU0 and GPU1 (PHB)"),
        (
            Fact::Unknown(Why::NotCovered),
            Some(Outcome::Warn),
            "GPU0 and GPU1 (PHB, if no NVLink joins them)",
        ),
    ] {
        let mut facts = two_gpus(links);
        facts.rdma = Fact::Known(Vec::new());
        set_acs(&mut facts, SECOND_PORT, 0x1d);
        let found = findings("pcie.acs", &facts, &[]);
        let port = found.iter().find(|f| f.subject == SECOND_PORT);
        assert_eq!(port.map(|f| f.outcome), outcome);
        assert!(port.is_none_or(|f| f.message.contains(word)), "{port:?}");
    }
}

#[test]
fn pairs_through_one_port_share_a_finding() {
    let mut facts = two_gpus(Fact::Known(0));
    // Both GPUs below the switch; the NIC is next to the first.
    facts.device_mut(SECOND).place = Fact::Known(PciPath {
        root: RootBus { domain: 0, bus: 0 },
        rooted: true,
        bridges: [ROOT_PORT, "0000:01:00.0", "0000:02:02.0"].map(bdf).to_vec(),
    });
    let mut port = facts.device_mut(GPU_PORT).clone();
    port.bdf = bdf("0000:02:02.0");
    facts.add(port);
    set_acs(&mut facts, GPU_PORT, 0x1d);
    let found = findings("pcie.acs", &facts, &[]);
    assert_says(&found[0], "GPU0 and NIC0 (PIX); GPU0 and GPU1 (PIX)");
    assert_eq!(found.len(), 2);
}

#[test]
fn translating_iommu_is_mentioned() {
    let mut facts = machine();
    set_acs(&mut facts, NIC_PORT, 0x0c);
    facts.attributes_mut(NIC).iommu_group = Fact::Known(Some(7));
    facts.kernel.iommu_groups.insert(7, Fact::Known("DMA-FQ".to_owned()));
    let found = findings("pcie.acs", &facts, &[]);
    assert_says(&found[0], "clearing only the bits does not help");
    facts.kernel.iommu_groups.insert(7, Fact::Known("identity".to_owned()));
    assert!(
        !findings("pcie.acs", &facts, &[])[0]
            .message
            .contains("clearing only the bits does not help")
    );
}

#[test]
fn never_clears_port_above_passed_through_device() {
    let mut facts = machine();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    let mut passed_through = gpu("0000:03:00.1");
    passed_through.place = facts.device_mut(GPU).place.clone();
    facts.add(passed_through);
    facts.driver.gpus = Fact::Known(Default::default());
    bind(&mut facts, "0000:03:00.1", Some("vfio-pci"));
    let found = findings("pcie.acs", &facts, &[]);
    let port = found.iter().find(|f| f.subject == GPU_PORT).expect("the port");
    assert_says(port, "0000:03:00.1 below it belongs to a virtual machine");
    let (id, advice) = fix(port);
    assert!(id == "advice" && !advice.contains("setpci"), "{advice}");
}

#[test]
fn ignores_pairs_with_passed_through_device() {
    let mut facts = machine();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    facts.driver.gpus = Fact::Known(Default::default());
    bind(&mut facts, GPU, Some("vfio-pci"));
    assert_eq!(only("pcie.acs", &facts).outcome, Outcome::Skip);
}

#[test]
fn grace_keeps_bits() {
    let mut facts = machine();
    set_device_id(&mut facts, GPU, 0x2941);
    set_acs(&mut facts, GPU_PORT, 0x1d);
    let found = only("pcie.acs", &facts);
    assert_says(&found, "xx111x1");
    assert_eq!((found.outcome, found.fix), (Outcome::Info, None));
    // Vera: an Arm machine with NVIDIA root ports.
    let mut facts = machine();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    facts.platform.architecture = Fact::Known("aarch64".to_owned());
    assert_eq!(findings("pcie.acs", &facts, &[])[0].outcome, Outcome::Fail);
    let port = facts.device_mut(ROOT_PORT);
    port.ids = port.ids.clone().map(|ids| crate::model::Ids { vendor: 0x10de, ..ids });
    assert_eq!(only("pcie.acs", &facts).outcome, Outcome::Info);
}

#[test]
fn guests_and_unread_ports_do_not_pass() {
    let mut facts = machine();
    for port in [GPU_PORT, NIC_PORT] {
        facts.device_mut(port).config.acs = Fact::Unknown(Why::Denied);
    }
    let found = only("pcie.acs", &facts);
    assert_eq!(found.outcome, Outcome::Unknown);
    assert_eq!(found.needs.as_deref(), Some("root"));
    assert_eq!(found.subject, format!("{GPU_PORT}, {NIC_PORT}"));
    facts.platform.hypervisor_flag = Fact::Known(true);
    assert_eq!(only("pcie.acs", &facts).outcome, Outcome::Skip);
    let mut facts = machine();
    facts.rdma = Fact::Known(Vec::new());
    assert_eq!(only("pcie.acs", &facts).outcome, Outcome::Skip);
}

#[test]
fn ports_without_acs_pass() {
    let mut facts = machine();
    facts.device_mut(GPU_PORT).config.acs = Fact::Known(None);
    let found = only("pcie.acs", &facts);
    assert_eq!(found.outcome, Outcome::Pass);
    assert_eq!(found.evidence[0].value, "no access control services");
}

#[test]
fn unknown_place_of_second_gpu() {
    let mut facts = two_gpus(Fact::Known(0));
    facts.device_mut(SECOND).place = Fact::Unknown(Why::Broken);
    let found = findings("pcie.acs", &facts, &[]);
    let lost = found.iter().find(|f| f.outcome == Outcome::Unknown).expect("an unknown");
    assert_eq!(lost.subject, format!("GPU1 ({SECOND})"));
}

#[test]
fn long_pair_list_is_truncated() {
    let mut facts = machine();
    facts.rdma = Fact::Known(Vec::new());
    facts.nvml = Fact::Unknown(Why::NotCovered);
    for bus in 5..10 {
        facts.add(root_port(&format!("0000:00:{bus:02x}.0")));
        facts.add(gpu(&format!("0000:{bus:02x}:00.0")));
    }
    set_acs(&mut facts, ROOT_PORT, 0x0c);
    let found = findings("pcie.acs", &facts, &[]);
    // Five pairs of GPU0 pass its root port.
    assert_says(&found[0], "GPU0 and GPU4 (PHB, if no NVLink joins them); and 1 more:");
}

#[test]
fn unknown_place_of_only_gpu() {
    let mut facts = machine();
    facts.device_mut(GPU).place = Fact::Unknown(Why::Broken);
    let found = only("pcie.acs", &facts);
    assert_eq!((found.outcome, found.subject), (Outcome::Unknown, format!("GPU0 ({GPU})")));
    // Without a NIC there is no pair.
    facts.rdma = Fact::Known(Vec::new());
    assert_eq!(only("pcie.acs", &facts).outcome, Outcome::Skip);
}

#[test]
fn egress_control_blocks() {
    let mut facts = machine();
    set_acs(&mut facts, GPU_PORT, 0x20);
    if let Fact::Known(Some(acs)) = &mut facts.device_mut(GPU_PORT).config.acs {
        // Port number 0 is the NIC's port.
        (acs.egress_size, acs.egress_vector) = (8, Fact::Known(vec![1]));
    }
    let found = findings("pcie.acs", &facts, &[]);
    assert_eq!((found[0].outcome, found[0].subject.as_str()), (Outcome::Fail, GPU_PORT));
    let message = &found[0].message;
    assert!(
        message.contains("blocks (EgressCtrl)") && message.contains("access violations"),
        "{message}"
    );
    assert!(!message.contains("goes up to the root complex"), "{message}");
    // The number of the NIC's port is in its configuration space.
    facts.device_mut(NIC_PORT).config.express = Fact::Unknown(Why::Denied);
    let found = findings("pcie.acs", &facts, &[]);
    let of_gpu = found.iter().find(|finding| finding.subject.contains(GPU_PORT));
    assert_eq!(of_gpu.map(|finding| finding.outcome), Some(Outcome::Unknown));
}

/// A dump that begins below the root port: a bridge's role is the one in its capability, else unknown.
#[test]
fn role_without_port_above() {
    let mut facts = machine();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    let Fact::Known(devices) = &mut facts.pci else {
        panic!("no devices");
    };
    devices.retain(|device| device.bdf != bdf(ROOT_PORT));
    for device in devices.iter_mut() {
        if let Fact::Known(place) = &mut device.place {
            place.bridges.retain(|bridge| *bridge != bdf(ROOT_PORT));
            place.root.bus = 1;
            place.rooted = false;
        }
    }
    let found = findings("pcie.acs", &facts, &[]);
    let outcome = |found: &[crate::model::Finding], port: &str| {
        found.iter().find(|finding| finding.subject.contains(port)).map(|finding| finding.outcome)
    };
    assert_eq!(outcome(&found, GPU_PORT), Some(Outcome::Unknown), "{found:#?}");
    for (port, kind) in [
        ("0000:01:00.0", PortType::UpstreamPort),
        (GPU_PORT, PortType::DownstreamPort),
        (NIC_PORT, PortType::DownstreamPort),
    ] {
        if let Fact::Known(Some(express)) = &mut facts.device_mut(port).config.express {
            express.port = kind;
        }
    }
    let found = findings("pcie.acs", &facts, &[]);
    assert_eq!(outcome(&found, GPU_PORT), Some(Outcome::Fail), "{found:#?}");
    assert_eq!(outcome(&found, NIC_PORT), Some(Outcome::Pass), "{found:#?}");
}
