//! A small machine, one change each, and the expected output.

use serde_json::{Value, json};

use super::*;

const GPU: &str = "0000:03:00.0";
const PORT: &str = "0000:02:00.0";

fn link(width: u8) -> Value {
    json!({"max": {"speed": 5, "width": 16}, "current": {"speed": 5, "width": width}, "target": 5,
        "aspm_enabled": {"l0s": false, "l1": false}, "port_number": 0})
}

fn device(bdf: &str, ids: [u32; 3], bridges: &[&str]) -> Value {
    let express = json!({"offset": 96, "version": 2, "port": "endpoint", "max_payload": 256, "max_read_request": 4096, "relaxed_ordering": true,
        "extended_tag": true, "no_snoop": false, "link": link(16)});
    let uncovered = json!({"unknown": "not_covered"});
    json!({
        "bdf": bdf,
        "place": {"known": {"root": {"domain": 0, "bus": 0}, "bridges": bridges}},
        "ids": {"known": {"vendor": ids[0], "device": ids[1], "class": ids[2]}},
        "numa_node": {"known": 0},
        "config": {"header": uncovered, "express": {"known": express},
            "acs": {"known": {"offset": 0x148, "capable": 0x5f, "control": 0x11, "egress_size": 0, "egress_vector": {"known": []}}},
            "ats": {"known": null}, "sriov": {"known": null},
            "serial_number": {"known": 1}},
        "attributes": null,
    })
}

fn machine() -> Value {
    let mut facts = serde_json::to_value(Facts::default()).expect("JSON");
    facts["pci"] = json!({"known": [
        device(PORT, [0x1000, 0xc030, 0x060400], &[]),
        device(GPU, [0x10de, 0x2335, 0x030200], &[PORT]),
    ]});
    facts["host"]["name"] = json!("node17");
    facts["driver"]["module_version"] = json!({"known": "580.159.04"});
    facts["driver"]["params"] = json!({"known": {"EnableStreamMemOPs": "0"}});
    facts["process"]["memlock_soft"] = json!({"known": null});
    facts["environment"] = json!({"known": {}});
    facts["limits"]["max_map_count"] = json!({"known": 65_530});
    facts["software"]["libraries"] = json!({"known": [{"name": "libnccl.so.2", "path": "/usr/lib/libnccl.so.2",
        "version": "2.18.3", "found": "cache", "plugins": null, "words": {"known": []}}]});
    facts["software"]["perftest"] =
        json!({"known": {"path": "/usr/bin/ib_write_bw", "words": {"known": []}}});
    facts["kernel"]["modules"] = json!({"known": [{"name": "nvidia", "users": ["nvidia_uvm"]}]});
    facts["kernel"]["command_line"] = json!({"known": "ro quiet iommu=pt"});
    facts["nvml"] = json!({"known": {"read": {
        "library": null, "driver_version": {"known": "580.159.04"}, "cuda_version": {"known": 13000},
        "confidential_compute": {"known": false}, "unreachable": [], "gpus": [], "pairs": []}}});
    facts["rdma"] = json!({"known": [{"name": "mlx5_0", "place": {"known": "0000:04:00.0"}, "parent": {"known": null},
        "ports": {"known": [{"number": 1, "state": {"known": "ACTIVE"}, "link_layer": {"known": "InfiniBand"},
            "rate": {"known": "400 Gb/sec (4X NDR)"}}]},
        "uverbs": {"known": null}, "management": {"known": false}, "physical_function": {"known": null}}]});
    facts["nvidia_nodes"] = json!({"known": [{"path": "/dev/nvidia0", "state": {"known":
        {"character": true, "major": 195, "minor": 0, "mode": 0o666, "usable": {"known": true}}}}]});
    facts
}

fn facts(value: Value) -> Facts {
    serde_json::from_value(value).expect("facts")
}

