//! Machines on which nothing is wrong with what a check judges: redirection off the paths, control bits that redirect
//! nothing, links that idle, ports that nobody uses. Nothing may fail or warn on them, and what does is named here with the
//! reason.

use std::path::Path;

use crate::support::{Device, Gdr, Machine, corpus, names, recorded};
use serde_json::Value;

/// ACS: Source Validation and Upstream Forwarding, which redirect nothing.
const HARMLESS: u32 = 0x11;
/// What Linux sets behind an IOMMU: those, and both redirections.
const REDIRECTS: u32 = 0x1d;

fn recorded_machines() -> Vec<Machine> {
    corpus().iter().map(|path| Machine::from_corpus(path)).collect()
}

/// The findings of these checks that fail or warn on a machine, on bare metal.
fn failures(machine: &Machine, only: &str) -> Vec<Value> {
    let dir = machine.laid_out();
    let run = Gdr::new()
        .sysroot(dir.path())
        .args(["doctor", "--platform", "bare-metal", "--profile", "all", "--format", "json"])
        .args(["--only", only])
        .run();
    let report: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
    bad(&report)
}

fn bad(report: &Value) -> Vec<Value> {
    let findings = report["findings"].as_array().expect("findings");
    let bad = |finding: &&Value| finding["outcome"] == "fail" || finding["outcome"] == "warn";
    findings.iter().filter(bad).cloned().collect()
}

/// Sets the access control of every port that `which` takes.
fn set_acs(machine: &mut Machine, control: u32, which: impl Fn(&Device) -> bool) -> usize {
    let mut set = 0;
    for device in machine.devices.iter_mut().filter(|device| device.is_bridge()) {
        if device.port.is_some() && which(device) {
            device.acs_cap = Some(hex(0x5f));
            device.acs_ctl = Some(hex(control));
            set += 1;
        }
    }
    set
}

fn hex<T: serde::de::DeserializeOwned>(value: u32) -> T {
    serde_json::from_value(Value::from(format!("{value:04x}"))).expect("hexadecimal digits")
}

/// Whether a GPU or a NIC hangs below this bridge.
fn leads_to_one(machine: &Machine, bdf: &str) -> bool {
    machine.below(bdf).any(|device| {
        machine.gpus.contains(&device.bdf)
            || machine.nics.iter().any(|(nic, _)| *nic == device.bdf)
            || leads_to_one(machine, &device.bdf)
    })
}

#[test]
#[ignore = "needs recorded machines in ../shared"]
fn ineffective_control_bits_pass() {
    let mut set = 0;
    for mut machine in recorded_machines() {
        set += set_acs(&mut machine, HARMLESS, |_| true);
        let found = failures(&machine, "pcie.acs");
        assert!(found.is_empty(), "{}: {found:#?}", machine.name);
    }
    assert!(set > 20, "only {set} ports were set");
}

#[test]
#[ignore = "needs recorded machines in ../shared"]
fn redirection_off_path_passes() {
    let mut set = 0;
    for machine in recorded_machines() {
        let off: Vec<String> = machine
            .devices
            .iter()
            .filter(|device| device.is_bridge() && !leads_to_one(&machine, &device.bdf))
            .map(|device| device.bdf.clone())
            .collect();
        let mut machine = machine;
        set += set_acs(&mut machine, REDIRECTS, |device| off.contains(&device.bdf));
        let found = failures(&machine, "pcie.acs");
        assert!(found.is_empty(), "{}: {found:#?}", machine.name);
    }
    assert!(set > 5, "only {set} ports were set");
}

