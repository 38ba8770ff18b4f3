//! NICs for GPUs, storage and management: a port that is down or slow fails a machine if it carries the traffic of GPUs, not otherwise.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Gdr, Machine, merge};

/// Eight GPUs and four switches, one NIC below each (mlx5_0, 4, 6, 8), and a NIC of another kind of place (mlx5_10, eth9).
fn machine(compute: usize) -> tempfile::TempDir {
    let other = json!({"is": "cx7-eth", "net": "eth9", "rdma": {"name": "mlx5_10", "layer": "Ethernet",
        "gids": [["0000:0000:0000:0000:0000:ffff:c000:0201", "RoCE v2", "eth9"]]}});
    let mut patch = json!({"roots": {"0000:48": {"below": {"48:05.0": {"is": "root-port", "below": {"4b:00.0": other}}}}}});
    if compute == 4 {
        for (root, port, switch, at, nic) in [
            ("0000:15", "15:01.0", "16:00.0", "17:03.0", "1b:00.0"),
            ("0000:37", "37:01.0", "38:00.0", "39:03.0", "3d:00.0"),
            ("0000:97", "97:01.0", "98:00.0", "99:03.0", "9d:00.0"),
            ("0000:c7", "c7:01.0", "c8:00.0", "c9:03.0", "cd:00.0"),
        ] {
            patch["roots"][root] = json!({"below": {port: {"below": {switch: {"below": {at: {"below": {nic: null}}}}}}}});
        }
    }
    Machine::load_changed("hgx-h100-8gpu-8nic", |machine| merge(machine, &patch)).laid_out()
}

fn write(root: &Path, file: &str, text: &str) {
    let file = root.join(file);
    fs::create_dir_all(file.parent().expect("a directory")).expect("directories");
    fs::write(file, text).expect("a file");
}

fn state(root: &Path, nic: &str, state: &str) {
    write(root, &format!("sys/class/infiniband/{nic}/ports/1/state"), state);
}

fn rate(root: &Path, nic: &str, rate: &str) {
    write(root, &format!("sys/class/infiniband/{nic}/ports/1/rate"), rate);
}

/// The answer of doctor, and its finding of rdma.port on a NIC.
fn port(root: &Path, nic: &str, profile: &str) -> (Value, Value) {
    let file = root.join("site.toml");
    let head =
        "name = 'site'\nabout = 'Site: what it has'\nincludes = ['rdma']\nunits = 'gpu-nic'\n";
    fs::write(&file, format!("{head}{profile}")).expect("a profile");
    let run = Gdr::new()
        .sysroot(root)
        .args(["doctor", "--format", "json", "--only", "rdma.port,expect.port", "--profile"])
        .args([&file])
        .run();
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    let findings = report["findings"].as_array().expect("findings");
    let found = findings.iter().find(|found| found["id"] == "rdma.port" && found["subject"] == nic);
    let found = found.unwrap_or_else(|| panic!("{nic}: {findings:#?}")).clone();
    (report, found)
}

fn assert_is(found: &Value, outcome: &str, message: &str) {
    assert_eq!(
        (found["outcome"].as_str(), found["message"].as_str()),
        (Some(outcome), Some(message))
    );
}

const DOWN: &str = "The port is DOWN.";

#[test]
fn compute_rail_that_is_down_or_slow_fails() {
    let root = machine(8);
    let root = root.path();
    state(root, "mlx5_4", "1: DOWN\n");
    let (_, found) = port(root, "mlx5_4", "");
    assert_is(
        &found,
        "fail",
        "Port DOWN; those of 7 of 7 other compute NICs of its kind are active. It is a compute NIC: the nearest of GPU2 (PIX).",
    );
    assert_eq!(found["action"]["class"], "reseat_cable");
    // Two of eight, and one that is slow.
    state(root, "mlx5_6", "1: DOWN\n");
    rate(root, "mlx5_0", "200 Gb/sec (2X NDR)\n");
    let (_, found) = port(root, "mlx5_6", "");
    assert_eq!(found["outcome"], "fail");
    let (_, found) = port(root, "mlx5_0", "");
    assert_is(&found, "pass", "The port is active.");
    state(root, "mlx5_4", "4: ACTIVE\n");
    let (_, found) = port(root, "mlx5_0", "");
    assert_is(
        &found,
        "fail",
        "Port at 200 Gb/s; those of 6 of 7 other compute NICs of its kind run at 400 Gb/s or more. It is a compute NIC: the nearest of GPU0 (PIX).",
    );
    // Half of them are down on purpose.
    for nic in ["mlx5_0", "mlx5_4", "mlx5_6", "mlx5_8"] {
        rate(root, nic, "400 Gb/sec (4X NDR)\n");
        state(root, nic, "1: DOWN\n");
    }
    assert_is(&port(root, "mlx5_0", "").1, "info", DOWN);
}

