//! gpu.p2p-grant: the driver allows peer access between every two GPUs.

use std::collections::BTreeMap;

use super::reading::{cuda, nvml};
use crate::check::{Check, Ctx, Hint, Judgement, Source, passthrough, unknown_if, words};
use crate::model::{
    ActionClass, Area, Bdf, ComputeCapability, CudaGpu, CudaOutcome, CudaPair, Fact, FasterPath,
    NvmlGpu, NvmlPair, P2pCapability, P2pStatus, Severity, Why,
};

const SOURCE: &str = "nvmlDeviceGetP2PStatus";
/// The first CUDA that checks IOMMU and ACS itself.
const CHECKS_TOPOLOGY: i32 = 13_050;
/// Fermi, the first generation with unified addressing.
const FERMI: ComputeCapability = ComputeCapability { major: 2, minor: 0 };

/// Result for a pair; pairs with equal results share a judgement.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PeerAccess {
    Allowed,
    Denied(PeerDenial),
    Unknown,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PeerDenial {
    because: String,
    advice: String,
    status: String,
    access: String,
}

pub const CHECK: Check = Check {
    id: "gpu.p2p-grant",
    rule: "The driver allows peer access between every two GPUs.",
    sources: "NVML peer-to-peer status, cuDeviceCanAccessPeer",
    severity: Severity::Warn,
    why: "Without it cudaDeviceEnablePeerAccess fails, and libraries copy through host memory. NVML \
        reports why: CNS chipset, GNS GPU, TNS topology, DR registry, NS not supported.",
    remedy: "Put the GPUs below one switch or socket, or connect them by NVLink; in a guest, configure on the host which GPUs are \
        peers.",
    action: ActionClass::Examine
        .running("https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html"),
    references: &[
        "https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html",
        "https://docs.nvidia.com/cuda/cuda-features-archive/",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Nvml, Source::NvmlPeers, Source::Cuda],
    by_profile: true,
    hint: Some(Hint {
        cause: "The driver does not grant peer to peer access between these GPUs.",
        words: "p2p=6 cuda-ipc=5 geforce=2 unsupported=2 many-gpus=1 gpu-word=1 failure=1 not-permitted=1 missing=1 \
            slow=1 topology=1 stall=1 off-helps=1 rdma=-1 mpi=-1",
    }),
    closes: Some(FasterPath::PeerAccess),
    allows_path: true,
    judge: peer_access,
    ..Check::DEFAULT
};

/// One judgement for all pairs with peer access, and one for each reason for denial.
fn peer_access(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let gpus: Vec<Bdf> = passthrough::own_gpus(ctx.facts).map(|gpu| gpu.bdf).collect();
    if gpus.len() < 2 && ctx.facts.partial {
        return vec![Judgement::unlisted()];
    }
    if gpus.len() < 2 {
        return vec![Judgement::skip("machine", "There are fewer than two GPUs.")];
    }
    if let (Err(gap), Err(_)) = (nvml(ctx), cuda(ctx)) {
        return vec![gap.unknown("machine")];
    }
    let reports = PeerReports::new(ctx);
    let mut groups: BTreeMap<PeerAccess, Vec<(Bdf, Bdf)>> = BTreeMap::new();
    for (at, a) in gpus.iter().enumerate() {
        for b in gpus.iter().skip(at + 1) {
            groups.entry(pair_access(ctx, &reports, *a, *b)).or_default().push((*a, *b));
        }
    }
    let all = groups.len() == 1;
    groups.into_iter().map(|(access, pairs)| judge(ctx, &reports, access, &pairs, all)).collect()
}

