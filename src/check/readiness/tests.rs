//! How profiles stand on the small machine, changed one thing at a time.

use super::*;
use crate::check::testing::{Edit, GPU_PORT, bdf, gpu, machine, set_acs, two_gpus};
use crate::model::{Fact, Facts, Place, RootBus, VerbsOutcome, Why};
use crate::profile::SHIPPED;
use crate::topo::topology;

fn of(facts: &Facts, profile: &str) -> Readiness {
    let (_, text) = SHIPPED
        .iter()
        .find(|(name, _)| *name == profile)
        .expect("a profile");
    let profile = Profile::parse(profile, text, |_| true).expect("a profile");
    let (topology, expectations) = (
        topology(facts),
        Expectations::of(std::slice::from_ref(&profile)),
    );
    let ctx = Ctx::new(facts, &topology, &expectations);
    readiness(&ctx, &profile, &Judged::new(&ctx, |_| true))
}

#[test]
fn a_sound_machine_is_ready_on_its_pair() {
    let found = of(&machine(), "rdma");
    assert_eq!(
        (found.state, found.ready.as_slice()),
        (ReadyState::Ready, &["GPU0–NIC0".to_owned()][..])
    );
    assert_eq!(found.text, "GPUDirect RDMA: ready on GPU0–NIC0.");
    assert_eq!(of(&machine(), "gdrcopy").text, "gdrcopy: ready on GPU0.");
    // One GPU has no peer.
    let alone = of(&machine(), "p2p");
    assert_eq!(
        (alone.state, alone.text.as_str()),
        (
            ReadyState::NotReady,
            "peer to peer: not ready: there are no two GPUs."
        )
    );
}

#[test]
fn a_port_on_the_way_blocks_the_pair() {
    let mut facts = machine();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    let found = of(&facts, "rdma");
    assert_eq!(found.state, ReadyState::NotReady);
    assert_eq!(
        found
            .blocked
            .first()
            .map(|obstacle| (obstacle.place.as_str(), obstacle.check.as_str())),
        Some(("GPU0–NIC0", "pcie.acs"))
    );
    assert!(
        found.text.starts_with("GPUDirect RDMA: not ready: "),
        "{}",
        found.text
    );
}

#[test]
fn what_concerns_the_machine_blocks_all_of_it() {
    let mut facts = machine();
    facts.rdma = Fact::Known(Vec::new());
    let found = of(&facts, "rdma");
    assert_eq!(found.state, ReadyState::NotReady);
    assert!(found.text.contains("rdma.device"), "{}", found.text);
    assert_eq!(of(&facts, "gdrcopy").state, ReadyState::Ready);
}

#[test]
fn what_is_required_and_unknown_is_no_readiness() {
    let mut facts = machine();
    facts.process.memlock_soft = Fact::Unknown(Why::Denied);
    let found = of(&facts, "rdma");
    assert_eq!(found.state, ReadyState::Undetermined);
    assert_eq!(
        found.text,
        "GPUDirect RDMA: cannot determine: limits.memlock (needs root)."
    );
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
fn what_is_not_known_of_one_pair_is_not_said_to_be_ready() {
    let ready = of(&two_pairs(), "rdma");
    assert_eq!(ready.text, "GPUDirect RDMA: ready on GPU0–NIC0, GPU1–NIC1.");
    let mut facts = two_pairs();
    set_acs(&mut facts, GPU_PORT, 0x1d);
    facts.peer_memory.nvidia_peermem = Fact::Known(false);
    facts.attributes_mut("0000:05:00.1").driver = Fact::Unknown(Why::Denied);
    let found = of(&facts, "rdma");
    assert_eq!(
        (found.state, found.ready.len()),
        (ReadyState::Undetermined, 0),
        "{found:#?}"
    );
    assert!(
        found
            .text
            .starts_with("GPUDirect RDMA: cannot determine on GPU1–NIC1: peermem.loaded")
            && found.text.contains("; not on GPU0–NIC0: pcie.acs"),
        "{}",
        found.text
    );
    set_acs(&mut facts, GPU_PORT, 0x11);
    let found = of(&facts, "rdma");
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
fn a_port_that_redirects_peers_does_not_block_what_goes_up_anyhow() {
    let mut facts = machine();
    // The NIC moves to a root port of its own, a second GPU takes its place below the switch.
    facts.add(crate::check::testing::root_port("0000:00:02.0"));
    let place = |bridges: &[&str]| {
        Fact::Known(Place {
            root: RootBus { domain: 0, bus: 0 },
            rooted: true,
            bridges: bridges.iter().map(|bridge| bdf(bridge)).collect(),
        })
    };
    facts.device_mut(crate::check::testing::NIC).place = place(&["0000:00:02.0"]);
    let mut second = gpu("0000:05:00.0");
    second.place = place(&[
        crate::check::testing::ROOT_PORT,
        "0000:01:00.0",
        crate::check::testing::NIC_PORT,
    ]);
    facts.add(second);
    set_acs(&mut facts, GPU_PORT, 0x1d);
    let found = of(&facts, "rdma");
    assert!(found.blocked.is_empty(), "{found:#?}");
}