#[test]
fn gpu_without_its_rail_is_not_ready() {
    let root = machine(4);
    let root = root.path();
    state(root, "mlx5_4", "1: DOWN\n");
    let run = Gdr::new().sysroot(root).args(["doctor", "--format", "json"]).run();
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let ready = &report["readiness"][0];
    let blocked = ready["blocked"].as_array().unwrap_or_else(|| panic!("{report:#}"));
    let blocked = blocked.iter().filter(|obstacle| obstacle["check"] == "rdma.port");
    let places: Vec<&str> = blocked.filter_map(|obstacle| obstacle["place"].as_str()).collect();
    // Both share the switch of the NIC that is down; the next one is mlx5_10.
    assert_eq!(places, ["GPU2–NIC4", "GPU3–NIC4"], "{ready:#}");
}

#[test]
fn management_and_storage_ports_do_not_fail() {
    let root = machine(8);
    let root = root.path();
    let route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        bond0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
    write(root, "proc/net/route", route);
    std::os::unix::fs::symlink("../bond0", root.join("sys/class/net/eth9/master")).expect("a link");
    // Expected to be up, and down.
    state(root, "mlx5_10", "1: DOWN\n");
    let active = "[expect.ports]\nactive = 1\n";
    let (report, found) = port(root, "mlx5_10", active);
    assert_is(&found, "info", DOWN);
    let findings = report["findings"].as_array().expect("findings");
    let expected =
        findings.iter().find(|found| found["id"] == "expect.port" && found["subject"] == "mlx5_10");
    assert_is(
        expected.expect("a finding"),
        "warn",
        "Active ports: 1 expected, 0 found. It is a management NIC: the default route leads over bond0.",
    );
    // A profile goes before the place and before the route.
    state(root, "mlx5_4", "1: DOWN\n");
    let (_, found) = port(root, "mlx5_4", "[roles]\nstorage = ['mlx5_4']\n");
    assert_is(&found, "info", DOWN);
    let (_, found) = port(root, "mlx5_4", "[roles]\nmanagement = ['0000:3c:00.0']\n");
    assert_is(&found, "info", DOWN);
    // All that carry the traffic of GPUs are down: the other one does not help.
    state(root, "mlx5_10", "4: ACTIVE\n");
    for nic in ["mlx5_0", "mlx5_1", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7", "mlx5_8", "mlx5_9"] {
        state(root, nic, "1: DOWN\n");
    }
    let (_, found) = port(root, "machine", "");
    assert_eq!(found["outcome"], "warn");
    let (report, _) = port(root, "mlx5_10", "[roles]\ncompute = ['eth9']\n");
    let findings = report["findings"].as_array().expect("findings");
    assert!(
        !findings.iter().any(|found| found["id"] == "rdma.port" && found["subject"] == "machine")
    );
}