/// On machines with eight GPUs, and on half of one, each downstream port of a switch counts that leads from a GPU to another
/// GPU or a NIC below the same switch.
#[test]
fn redirection_of_each_port_below_a_switch_is_found() {
    for name in ["hgx-h100-8gpu-8nic", "hgx-acs-redirect"] {
        let sound = || {
            let mut machine = Machine::load(name);
            set_acs(&mut machine, HARMLESS, |_| true);
            for device in &mut machine.devices {
                device.acs_egress = Default::default();
            }
            machine
        };
        assert!(failures(&sound(), "pcie.acs").is_empty(), "{name}");
        let machine = sound();
        let is_gpu = |device: &Device| device.gpu.is_some();
        let is_nic = |device: &Device| {
            device.rdma.is_some() && !device.vpd.iter().any(|(_, value)| value == "SW_MNG")
        };
        let leads_to =
            |port: &Device, is_end: &dyn Fn(&Device) -> bool| machine.below(&port.bdf).any(is_end);
        let ports: Vec<&Device> = machine
            .devices
            .iter()
            .filter(|port| {
                let beside = port.parent.iter().flat_map(|switch| machine.below(switch));
                let mut beside = beside.filter(|other| other.bdf != port.bdf);
                leads_to(port, &|end| is_gpu(end) || is_nic(end))
                    && beside.any(|other| leads_to(other, &is_gpu))
            })
            .collect();
        assert!(ports.len() >= 8, "{name}: {}", ports.len());
        for port in ports {
            let mut machine = sound();
            assert_eq!(set_acs(&mut machine, REDIRECTS, |device| device.bdf == port.bdf), 1);
            let found = failures(&machine, "pcie.acs");
            assert_eq!(found.len(), 1, "{name}, {}: {found:#?}", port.bdf);
            assert_eq!(found[0]["subject"], port.bdf.as_str(), "{name}");
            assert_eq!(found[0]["outcome"], "fail", "{name}, {}", port.bdf);
        }
    }
}

/// The same machines with redirection on every port: silence above proves something.
#[test]
#[ignore = "needs recorded machines in ../shared"]
fn redirection_on_path_is_found() {
    let mut found = 0;
    for mut machine in recorded_machines() {
        if set_acs(&mut machine, REDIRECTS, |_| true) > 0 {
            found += failures(&machine, "pcie.acs").len();
        }
    }
    assert!(found > 2, "only {found} ports were found");
}

/// A GPU that idles has slowed its link down; so have NVMe controllers and ports without a device.
#[test]
#[ignore = "needs recorded machines in ../shared"]
fn idle_links_pass() {
    let mut idle = 0;
    for mut machine in recorded_machines() {
        for device in &mut machine.devices {
            let is_gpu = machine.gpus.contains(&device.bdf);
            if let (true, Some(link)) = (is_gpu, &mut device.link) {
                link.0 = "2.5GT/s".to_owned();
                idle += 1;
            }
        }
        let found = failures(&machine, "pcie.link");
        assert!(found.is_empty(), "{}: {found:#?}", machine.name);
    }
    assert!(idle > 2, "only {idle} links were slowed");
}

/// What the corpus recorded of real machines, as it is.
#[test]
#[ignore = "needs recorded machines in ../shared"]
fn real_machines_have_no_false_alarm() {
    for machine in recorded_machines() {
        for found in failures(&machine, "pcie,limits,platform,param") {
            let id = found["id"].as_str().expect("an id");
            // Their NICs sit below other host bridges than their GPUs: true, and the reason why they were recorded.
            assert_eq!(id, "pcie.locality", "{}: {found:#}", machine.name);
        }
    }
}

/// Snapshots of real machines: what fails there is true of them.
#[test]
fn recorded_machines_have_no_false_alarm() {
    let around = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let names: Vec<String> =
        recorded().into_iter().filter(|name| name.starts_with("h200")).collect();
    assert!(!names.is_empty(), "no machine was recorded");
    for name in names {
        let snapshot = around.join(&name).join("snapshot.json");
        let run = Gdr::new()
            .args(["doctor", "--profile", "all", "--format", "json", "--from"])
            .args([&snapshot])
            .run();
        let report: Value = serde_json::from_str(&run.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", run.stderr));
        for found in bad(&report) {
            let id = found["id"].as_str().expect("an id");
            // They have no RDMA device, no gdrdrv (gdr's own library does without), the distribution's Open MPI and UCX, which are
            // built without CUDA, and an NCCL without GPU-initiated networking.
            let true_there = ["rdma.device", "gdrdrv.node", "mpi.cuda-aware", "gin.nccl"];
            assert!(true_there.contains(&id), "{name}: {found:#}");
        }
    }
}

/// Healthy machines written by hand.
#[test]
fn healthy_machines_have_no_failure() {
    let there = names();
    for name in ["hgx-h100-8gpu-8nic", "sound", "grace-gh200"] {
        assert!(there.iter().any(|of| of == name), "there is no machine {name}");
        let fails: Vec<Value> = failures(&Machine::load(name), "pcie,limits,param")
            .into_iter()
            .filter(|finding| finding["outcome"] == "fail")
            .collect();
        assert!(fails.is_empty(), "{name}: {fails:#?}");
    }
}