/// All changes after an edit: `area | fact | from | to | kind`, `!` if it is left out.
fn changes(edit: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut after = machine();
    edit(&mut after);
    let found = diff(&facts(machine()), &facts(after));
    let line = |change: &Change| {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let mark = if change.matters() { "" } else { "! " };
        let (a, b) = (text(&change.a), text(&change.b));
        format!("{mark}{} | {} | {a} | {b} | {:?}", change.area, change.fact, change.kind)
    };
    found.changes.iter().map(line).collect()
}

#[test]
fn nothing_changed() {
    assert_eq!(changes(|_| ()), [""; 0]);
    assert_eq!(changes(|facts| facts["notes"] = json!([{"source": "x", "message": "y"}])), [""; 0]);
}

/// Every field of the facts is compared.
#[test]
fn every_area_is_compared() {
    let bare = serde_json::to_value(Facts::default()).expect("JSON");
    let whole = [
        ("partial", json!(true)),
        ("unnamed_nics", json!(["0000:04:00.0"])),
        ("mapping", json!({"known": {"absent": {"reason": "no such file"}}})),
        ("registration", json!({"known": {"absent": {"reason": "no such file"}}})),
        ("tools", json!({"setpci": {"known": null}})),
        ("notes", json!([])),
        ("host", json!({"source": "live", "name": "node18"})),
    ];
    let mut fields: Vec<&str> =
        bare.as_object().expect("facts").keys().map(String::as_str).collect();
    fields.extend(whole.iter().map(|(name, _)| *name));
    fields.sort_unstable();
    fields.dedup();
    for field in fields {
        // Remarks about the source are not facts of the machine.
        if ["partial", "notes"].contains(&field) {
            continue;
        }
        let mut after = bare.clone();
        match whole.iter().find(|(name, _)| *name == field) {
            Some((_, value)) => after[field] = value.clone(),
            // Replace the area, or its first fact, by another reason for "unknown".
            None => {
                let unknown = |value: &mut Value| *value = json!({"unknown": "denied"});
                let area = &mut after[field];
                match area.as_object_mut() {
                    Some(fact) if fact.contains_key("unknown") => unknown(area),
                    Some(facts) => facts
                        .values_mut()
                        .filter(|value| value.get("unknown").is_some())
                        .take(1)
                        .for_each(unknown),
                    None => panic!("{field} is of no known form"),
                }
            }
        }
        let (a, b) = (facts(bare.clone()), facts(after));
        assert_ne!(a, b, "{field}");
        assert!(!diff(&a, &b).changes.is_empty(), "{field} is not compared");
    }
}

#[test]
fn added_or_removed_thing_is_one_change() {
    let added = device("0000:05:00.0", [0x10de, 0x2335, 0x030200], &[PORT]);
    assert_eq!(
        changes(|facts| facts["pci"]["known"].as_array_mut().expect("a list").push(added)),
        ["PCI 0000:05:00.0 |  | - | 10de:2335 | Added"]
    );
    assert_eq!(
        changes(|facts| facts["pci"]["known"].as_array_mut().expect("a list").truncate(1)),
        ["PCI 0000:03:00.0 |  | 10de:2335 | - | Removed"]
    );
    assert_eq!(
        changes(|facts| {
            let modules = facts["kernel"]["modules"]["known"].as_array_mut().expect("a list");
            modules.insert(0, json!({"name": "nvidia_peermem", "users": []}));
        }),
        ["module nvidia_peermem |  | - | present | Added"]
    );
    assert_eq!(
        changes(|facts| facts["rdma"]["known"] = json!([])),
        ["RDMA mlx5_0 |  | 0000:04:00.0 | - | Removed"]
    );
    assert_eq!(
        changes(|facts| facts["nvidia_nodes"]["known"] = json!([])),
        ["node /dev/nvidia0 |  | present | - | Removed"]
    );
}