fn judge(
    ctx: &Ctx<'_>,
    reports: &PeerReports<'_>,
    access: PeerAccess,
    pairs: &[(Bdf, Bdf)],
    all: bool,
) -> Judgement {
    let subject = if all && pairs.len() > 1 {
        format!("all {} pairs of GPUs", pairs.len())
    } else {
        words::list(pairs.iter().map(|(a, b)| format!("{}–{}", name(ctx, *a), name(ctx, *b))))
    };
    let wanted = ctx.expectations.names("p2p");
    match access {
        PeerAccess::Allowed => {
            let judgement =
                Judgement::pass(subject, "The driver allows peer-to-peer access, both ways.");
            let cuda_reports =
                pairs.iter().all(|(a, b)| reports.access(*a, *b).0.known().is_some());
            if cuda_reports {
                judgement.evidence(format!("{SOURCE}, cuDeviceCanAccessPeer"), "OK, 1 both ways")
            } else {
                judgement.evidence(SOURCE, "OK for reads and writes")
            }
        }
        PeerAccess::Unknown => match (nvml(ctx), cuda(ctx)) {
            // CUDA may deny what NVML allows.
            (Ok(_), Err(gap)) => gap.unknown(subject),
            _ => Judgement::unknown(subject, Why::NotCovered, Area::Nvml, SOURCE)
                .needs("NVML and CUDA that answer for these GPUs: see gpu.driver"),
        },
        PeerAccess::Denied(denial) => {
            let message = format!("Peer-to-peer access is denied: {}.", denial.because);
            (if wanted {
                Judgement::broken(subject, message)
            } else {
                Judgement::info(subject, message)
            })
            .evidence(SOURCE, denial.status)
            .evidence("cuDeviceCanAccessPeer", denial.access)
            .advice(denial.advice)
        }
    }
}

/// CUDA decides, because CUDA makes the mapping. NVML explains.
fn pair_access(ctx: &Ctx<'_>, reports: &PeerReports<'_>, a: Bdf, b: Bdf) -> PeerAccess {
    let status = reports.status(a, b);
    let access = reports.access(a, b);
    let denied = |access| PeerAccess::Denied(denial(ctx, reports, (a, b), access, status));
    match (&access, status) {
        ((Fact::Known(true), Fact::Known(true)), _) => PeerAccess::Allowed,
        ((Fact::Known(false), _) | (_, Fact::Known(false)), _) => denied(&access),
        // CUDA did not report both directions.
        (_, Some((P2pStatus::Ok, P2pStatus::Ok))) => {
            if reports.is_without_cuda {
                PeerAccess::Allowed
            } else {
                PeerAccess::Unknown
            }
        }
        (_, None | Some((P2pStatus::Unknown, _) | (_, P2pStatus::Unknown))) => PeerAccess::Unknown,
        (_, Some(_)) => denied(&access),
    }
}

fn denial(
    ctx: &Ctx<'_>,
    reports: &PeerReports<'_>,
    (a, b): (Bdf, Bdf),
    access: &(Fact<bool>, Fact<bool>),
    status: Option<(P2pStatus, P2pStatus)>,
) -> PeerDenial {
    let worst = status.map(|(read, write)| if read == P2pStatus::Ok { write } else { read });
    let (because, advice) = why(ctx, reports, (a, b), access, worst);
    let shown = |fact: &Fact<bool>| match fact {
        Fact::Known(true) => "1",
        Fact::Known(false) => "0",
        Fact::Unknown(_) => "unknown",
    };
    PeerDenial {
        because,
        advice,
        status: match status {
            Some((read, write)) => {
                format!("read {}, write {}", read.abbreviation(), write.abbreviation())
            }
            None => "unknown".to_owned(),
        },
        access: format!("{} one way, {} the other", shown(&access.0), shown(&access.1)),
    }
}

