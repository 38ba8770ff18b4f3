//! Trials of doorbell registrations with all results.

use super::*;
use crate::check::testing::{
    Edit, GPU, NIC, assert_says, bdf, bind, findings, fix, machine, only, options, outcomes,
    two_gpus,
};
use crate::model::{
    Fact, Facts, Finding, Outcome, RegistrationOutcome, RegistrationTrial, VerbsError, Why,
};

const SECOND: &str = "0000:05:00.0";

fn refused(code: u32, name: &str) -> DoorbellTrial {
    DoorbellTrial::Refused {
        code: Some(code),
        reason: format!("4096 bytes were not registered: cuMemHostRegister_v2: {name} ({code})"),
    }
}

fn not_permitted() -> DoorbellTrial {
    refused(800, "CUDA_ERROR_NOT_PERMITTED")
}

fn of_gpu(gpu: &str, doorbells: Option<DoorbellTrials>) -> GpuRegistration {
    GpuRegistration {
        bdf: Some(bdf(gpu)),
        ordinal: 0,
        trial: RegistrationTrial::Tried([].into()),
        doorbells,
    }
}

fn rdma_nics(trial: DoorbellTrial) -> DoorbellTrials {
    DoorbellTrials::Tried([("mlx5_0".to_owned(), trial)].into())
}

fn tried(gpus: Vec<GpuRegistration>) -> Option<Fact<RegistrationOutcome>> {
    Some(Fact::Known(RegistrationOutcome::Tried(gpus)))
}

fn with(trial: DoorbellTrial) -> Facts {
    Facts { registration: tried(vec![of_gpu(GPU, Some(rdma_nics(trial)))]), ..machine() }
}