#[test]
fn registers_use_lspci_notation() {
    assert_eq!(
        changes(|facts| facts["pci"]["known"][0]["config"]["acs"]["known"]["control"] = json!(0x1d)),
        ["PCI 0000:02:00.0 | ACS control \
            | SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+ EgressCtrl- DirectTrans- \
            | SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans- | Changed"]
    );
    assert_eq!(
        changes(|facts| facts["pci"]["known"][1]["config"]["express"]["known"]["link"] = link(8)),
        ["PCI 0000:03:00.0 | link | 32GT/s x16 | 32GT/s x8 | Changed"]
    );
    assert_eq!(
        changes(|facts| {
            let link = &mut facts["pci"]["known"][1]["config"]["express"]["known"]["link"];
            link["current"]["speed"] = json!(1);
        }),
        ["! PCI 0000:03:00.0 | link | 32GT/s x16 | 2.5GT/s x16 | Changed"],
        "an idle GPU's link is slow"
    );
    assert_eq!(
        changes(|facts| facts["pci"]["known"][1]["numa_node"] = json!({"known": null})),
        ["PCI 0000:03:00.0 | NUMA node | 0 | none | Changed"]
    );
}

#[test]
fn system_facts() {
    for (pointer, value, expected) in [
        (
            "/driver/module_version/known",
            json!("595.1"),
            "driver | module version | 580.159.04 | 595.1 | Changed",
        ),
        (
            "/driver/params/known/EnableStreamMemOPs",
            json!("1"),
            "driver | params EnableStreamMemOPs | 0 | 1 | Changed",
        ),
        (
            "/process/memlock_soft/known",
            json!(8 << 20),
            "process | memlock soft | unlimited | 8 MiB | Changed",
        ),
        (
            "/kernel/command_line/known",
            json!("ro iommu=off quiet"),
            "kernel | command line | iommu=pt | iommu=off | Changed",
        ),
        (
            "/kernel/modules/known/0/users",
            json!([]),
            "module nvidia | users | nvidia_uvm | none | Changed",
        ),
        (
            "/rdma/known/0/ports/known/0/state/known",
            json!("DOWN"),
            "RDMA mlx5_0 | ports 1 state | ACTIVE | DOWN | Changed",
        ),
        (
            "/nvidia_nodes/known/0/state/known/mode",
            json!(0o600),
            "node /dev/nvidia0 | state mode | 666 | 600 | Changed",
        ),
        (
            "/environment/known",
            json!({"NCCL_P2P_DISABLE": "1"}),
            "variable NCCL_P2P_DISABLE |  | - | 1 | Added",
        ),
        (
            "/limits/max_map_count/known",
            json!(262_144),
            "limits | max map count | 65530 | 262144 | Changed",
        ),
        (
            "/software/libraries/known/0/version",
            json!("2.27.7"),
            "library /usr/lib/libnccl.so.2 | version | 2.18.3 | 2.27.7 | Changed",
        ),
        ("/software/perftest/known", json!(null), "perftest |  | present | none | Changed"),
        ("/host/name", json!("node18"), "! host | name | node17 | node18 | Changed"),
        (
            "/pci/known/1/config/serial_number/known",
            json!(2),
            "! PCI 0000:03:00.0 | serial number | 1 | 2 | Changed",
        ),
        (
            "/nvml/known",
            json!({"absent": {"reason": "no such file"}}),
            "NVML |  | read | absent (no such file) | Changed",
        ),
    ] {
        assert_eq!(
            changes(|facts| *facts.pointer_mut(pointer).expect("a fact") = value),
            [expected]
        );
    }
}

#[test]
fn only_gpu_links_may_be_slow_when_idle() {
    for (device, mark) in [(0, "! "), (1, "! "), (2, "")] {
        let nic = device_of_a_nic();
        let mut before = machine();
        before["pci"]["known"].as_array_mut().expect("a list").push(nic);
        let mut after = before.clone();
        after["pci"]["known"][device]["config"]["express"]["known"]["link"]["current"]["speed"] =
            json!(1);
        let found = diff(&facts(before), &facts(after)).changes;
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((found[0].fact.as_str(), found[0].volatile), ("link", mark == "! "), "{device}");
    }
}

fn device_of_a_nic() -> Value {
    device("0000:04:00.0", [0x15b3, 0x1021, 0x020700], &[PORT])
}