/// The reason for a denial and the advice.
fn why(
    ctx: &Ctx<'_>,
    reports: &PeerReports<'_>,
    pair: (Bdf, Bdf),
    access: &(Fact<bool>, Fact<bool>),
    status: Option<P2pStatus>,
) -> (String, String) {
    let because = |because: &str, advice: &str| (because.to_owned(), advice.to_owned());
    let guest = ctx.facts.platform.is_guest();
    if reports.is_mig(pair) {
        return because(
            "MIG is on",
            "Switch MIG off on both (nvidia-smi -mig 0), once no instance is in use.",
        );
    }
    if reports.is_before_fermi(pair) {
        return because(
            "a GPU of compute capability below 2.0 has none",
            "Use GPUs of the Fermi generation or later.",
        );
    }
    if matches!(
        access,
        (Fact::Known(true), Fact::Known(false)) | (Fact::Known(false), Fact::Known(true))
    ) {
        return because(
            "CUDA allows it one way only",
            "Read the NVRM lines of the kernel log, and compare nvidia-smi topo -p2p rw: the driver should report the same for both ways.",
        );
    }
    match status {
        Some(P2pStatus::Chipset) => because(
            "the chipset does not carry it (CNS)",
            "Put both GPUs below one PCI Express switch, or join them by NVLink: between root ports many processors carry \
             no peer reads.",
        ),
        Some(P2pStatus::Gpu) => because(
            "one of the GPUs does not support it (GNS)",
            "Use data-centre or professional GPUs of one generation: recent GeForce GPUs have no peer-to-peer over PCI Express.",
        ),
        Some(P2pStatus::Topology) => because(
            "the path between their root ports does not carry it (TNS), as between two sockets' I/O hubs",
            "Put both GPUs below one socket, or join them by NVLink.",
        ),
        Some(P2pStatus::Disabled) => because(
            "a registry key of the driver disables it (DR)",
            "Look for a key about P2P in NVreg_RegistryDwords, in /proc/driver/nvidia/params and /etc/modprobe.d.",
        ),
        Some(P2pStatus::NotSupported) if guest => because(
            "it is not supported here (NS): a guest has it only if its hypervisor declares which GPUs are peers",
            "On the host, give the GPUs one clique (x-nv-gpudirect-clique of QEMU's vfio-pci), or pass NVLink through.",
        ),
        Some(P2pStatus::NotSupported) => because(
            "it is not supported between them (NS)",
            "GPUs of two generations have none; else compare nvidia-smi topo -p2p rw and read the NVRM lines of the kernel log.",
        ),
        Some(P2pStatus::Ok) if checks_topology(ctx) => because(
            "NVML allows it, but CUDA does not: since 13.5 CUDA denies it if the IOMMU or ACS may redirect it",
            "See pcie.iommu and pcie.acs; CUDA_DISABLE_IOMMU_ACS_P2P_CAPABILITY_CHECK=1 overrides it, and then data may be \
             wrong.",
        ),
        Some(P2pStatus::Ok) => because(
            "NVML allows it, but CUDA does not",
            "Read the NVRM lines of the kernel log; exclusive compute mode and confidential computing prevent it.",
        ),
        Some(P2pStatus::Unknown) | None => because(
            "CUDA denies it, and NVML gives no reason",
            "Compare nvidia-smi topo -p2p rw, and read the NVRM lines of the kernel log.",
        ),
    }
}

fn checks_topology(ctx: &Ctx<'_>) -> bool {
    cuda(ctx).is_ok_and(|cuda| {
        cuda.driver_version.known().is_some_and(|version| *version >= CHECKS_TOPOLOGY)
    })
}

/// What NVML and CUDA report about pairs.
#[derive(Default)]
struct PeerReports<'a> {
    nvml: BTreeMap<Bdf, &'a NvmlGpu>,
    statuses: BTreeMap<(u32, u32), &'a NvmlPair>,
    cuda: BTreeMap<Bdf, &'a CudaGpu>,
    accesses: BTreeMap<(u32, u32), &'a CudaPair>,
    /// There is no CUDA, or it was asked for one GPU of each model only.
    is_without_cuda: bool,
}

