//! Trials of both memory paths with all results.

use super::*;
use crate::check::testing::{
    Edit, GPU, NIC, assert_says, bdf, bind, findings, fix, machine, only, set_device_id, two_gpus,
};
use crate::model::{
    Facts, Ids, Outcome, PciPath, RootBus, Verbs, VerbsDevice, VerbsOutcome, VerbsTrial, Why,
};

fn refused(code: i32) -> MemoryPathTrial {
    MemoryPathTrial::Refused(VerbsError {
        code: Some(code),
        reason: format!("mlx5_0 cannot register 2097152 bytes (os error {code})"),
    })
}

fn withheld(reason: &str) -> MemoryPathTrial {
    MemoryPathTrial::Withheld { reason: reason.to_owned() }
}

fn of_gpu(trial: RegistrationTrial) -> Fact<RegistrationOutcome> {
    Fact::Known(RegistrationOutcome::Tried(vec![GpuRegistration {
        bdf: Some(bdf(GPU)),
        ordinal: 0,
        trial,
        doorbells: None,
    }]))
}

fn with(name: &str, trial: NicTrial) -> Facts {
    Facts {
        registration: Some(of_gpu(RegistrationTrial::Tried([(name.to_owned(), trial)].into()))),
        ..machine()
    }
}

fn tried(dmabuf: MemoryPathTrial, peermem: MemoryPathTrial) -> Facts {
    with("mlx5_0", opened(dmabuf, peermem))
}

fn opened(dmabuf: MemoryPathTrial, peermem: MemoryPathTrial) -> NicTrial {
    NicTrial::Opened(MemoryPaths { data_direct: None, dmabuf_pcie: None, dmabuf, peermem })
}

fn without_peermem(mut facts: Facts) -> Facts {
    facts.peer_memory.nvidia_peermem = Fact::Known(false);
    facts.peer_memory.clients = Fact::Known(Some(Vec::new()));
    facts
}

#[test]
fn one_memory_path_is_enough() {
    for (dmabuf, peermem, words) in [
        (
            MemoryPathTrial::Registered,
            MemoryPathTrial::Registered,
            "by both memory paths, dma-buf and nvidia-peermem.",
        ),
        (
            MemoryPathTrial::Registered,
            refused(14),
            "by dma-buf. Software that knows only nvidia-peermem",
        ),
        (
            refused(95),
            MemoryPathTrial::Registered,
            "only by nvidia-peermem: by dma-buf, the NIC's provider or driver",
        ),
        (
            refused(93),
            MemoryPathTrial::Registered,
            "only by nvidia-peermem: by dma-buf, the kernel cannot register it",
        ),
        (
            withheld("not supported"),
            MemoryPathTrial::Registered,
            "CUDA exports none of it (not supported).",
        ),
    ] {
        let found = findings("rdma.register", &tried(dmabuf, peermem), &["rdma"]).remove(0);
        assert_eq!((found.outcome, found.fix), (Outcome::Pass, None));
        assert_eq!(found.subject, "GPU0 (0000:03:00.0)");
        assert!(
            found.message.starts_with("mlx5_0 registers its memory")
                && found.message.contains(words),
            "{}",
            found.message
        );
        assert_eq!(found.evidence.len(), 3);
        assert_eq!(
            (found.evidence[0].source.as_str(), found.evidence[0].value.as_str()),
            ("expected path of GPU and NIC", "PCI Express")
        );
    }
}

#[test]
fn each_error_has_its_remedy() {
    for (dmabuf, peermem, message, remedy) in [
        (95, 14, "knows the address (errno 14)", "modprobe nvidia-peermem Or see rdma.core"),
        (93, 14, "the kernel cannot register it (errno 93)", "see rdma.core"),
        (12, 12, "could not be pinned (errno 12)", "limits.memlock"),
        (5, 1, "this process may not lock memory (errno 1)", "see the kernel log"),
        (12, 22, "failed (errno 22)", "gpu.bar1"),
        (524, 14, "does not map it for this NIC (ENOTSUPP, errno 524)", "Or see param.grdma-topo"),
    ] {
        let facts = without_peermem(tried(refused(dmabuf), refused(peermem)));
        assert_eq!(only("rdma.register", &facts).outcome, Outcome::Warn);
        let found = findings("rdma.register", &facts, &["rdma"]).remove(0);
        assert_eq!(found.outcome, Outcome::Fail);
        assert_says(&found, message);
        let (id, command) = fix(&found);
        assert!(command.contains(remedy), "{command}");
        assert_eq!(id == "peermem", peermem == 14);
    }
    let found = only("rdma.register", &tried(withheld("no dma-buf"), refused(14)));
    let (id, command) = fix(&found);
    assert!(
        id == "advice"
            && command.starts_with("nvidia-peermem is loaded")
            && command.contains("gpu.dmabuf")
    );
}