#[test]
fn reports_device_numbers_of_nodes() {
    let nodes = |major: u32, minor: u32| {
        json!({"known": [{"path": "/dev/nvidia0", "state": {"known":
            {"character": true, "major": major, "minor": minor, "mode": 0o666, "usable": {"known": true}}}}]})
    };
    assert_eq!(
        changes(|facts| facts["nvidia_nodes"] = nodes(234, 3)),
        [
            "node /dev/nvidia0 | state major | 195 | 234 | Changed",
            "node /dev/nvidia0 | state minor | 0 | 3 | Changed"
        ]
    );
    let mut before = machine();
    before["kernel"]["char_devices"] = json!({"known": {"gdrdrv": [240], "mem": [1]}});
    let mut after = before.clone();
    after["kernel"]["char_devices"] = json!({"known": {"gdrdrv": [241], "mem": [2]}});
    let found = diff(&facts(before), &facts(after)).changes;
    let shown: Vec<(bool, Option<&str>)> =
        found.iter().map(|c| (c.matters(), c.b.as_deref())).collect();
    assert_eq!(shown, [(true, Some("241")), (false, Some("2"))]);
}

#[test]
fn compares_command_lines_by_parameter() {
    for (a, b, expected) in [
        (
            "iommu=pt iommu=off quiet",
            "iommu=off iommu=pt quiet",
            Some(("iommu=pt iommu=off", "iommu=off iommu=pt")),
        ),
        ("ro quiet iommu=pt", "iommu=pt ro quiet", None),
        ("ro quiet", "quiet iommu=pt ro", Some(("none of these", "iommu=pt"))),
        ("x=1 x=1", "x=1", Some(("x=1 x=1", "x=1"))),
    ] {
        let with = |line: &str| {
            let mut value = machine();
            value["kernel"]["command_line"] = json!({"known": line});
            facts(value)
        };
        let found = diff(&with(a), &with(b)).changes;
        let shown = found
            .first()
            .map(|c| (c.a.as_deref().expect("a text"), c.b.as_deref().expect("a text")));
        assert_eq!((shown, found.len()), (expected, usize::from(expected.is_some())), "{a} / {b}");
    }
}

#[test]
fn added_or_removed_capability() {
    assert_eq!(
        changes(
            |facts| facts["pci"]["known"][1]["config"]["express"] = json!({"unknown": "denied"})
        ),
        [
            "PCI 0000:03:00.0 | PCI Express capability | present | unknown (permission denied) | Lost"
        ]
    );
}

#[test]
fn fact_learned_or_lost() {
    let denied = json!({"unknown": "denied"});
    let mut before = machine();
    before["pci"]["known"][0]["config"]["acs"] = denied.clone();
    let learned = diff(&facts(before), &facts(machine())).changes;
    assert_eq!(learned.len(), 1, "{learned:#?}");
    assert_eq!((learned[0].kind, learned[0].fact.as_str()), (ChangeKind::Learned, "ACS"));
    assert_eq!(learned[0].a.as_deref(), Some("unknown (permission denied)"));
    assert!(learned[0].b.as_deref().is_some_and(|text| text.starts_with("SrcValid+ ")));
    assert_eq!(
        changes(|facts| facts["process"]["memlock_soft"] = denied),
        ["process | memlock soft | unlimited | unknown (permission denied) | Lost"]
    );
    assert_eq!(
        changes(|facts| facts["rdma"] = json!({"unknown": "not_covered"})),
        ["! machine | RDMA | 1 known | unknown (not available) | Lost"]
    );
}

#[test]
fn report_omits_identity() {
    let mut after = machine();
    after["host"]["name"] = json!("node18");
    after["pci"]["known"][1]["config"]["serial_number"] = json!({"known": 2});
    let found = diff(&facts(machine()), &facts(after));
    let report = found.clone().report(Default::default(), Default::default(), false);
    assert_eq!((report.is_empty(), report.left_out), (true, 2));
    let report = found.report(Default::default(), Default::default(), true);
    assert_eq!((report.changes.len(), report.left_out), (2, 0));
}