fn asynchronous(facts: &Facts) -> Finding {
    let mut found = findings("rdma.uar-map", facts, &["async"]);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

fn shut(facts: &mut Facts) {
    facts.param("RegistryDwords", "");
    facts.param("RegistryDwordsPerDevice", "");
}

#[test]
fn each_error_has_its_remedy() {
    for (code, name, cause, remedy) in [
        (
            304,
            "CUDA_ERROR_OPERATING_SYSTEM",
            "could not follow this process's mapping",
            "follow_pfnmap_start",
        ),
        (
            801,
            "CUDA_ERROR_NOT_SUPPORTED",
            "the kernel is too old for it",
            "Use a newer kernel and driver",
        ),
        (1, "CUDA_ERROR_INVALID_VALUE", "does not recognize it as device registers", "NVRM"),
        (999, "CUDA_ERROR_UNKNOWN", "CUDA_ERROR_UNKNOWN (999)", "NVRM"),
    ] {
        let facts = with(refused(code, name));
        let found = asynchronous(&facts);
        assert_eq!(found.outcome, Outcome::Fail, "{}", found.message);
        assert_eq!(only("rdma.uar-map", &facts).outcome, Outcome::Info, "without profile async");
        assert!(found.message.starts_with("GPU0 cannot ring its doorbell: "), "{}", found.message);
        assert_says(&found, cause);
        assert_says(&found, "gdr probe async --hca proxy");
        assert!(found.evidence[0].value.contains(name), "{found:#?}");
        let (id, command) = fix(&found);
        assert!(id == "advice" && command.contains(remedy), "{command}");
    }
}

#[test]
fn denied_peer_mapping_has_a_fix() {
    let mut facts = with(not_permitted());
    shut(&mut facts);
    facts.modprobe.directives = Fact::Known(Vec::new());
    let found = asynchronous(&facts);
    assert_says(&found, "peer mappings to this process (CUDA error 800, not permitted)");
    let (id, command) = fix(&found);
    assert_eq!(id, "peer-mapping");
    assert!(command.contains("NVreg_RegistryDwords=\"PeerMappingOverride=1;\""), "{command}");
    assert!(command.starts_with("Write 'options nvidia"), "{command}");

    // Set in modprobe.d after the driver was loaded.
    let mut written = facts.clone();
    let line = "NVreg_RegistryDwords=PeerMappingOverride=1;";
    written.modprobe.directives =
        Fact::Known(vec![options("/etc/modprobe.d/gdr.conf", "nvidia", line)]);
    let found = asynchronous(&written);
    let (id, command) = fix(&found);
    assert_eq!(id, "advice");
    assert!(
        command.starts_with("Reload the nvidia module")
            && command.contains("/etc/modprobe.d/gdr.conf"),
        "{command}"
    );
    // A key for one GPU overrides the common key.
    let own = "NVreg_RegistryDwords=PeerMappingOverride=1; \
               NVreg_RegistryDwordsPerDevice=pci=0000:03:00.0;PeerMappingOverride=0";
    written.modprobe.directives =
        Fact::Known(vec![options("/etc/modprobe.d/gdr.conf", "nvidia", own)]);
    assert_eq!(fix(&asynchronous(&written)).0, "peer-mapping");

    // A container's modprobe.d does not count.
    facts.platform.container_marks = Fact::Known(vec!["namespace pid".to_owned()]);
    let found = asynchronous(&facts);
    let (id, command) = fix(&found);
    assert_eq!(id, "peer-mapping");
    assert!(
        command.contains("not in this container") && command.contains("CAP_SYS_ADMIN"),
        "{command}"
    );

    // Allowed by the loaded driver, but denied.
    let mut open = with(not_permitted());
    open.param("RegistryDwords", "PeerMappingOverride=1");
    let found = asynchronous(&open);
    assert_says(&found, "although PeerMappingOverride is on");
    assert!(fix(&found).0 == "advice" && fix(&found).1.contains("NVRM"));
}

#[test]
fn gpus_with_different_results() {
    let gpus = |second: DoorbellTrial| Facts {
        registration: tried(vec![
            of_gpu(GPU, Some(rdma_nics(DoorbellTrial::Registered))),
            of_gpu(SECOND, Some(rdma_nics(second))),
        ]),
        ..two_gpus(SECOND)
    };
    let found = findings("rdma.uar-map", &gpus(DoorbellTrial::Registered), &["async"]);
    assert_eq!(found.len(), 1);
    assert!(found[0].message.starts_with("GPU0, GPU1 may ring its doorbell"));
    let mut facts = gpus(not_permitted());
    facts.param("RegistryDwords", "");
    facts.param("RegistryDwordsPerDevice", "pci=0000:03:00.0;PeerMappingOverride=1");
    let found = findings("rdma.uar-map", &facts, &["async"]);
    assert_eq!(outcomes(&found), [("GPU0–mlx5_0", Outcome::Pass), ("GPU1–mlx5_0", Outcome::Fail)]);
    assert!(!found[1].message.contains("although"), "the key is for the other GPU");
}

#[test]
fn missing_trials_are_unknown() {
    let error = |code: i32, words: &str| VerbsError { code: Some(code), reason: words.to_owned() };
    let reason = || "the reason".to_owned();
    let outcome = |registration| Facts { registration: Some(registration), ..machine() };
    let doorbells =
        |doorbells| Facts { registration: tried(vec![of_gpu(GPU, doorbells)]), ..machine() };
    for (facts, message, needs) in [
        (
            with(DoorbellTrial::NoLibrary { reason: "libmlx5.so.1 cannot be loaded".to_owned() }),
            "libmlx5.so.1 cannot be loaded",
            "ibverbs-providers",
        ),
        (
            with(DoorbellTrial::Closed(error(13, "cannot open mlx5_0"))),
            "cannot open mlx5_0",
            "rdma.device",
        ),
        (
            with(DoorbellTrial::Withheld(error(12, "mlx5_0: ibv_create_qp"))),
            "mlx5_0: ibv_create_qp",
            "limits.memlock",
        ),
        (
            with(DoorbellTrial::Withheld(error(95, "mlx5_0: ibv_alloc_td"))),
            "mlx5_0: ibv_alloc_td",
            "thread domain",
        ),
        (
            doorbells(Some(DoorbellTrials::NotTried { reason: reason() })),
            "GPU0 cannot be used by this process",
            "gpu.driver",
        ),
        (doorbells(Some(DoorbellTrials::Tried([].into()))), "it was not tried", "rdma.provider"),
        (doorbells(None), "did not include this", "this version"),
        (
            outcome(Fact::Known(RegistrationOutcome::Tried(Vec::new()))),
            "CUDA does not show GPU0",
            "CUDA_VISIBLE_DEVICES",
        ),
        (
            outcome(Fact::Known(RegistrationOutcome::Absent { reason: reason() })),
            "the reason",
            "gpu.driver",
        ),
        (
            outcome(Fact::Known(RegistrationOutcome::Failed { reason: reason() })),
            "the reason",
            "rdma.provider",
        ),
        (outcome(Fact::Unknown(Why::TimedOut)), "not answer in time", "a source that answers"),
    ] {
        let found = asynchronous(&facts);
        assert_eq!(found.outcome, Outcome::Unknown, "{}", found.message);
        assert_says(&found, message);
        assert!(found.needs.as_deref().is_some_and(|text| text.contains(needs)), "{found:#?}");
        assert!(!found.evidence.is_empty());
    }
}

#[test]
fn needs_gpu_and_mlx5_nic() {
    let skipped = |facts: &Facts| {
        let found = asynchronous(facts);
        assert_eq!(found.outcome, Outcome::Skip, "{}", found.message);
        found.message
    };
    assert!(skipped(&machine()).contains("--live"));
    let mut facts = with(DoorbellTrial::Registered);
    bind(&mut facts, GPU, Some("vfio-pci"));
    assert_eq!(skipped(&facts), "This machine uses no GPU itself.");
    let mut facts = with(not_permitted());
    bind(&mut facts, NIC, Some("irdma"));
    assert_eq!(skipped(&facts), "It is not an mlx5 NIC: irdma drives it.");
    facts.rdma = Fact::Known(Vec::new());
    assert_eq!(skipped(&facts), "There is no NIC with RDMA.");
}