impl<'a> PeerReports<'a> {
    fn new(ctx: &Ctx<'a>) -> Self {
        let mut reports = Self {
            is_without_cuda: match &ctx.facts.cuda {
                Fact::Known(CudaOutcome::Read(cuda)) => cuda.one_of_each,
                Fact::Known(_) => true,
                Fact::Unknown(_) => false,
            },
            ..Self::default()
        };
        if let Ok(nvml) = nvml(ctx) {
            for gpu in &nvml.gpus {
                reports.nvml.entry(gpu.bdf).or_insert(gpu);
            }
            for pair in &nvml.pairs {
                // One status covers both directions.
                let ends = (pair.from.min(pair.to), pair.from.max(pair.to));
                reports.statuses.entry(ends).or_insert(pair);
            }
        }
        if let Ok(cuda) = cuda(ctx) {
            for gpu in &cuda.gpus {
                gpu.bdf.map(|bdf| reports.cuda.entry(bdf).or_insert(gpu));
            }
            for pair in &cuda.pairs {
                reports.accesses.entry((pair.from, pair.to)).or_insert(pair);
            }
        }
        reports
    }

    /// NVML's status of reads and writes.
    fn status(&self, a: Bdf, b: Bdf) -> Option<(P2pStatus, P2pStatus)> {
        let (a, b) = (self.nvml.get(&a)?.index, self.nvml.get(&b)?.index);
        let pair = self.statuses.get(&(a.min(b), a.max(b)))?;
        let status = |capability| pair.p2p.get(&capability)?.known().copied();
        Some((status(P2pCapability::Read)?, status(P2pCapability::Write)?))
    }

    /// CUDA's answer for both directions.
    fn access(&self, a: Bdf, b: Bdf) -> (Fact<bool>, Fact<bool>) {
        let (Some(a), Some(b)) = (self.cuda.get(&a), self.cuda.get(&b)) else {
            return (Fact::default(), Fact::default());
        };
        let direction = |from, to| {
            let pair = self.accesses.get(&(from, to));
            pair.map_or(Fact::default(), |pair| pair.can_access.clone())
        };
        (direction(a.ordinal, b.ordinal), direction(b.ordinal, a.ordinal))
    }

    fn is_mig(&self, (a, b): (Bdf, Bdf)) -> bool {
        let gpus = [self.nvml.get(&a), self.nvml.get(&b)];
        gpus.into_iter().flatten().any(|gpu| gpu.mig == Fact::Known(true))
    }

    fn is_before_fermi(&self, (a, b): (Bdf, Bdf)) -> bool {
        let mut gpus = [self.cuda.get(&a), self.cuda.get(&b)].into_iter().flatten();
        gpus.any(|gpu| gpu.compute.known().is_some_and(|compute| *compute < FERMI))
    }
}