#[test]
fn remedy_depends_on_nic_driver() {
    let mut facts = without_peermem(tried(refused(95), refused(14)));
    bind(&mut facts, NIC, Some("irdma"));
    assert_eq!(
        fix(&only("rdma.register", &facts)),
        (
            "advice",
            "See rdma.core for what registers a dma-buf: irdma registers dma-bufs from Linux 6.3 and rdma-core 45 on.".to_owned()
        )
    );
    bind(&mut facts, NIC, Some("efa"));
    let found = only("rdma.register", &facts);
    assert!(fix(&found).1.starts_with("modprobe efa_nv_peermem Or see rdma.core"));
}

#[test]
fn missing_trials_are_unknown() {
    let denied = VerbsError {
        code: Some(13),
        reason: "cannot open mlx5_0: Permission denied (os error 13)".to_owned(),
    };
    let reason = || "CUDA: out of memory".to_owned();
    let outcome = |registration| Facts { registration: Some(registration), ..machine() };
    let known = |known| outcome(Fact::Known(known));
    for (facts, words) in [
        (with("mlx5_0", NicTrial::Refused(denied)), "Permission denied"),
        (
            with("mlx5_9", opened(MemoryPathTrial::Registered, MemoryPathTrial::Registered)),
            "mlx5_0, its best NIC, was not tried",
        ),
        (
            outcome(of_gpu(RegistrationTrial::NotTried { reason: reason() })),
            "no memory of it to register",
        ),
        (known(RegistrationOutcome::Absent { reason: reason() }), "out of memory"),
        (known(RegistrationOutcome::Failed { reason: reason() }), "out of memory"),
        (known(RegistrationOutcome::Tried(Vec::new())), "CUDA does not show it"),
        (outcome(Fact::Unknown(Why::TimedOut)), "not answer in time"),
    ] {
        let found = only("rdma.register", &facts);
        assert_eq!(found.outcome, Outcome::Unknown, "{}", found.message);
        assert!(found.message.contains(words) && found.needs.is_some(), "{}", found.message);
    }
}

#[test]
fn needs_gpu_and_nic() {
    let sound = || tried(MemoryPathTrial::Registered, MemoryPathTrial::Registered);
    let skipped = |facts: &Facts| {
        let found = only("rdma.register", facts);
        assert_eq!(found.outcome, Outcome::Skip);
        found.message
    };
    assert!(skipped(&machine()).contains("--live"));
    let mut facts = sound();
    facts.rdma = Fact::Known(Vec::new());
    assert_eq!(skipped(&facts), "There is no NIC with RDMA.");
    // A software device is not a NIC.
    let mut facts = sound();
    if let Fact::Known(devices) = &mut facts.rdma {
        devices[0].parent = Fact::Known(Some("eth0".to_owned()));
    }
    assert_eq!(skipped(&facts), "There is no NIC with RDMA.");
    let mut facts = sound();
    bind(&mut facts, GPU, Some("vfio-pci"));
    assert_eq!(skipped(&facts), "This machine uses no GPU itself.");
    // Every GPU is judged, with or without a trial.
    let facts = Facts { registration: sound().registration, ..two_gpus("0000:05:00.0") };
    let found = findings("rdma.register", &facts, &[]);
    let outcomes: Vec<Outcome> = found.iter().map(|found| found.outcome).collect();
    assert_eq!(outcomes, [Outcome::Pass, Outcome::Unknown]);
}

/// The Data Direct function of the NIC, below the switch of the GPU.
const FUNCTION: &str = "0000:05:00.0";

/// The machine with a GB200 instead of its GPU, and this trial of its memory paths.
fn superchip(paths: MemoryPaths) -> Facts {
    let mut facts = with("mlx5_0", NicTrial::Opened(paths));
    set_device_id(&mut facts, GPU, 0x2941);
    facts
}

/// The NIC below another host bridge.
fn behind_cpu(mut facts: Facts) -> Facts {
    facts.device_mut(NIC).place = Fact::Known(PciPath {
        root: RootBus { domain: 0, bus: 0x80 },
        rooted: true,
        bridges: Vec::new(),
    });
    facts
}