/// Every network interface of mlx5_10 is the way to a server: of a mount, of an NVMe controller, or by name.
#[test]
fn nic_that_reaches_storage_is_a_storage_nic() {
    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
        eth9.100\t0000140A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
    let nfs = "10.20.0.5:/x /x nfs4 rw,clientaddr=10.20.0.77,addr=10.20.0.5 0 0\n";
    let elsewhere = "10.77.0.5:/x /x nfs4 rw,clientaddr=10.77.0.77,addr=10.77.0.5 0 0\n";
    // ip rule leads to it through a table that is not the main one.
    let ruled = "10.77.0.5:/x /x nfs4 rw,clientaddr=10.20.0.77,addr=10.77.0.5 0 0\n";
    let ceph = "10.20.5.1:6789,10.20.5.2:6789:/ /c ceph rw,name=gpu 0 0\n";
    let far_lustre = "10.77.1.1@o2ib:/s /s lustre rw 0 0\n";
    let lustre = "10.20.1.1@o2ib:10.20.1.2@o2ib:/s /s lustre rw 0 0\n";
    let beegfs = "beegfs_nodev /b beegfs rw,cfgFile=/etc/beegfs/beegfs-client.conf 0 0\n";
    let gpfs = "gpfs0 /g gpfs rw 0 0\n";
    let storage = |why: &str| format!("{DOWN} It is a storage NIC: {why}.");
    let over = |kind: &str, interface: &str| {
        storage(&format!("storage ({kind}) is reached over {interface}"))
    };
    let fabrics: &[(&str, &str)] = &[
        ("sys/class/nvme/nvme4/transport", "rdma\n"),
        ("sys/class/nvme/nvme4/address", "traddr=10.20.3.4,trsvcid=4420,src_addr=10.20.0.77\n"),
        ("sys/class/nvme/nvme0/transport", "pcie\n"),
        ("sys/class/nvme/nvme0/address", "0000:05:00.0\n"),
    ];
    let bound: &[(&str, &str)] = &[
        ("sys/class/nvme/nvme4/transport", "tcp\n"),
        ("sys/class/nvme/nvme4/address", "traddr=10.77.3.4,trsvcid=4420,host_iface=eth9\n"),
    ];
    let named: &[(&str, &str)] = &[
        (
            "etc/beegfs/beegfs-client.conf",
            "sysMgmtdHost = m1\nconnInterfacesFile = /etc/beegfs/if.conf\n",
        ),
        ("etc/beegfs/if.conf", "eth9\n"),
    ];
    let lnet: &[(&str, &str)] =
        &[("sys/module/lnet/parameters/networks", "o2ib(eth9[0,1]),tcp(eth0)\n")];
    let scale: &[(&str, &str)] =
        &[("var/mmfs/gen/mmfs.cfg", "clusterName c\nverbsRdma enable\nverbsPorts mlx5_10/1\n")];
    for (mounts, files, expected) in [
        (Some(nfs), &[][..], over("nfs4", "eth9.100")),
        (Some(ruled), &[], over("nfs4", "eth9.100")),
        (Some(ceph), &[], over("ceph", "eth9.100")),
        (Some(far_lustre), lnet, over("lustre", "eth9")),
        (Some(gpfs), scale, over("gpfs", "mlx5_10")),
        (Some(lustre), &[], over("lustre", "eth9.100")),
        (Some(beegfs), named, over("beegfs", "eth9")),
        (Some(""), fabrics, over("nvme-rdma", "eth9.100")),
        (Some(""), bound, over("nvme-tcp", "eth9")),
        // Over another interface, without an address, without a configuration, and where nothing is known of mounts.
        (Some(elsewhere), &[], DOWN.to_owned()),
        (Some(nfs), scale, over("nfs4", "eth9.100")),
        (Some(far_lustre), &[], DOWN.to_owned()),
        (Some(gpfs), &[], DOWN.to_owned()),
        (Some(beegfs), &[], DOWN.to_owned()),
        (None, &[], DOWN.to_owned()),
    ] {
        let root = machine(8);
        let root = root.path();
        write(root, "proc/net/route", ROUTES);
        state(root, "mlx5_10", "1: DOWN\n");
        if let Some(mounts) = mounts {
            write(root, "proc/self/mounts", mounts);
        }
        for (file, text) in files {
            write(root, file, text);
        }
        // A profile makes it a finding that a role can weigh.
        let (report, _) = port(root, "mlx5_10", "[expect.ports]\nactive = 1\n");
        let findings = report["findings"].as_array().expect("findings");
        let found = findings
            .iter()
            .find(|found| found["id"] == "expect.port" && found["subject"] == "mlx5_10")
            .expect("a finding");
        let message = found["message"].as_str().expect("a message");
        let is_storage = expected != DOWN;
        let outcome = if is_storage { "warn" } else { "fail" };
        assert_eq!(found["outcome"], outcome, "{mounts:?}: {message}");
        let role = expected.strip_prefix(DOWN).expect("the role").trim();
        assert!(message.ends_with(role), "{mounts:?}: {message}");
    }
}

/// The nearest NIC of a GPU stays a compute NIC, whatever else it carries, and the recording of a machine has no address of a server.
#[test]
fn compute_nic_that_reaches_storage_too_is_judged_as_one() {
    let root = machine(8);
    let root = root.path();
    let route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
        ib4\t0000140A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
    write(root, "proc/net/route", route);
    write(root, "proc/self/mounts", "10.20.0.5:/x /x nfs4 rw,addr=10.20.0.5 0 0\n");
    fs::create_dir_all(root.join("sys/class/infiniband/mlx5_4/device/net/ib4"))
        .expect("an interface");
    state(root, "mlx5_4", "1: DOWN\n");
    let (_, found) = port(root, "mlx5_4", "");
    assert_eq!(found["outcome"], "fail", "{found:#}");
    let snapshot = root.join("machine.json");
    Gdr::new().sysroot(root).args(["snapshot", "-o"]).args([&snapshot]).run().assert_code(0);
    let text = fs::read_to_string(&snapshot).expect("the snapshot");
    let recorded: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(recorded["files"]["/proc/self/mounts"]["text"], "nfs4\n");
    assert_eq!(recorded["files"]["/proc/net/route"]["text"], "ib4 nfs4\n");
    assert!(!text.contains("10.20.0.5") && !text.contains("0000140A"));
}
