//! Readiness of the small machine, with one thing changed.

use super::*;
use crate::check::testing::{Edit, GPU_PORT, bdf, gpu, machine, set_acs, two_gpus};
use crate::model::{Fact, Facts, PciPath, RootBus, VerbsOutcome, Why};
use crate::profile::Expectations;
use crate::profile::SHIPPED;
use crate::topo::topology;

fn readiness_of(facts: &Facts, profile: &str) -> Readiness {
    let (_, text) = SHIPPED.iter().find(|(name, _)| *name == profile).expect("a profile");
    let profile = Profile::parse(profile, text, |_| true).expect("a profile");
    let (topology, expectations) =
        (topology(facts), Expectations::of(std::slice::from_ref(&profile)));
    let ctx = Ctx::new(facts, &topology, &expectations);
    readiness(&ctx, &profile, &Judged::new(&ctx, |_| true))
}

#[test]
fn sound_machine_is_ready() {
    let found = readiness_of(&machine(), "rdma");
    assert_eq!(
        (found.state, found.ready.as_slice()),
        (ReadyState::Ready, &["GPU0–NIC0".to_owned()][..])
    );
    assert_eq!(found.text, "GPUDirect RDMA: ready on GPU0–NIC0.");
    assert_eq!(readiness_of(&machine(), "gdrcopy").text, "gdrcopy: ready on GPU0.");
    // One GPU has no peer.
    let alone = readiness_of(&machine(), "p2p");
    assert_eq!(
        (alone.state, alone.text.as_str()),
        (ReadyState::NotReady, "peer to peer: not ready: there are no two GPUs.")
    );
}

#[test]
fn port_on_path_blocks_pair() {
    let mut facts = machine();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    let found = readiness_of(&facts, "rdma");
    assert_eq!(found.state, ReadyState::NotReady);
    assert_eq!(
        found.blocked.first().map(|obstacle| (obstacle.place.as_str(), obstacle.check.as_str())),
        Some(("GPU0–NIC0", "pcie.acs"))
    );
    assert!(found.text.starts_with("GPUDirect RDMA: not ready: "), "{}", found.text);
}

#[test]
fn machine_finding_blocks_all_units() {
    let mut facts = machine();
    facts.rdma = Fact::Known(Vec::new());
    let found = readiness_of(&facts, "rdma");
    assert_eq!(found.state, ReadyState::NotReady);
    assert_eq!(
        found.text, "GPUDirect RDMA: not ready: rdma.modules.",
        "which explains rdma.device"
    );
    assert_eq!(readiness_of(&facts, "gdrcopy").state, ReadyState::Ready);
}

#[test]
fn unknown_required_fact() {
    let mut facts = machine();
    facts.process.memlock_soft = Fact::Unknown(Why::Denied);
    let found = readiness_of(&facts, "rdma");
    assert_eq!(found.state, ReadyState::Undetermined);
    assert_eq!(found.text, "GPUDirect RDMA: cannot determine: limits.memlock (needs root).");
}

/// GPU1 and its NIC1 below one root port, beside the pair of the small machine.
fn two_pairs() -> Facts {
    let mut facts = two_gpus("0000:05:00.0");
    let mut nic = facts.device_mut(crate::check::testing::NIC).clone();
    nic.bdf = bdf("0000:05:00.1");
    nic.place = facts.device_mut("0000:05:00.0").place.clone();
    facts.add(nic);
    if let Fact::Known(devices) = &mut facts.rdma {
        devices.push(crate::check::testing::rdma("mlx5_1", "0000:05:00.1"));
    }
    if let Fact::Known(VerbsOutcome::Read(verbs)) = &mut facts.verbs {
        verbs.devices.push("mlx5_1".to_owned());
    }
    facts
}

#[test]
fn one_of_two_pairs_is_undetermined() {
    let ready = readiness_of(&two_pairs(), "rdma");
    assert_eq!(ready.text, "GPUDirect RDMA: ready on GPU0–NIC0, GPU1–NIC1.");
    let mut facts = two_pairs();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    facts.peer_memory.nvidia_peermem = Fact::Known(false);
    facts.attributes_mut("0000:05:00.1").driver = Fact::Unknown(Why::Denied);
    let found = readiness_of(&facts, "rdma");
    assert_eq!((found.state, found.ready.len()), (ReadyState::Undetermined, 0), "{found:#?}");
    assert!(
        found.text.starts_with("GPUDirect RDMA: cannot determine on GPU1–NIC1: peermem.loaded")
            && found.text.contains("; not on GPU0–NIC0: pcie.acs"),
        "{}",
        found.text
    );
    set_acs(&mut facts, GPU_PORT, 0x11);
    let found = readiness_of(&facts, "rdma");
    assert_eq!(
        (found.state, found.ready.as_slice()),
        (ReadyState::Partly, &["GPU0–NIC0".to_owned()][..])
    );
    assert!(
        found
            .text
            .starts_with("GPUDirect RDMA: ready on GPU0–NIC0; cannot determine on GPU1–NIC1: "),
        "{}",
        found.text
    );
}

#[test]
fn redirecting_port_spares_path_through_root() {
    let mut facts = machine();
    // The NIC moves to another root port; a second GPU takes its place below the switch.
    facts.add(crate::check::testing::root_port("0000:00:02.0"));
    let place = |bridges: &[&str]| {
        Fact::Known(PciPath {
            root: RootBus { domain: 0, bus: 0 },
            rooted: true,
            bridges: bridges.iter().map(|bridge| bdf(bridge)).collect(),
        })
    };
    facts.device_mut(crate::check::testing::NIC).place = place(&["0000:00:02.0"]);
    let mut second = gpu("0000:05:00.0");
    second.place =
        place(&[crate::check::testing::ROOT_PORT, "0000:01:00.0", crate::check::testing::NIC_PORT]);
    facts.add(second);
    facts.nvml = Fact::Unknown(Why::NotCovered);
    set_acs(&mut facts, GPU_PORT, 0x1d);
    let found = readiness_of(&facts, "rdma");
    assert!(found.blocked.is_empty(), "{found:#?}");
}