/// With the function, and what libmlx5 says of it.
fn with_function(mut facts: Facts, named: Fact<Option<Bdf>>) -> Facts {
    let mut function = facts.device(bdf(NIC)).expect("the NIC").clone();
    function.bdf = bdf(FUNCTION);
    function.place = facts.device(bdf(GPU)).expect("the GPU").place.clone();
    function.ids =
        Fact::Known(Ids { vendor: Ids::MELLANOX, device: Some(0x2100), class: 0x08_8000 });
    facts.add(function);
    let trial = VerbsTrial::Opened(VerbsDevice { data_direct: named, ..VerbsDevice::default() });
    facts.verbs = Fact::Known(VerbsOutcome::Read(Box::new(Verbs {
        trials: Some([("mlx5_0".to_owned(), trial)].into()),
        ..Verbs::default()
    })));
    facts
}

fn all(trial: &MemoryPathTrial) -> MemoryPaths {
    MemoryPaths {
        data_direct: Some(trial.clone()),
        dmabuf_pcie: Some(trial.clone()),
        dmabuf: trial.clone(),
        peermem: trial.clone(),
    }
}

#[test]
fn expected_path_of_each_pair() {
    let sound = || superchip(all(&MemoryPathTrial::Registered));
    let named = || Fact::Known(Some(bdf(FUNCTION)));
    let mut elsewhere = with_function(behind_cpu(sound()), named());
    elsewhere.device_mut(FUNCTION).place = elsewhere.device(bdf(NIC)).unwrap().place.clone();
    let mut unplaced = sound();
    unplaced.device_mut(NIC).place = Fact::Unknown(Why::Denied);
    let mut nameless = sound();
    if let Fact::Known(ids) = &mut nameless.device_mut(GPU).ids {
        ids.device = None;
    }
    for (machine, facts, expected) in [
        ("one switch", sound(), "PCI Express"),
        ("two host bridges", behind_cpu(sound()), "NVLink-C2C"),
        ("Data Direct", with_function(behind_cpu(sound()), named()), "Data Direct"),
        ("Data Direct elsewhere", elsewhere, "NVLink-C2C"),
        (
            "another NIC's function",
            with_function(behind_cpu(sound()), Fact::Known(None)),
            "NVLink-C2C",
        ),
        (
            "unknown whose function",
            with_function(sound(), Fact::Unknown(Why::NotCovered)),
            "unknown",
        ),
        ("unknown place", unplaced, "unknown"),
        ("unknown GPU", nameless, "unknown"),
        (
            "H200",
            behind_cpu(tried(MemoryPathTrial::Registered, MemoryPathTrial::Registered)),
            "PCI Express",
        ),
    ] {
        let found = findings("rdma.register", &facts, &["rdma"]).remove(0);
        assert_eq!(found.evidence[0].value, expected, "{machine}");
    }
}

#[test]
fn superchip_with_and_without_expected_path() {
    let registered = || MemoryPathTrial::Registered;
    for (paths, is_behind_cpu, outcome, words) in [
        (
            all(&registered()),
            false,
            Outcome::Pass,
            "registers its memory by data-direct, dma-buf-pcie, dma-buf, peermem.",
        ),
        // As on a GH200, where the driver refuses the PCIe mapping: the machine is sound.
        (
            MemoryPaths {
                data_direct: None,
                dmabuf_pcie: Some(refused(524)),
                dmabuf: registered(),
                peermem: refused(14),
            },
            true,
            Outcome::Pass,
            "registers its memory by dma-buf.",
        ),
        (
            MemoryPaths {
                data_direct: None,
                dmabuf_pcie: Some(refused(524)),
                dmabuf: registered(),
                peermem: refused(14),
            },
            false,
            Outcome::Info,
            "by dma-buf, but not by dma-buf-pcie, the memory path expected of this pair (PCI Express): the GPU's driver does \
             not map it for this NIC (ENOTSUPP, errno 524)",
        ),
        (
            MemoryPaths {
                data_direct: None,
                dmabuf_pcie: Some(registered()),
                dmabuf: refused(524),
                peermem: refused(14),
            },
            false,
            Outcome::Pass,
            "registers its memory by dma-buf-pcie.",
        ),
        (
            all(&refused(524)),
            false,
            Outcome::Fail,
            "does not register its memory: by dma-buf, the GPU's driver does not map it",
        ),
    ] {
        let mut facts = superchip(paths);
        if is_behind_cpu {
            facts = behind_cpu(facts);
        }
        let found = findings("rdma.register", &facts, &["rdma"]).remove(0);
        assert_eq!(found.outcome, outcome, "{}", found.message);
        assert_says(&found, words);
        if outcome == Outcome::Info {
            assert!(fix(&found).1.contains("one IOMMU group"));
        }
    }
}