/// A GPU's name without its address.
fn name(ctx: &Ctx<'_>, bdf: Bdf) -> String {
    let row = ctx.topology.row_at(bdf).and_then(|row| ctx.topology.rows.get(row));
    row.map_or(bdf.to_string(), |row| row.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, assert_says, findings, gpu, machine, only, two_gpus};
    use crate::model::{CudaOutcome, Facts, Finding, NvmlOutcome, Outcome};

    const SECOND: &str = "0000:05:00.0";

    fn with(read: P2pStatus, there: Fact<bool>, back: Fact<bool>) -> Facts {
        let mut facts = two_gpus(SECOND);
        if let Fact::Known(NvmlOutcome::Read(nvml)) = &mut facts.nvml {
            for pair in &mut nvml.pairs {
                pair.p2p.insert(P2pCapability::Read, Fact::Known(read));
            }
        }
        if let Fact::Known(CudaOutcome::Read(cuda)) = &mut facts.cuda {
            cuda.pairs[0].can_access = there;
            cuda.pairs[1].can_access = back;
        }
        facts
    }

    fn judged(facts: &Facts, profiles: &[&str]) -> Finding {
        let mut found = findings("gpu.p2p-grant", facts, profiles);
        assert_eq!(found.len(), 1, "{found:#?}");
        found.remove(0)
    }

    #[test]
    fn explains_denied_peer_access() {
        let (yes, no) = (Fact::Known(true), Fact::Known(false));
        assert_eq!(only("gpu.p2p-grant", &machine()).outcome, Outcome::Skip);
        let found = judged(&with(P2pStatus::Ok, yes.clone(), yes.clone()), &["p2p"]);
        assert_eq!((found.outcome, found.subject.as_str()), (Outcome::Pass, "GPU0–GPU1"));
        for (status, back, words) in [
            (P2pStatus::Chipset, &no, "the chipset does not carry it (CNS)"),
            (P2pStatus::Gpu, &no, "does not support it (GNS)"),
            (P2pStatus::Topology, &no, "(TNS)"),
            (P2pStatus::Disabled, &no, "a registry key"),
            (P2pStatus::NotSupported, &no, "(NS)"),
            (P2pStatus::Ok, &no, "NVML allows it, but CUDA does not."),
            (P2pStatus::Ok, &yes, "one way only"),
            (P2pStatus::Unknown, &no, "NVML gives no reason"),
        ] {
            let facts = with(status, no.clone(), back.clone());
            let found = judged(&facts, &["p2p"]);
            assert_eq!(found.outcome, Outcome::Fail);
            assert_says(&found, words);
            assert!(found.fix.is_some());
            assert_eq!(judged(&facts, &["rdma"]).outcome, Outcome::Info);
        }
    }

    #[test]
    fn needs_one_library() {
        let mut facts = with(P2pStatus::Ok, Fact::default(), Fact::default());
        assert_eq!(
            judged(&facts, &["p2p"]).outcome,
            Outcome::Unknown,
            "CUDA may deny what NVML allows"
        );
        facts.cuda = Fact::Unknown(Why::TimedOut);
        assert_eq!(judged(&facts, &["p2p"]).outcome, Outcome::Unknown);
        facts.cuda = Fact::Known(CudaOutcome::Absent { reason: "no libcuda.so.1".to_owned() });
        assert_eq!(judged(&facts, &["p2p"]).outcome, Outcome::Pass, "NVML alone");
        facts = with(P2pStatus::Chipset, Fact::default(), Fact::default());
        assert_eq!(judged(&facts, &["p2p"]).outcome, Outcome::Fail, "NVML alone");
        let half = with(P2pStatus::Ok, Fact::Known(true), Fact::default());
        assert_eq!(judged(&half, &["p2p"]).outcome, Outcome::Unknown, "CUDA one way, NVML both");
        let half = with(P2pStatus::Unknown, Fact::Known(true), Fact::default());
        assert_eq!(judged(&half, &["p2p"]).outcome, Outcome::Unknown, "no library denies access");
        facts.nvml = Fact::Unknown(Why::NotCovered);
        assert_eq!(judged(&facts, &["p2p"]).outcome, Outcome::Unknown);
        facts.cuda = Fact::Unknown(Why::TimedOut);
        assert_eq!(judged(&facts, &["p2p"]).outcome, Outcome::Unknown);
        let mut facts = with(P2pStatus::Unknown, Fact::Known(true), Fact::Known(true));
        facts.nvml = Fact::Unknown(Why::NotCovered);
        assert_eq!(judged(&facts, &["p2p"]).outcome, Outcome::Pass, "CUDA alone");
    }

    #[test]
    fn newer_cuda_checks_iommu_and_acs() {
        let mut facts = with(P2pStatus::Ok, Fact::Known(false), Fact::Known(false));
        if let Fact::Known(CudaOutcome::Read(cuda)) = &mut facts.cuda {
            cuda.driver_version = Fact::Known(13_050);
        }
        assert!(judged(&facts, &["p2p"]).message.contains("since 13.5"));
        facts.add(gpu("0000:06:00.0"));
        let found = findings("gpu.p2p-grant", &facts, &["p2p"]);
        let subjects: Vec<&str> = found.iter().map(|found| found.subject.as_str()).collect();
        assert_eq!(subjects, ["GPU0–GPU1", "GPU0–GPU2, GPU1–GPU2"], "no library reports the third");
    }
}
