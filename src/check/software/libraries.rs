//! sw.libraries: the vendor libraries that gdr loads answer, and what they answer can be true.

use crate::check::{Check, Ctx, Judgement, Source};
use crate::model::{
    ActionClass, Area, CudaOutcome, Fact, NvmlOutcome, Severity, VerbsOutcome, Why,
};

const NVML: &str = "libnvidia-ml.so.1";
const CUDA: &str = "libcuda.so.1";
const VERBS: &str = "libibverbs.so.1";

pub const CHECK: Check = Check {
    id: "sw.libraries",
    rule: "The vendor libraries that gdr loads answer in time, end no process, and answer what can be true.",
    sources: "NVML, libcuda, libibverbs, each read by a process of its own",
    severity: Severity::Warn,
    why: "A library that crashes, hangs or kills processes does so in every program that loads \
        it. A stub or a library of another driver may answer success and zeros. What gdr \
        would learn from it is unknown, and the checks that need it say so.",
    remedy: "Install the libraries of the loaded driver and of rdma-core; ldconfig -p and \
        LD_LIBRARY_PATH show which files are loaded.",
    action: ActionClass::Install.running("https://docs.nvidia.com/deploy/cuda-compatibility/"),
    references: &["https://docs.nvidia.com/deploy/cuda-compatibility/"],
    reads: &[Source::Nvml, Source::Cuda, Source::Verbs],
    judge: libraries,
    ..Check::DEFAULT
};

/// One judgement for each library that failed, or one for all.
fn libraries(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let facts = ctx.facts;
    let mapping = facts.mapping.as_ref().and_then(Fact::why);
    let registration = facts.registration.as_ref().and_then(Fact::why);
    // Each with the source of its note.
    let read = [
        (NVML, "NVML", facts.nvml.why()),
        (CUDA, "CUDA", facts.cuda.why().or(mapping)),
        (VERBS, "verbs", facts.verbs.why()),
        ("libcuda.so.1 and libibverbs.so.1", "CUDA and verbs", registration),
    ];
    let failed = read.into_iter().filter_map(|(library, source, why)| {
        let why = why.filter(|why| *why != Why::NotCovered)?;
        Some(failed(ctx, library, source, why))
    });
    let judgements: Vec<Judgement> = failed.chain(nvml(ctx)).chain(cuda(ctx)).collect();
    if !judgements.is_empty() {
        return judgements;
    }
    let answers = [
        (NVML, matches!(facts.nvml, Fact::Known(NvmlOutcome::Read(_)))),
        (CUDA, matches!(facts.cuda, Fact::Known(CudaOutcome::Read(_)))),
        (VERBS, matches!(facts.verbs, Fact::Known(VerbsOutcome::Read(_)))),
    ];
    let answered: Vec<&str> =
        answers.iter().filter_map(|(library, answered)| answered.then_some(*library)).collect();
    let none = [facts.nvml.why(), facts.cuda.why(), facts.verbs.why()];
    vec![match (answered.is_empty(), none) {
        (true, [Some(why), Some(_), Some(_)]) => {
            Judgement::unknown("machine", why, Area::Nvml, "NVML, libcuda and libibverbs")
        }
        (true, _) => Judgement::skip(
            "machine",
            "No vendor library that is installed hangs, crashes or answers what cannot be true.",
        ),
        (false, _) => answered.iter().fold(
            Judgement::pass("machine", format!("These libraries answer: {}.", answered.join(", "))),
            |judgement, library| judgement.evidence(*library, "answers"),
        ),
    }]
}

/// A library that crashed, hung, or ended or spoiled the process that reads it.
fn failed(ctx: &Ctx<'_>, library: &str, source: &str, why: Why) -> Judgement {
    let mut notes = ctx.facts.notes.iter();
    let message = notes
        .find(|note| note.source == source)
        .map_or_else(|| why.sentence(library), |note| note.message.clone());
    let message = format!("{message}.");
    let judgement = match why {
        Why::TimedOut => Judgement::undetermined(library, message).needs("a library that answers"),
        _ => Judgement::broken(library, message),
    };
    judgement
        .evidence(library, why.phrase())
        .advice(
            "Every program that loads it meets the same. ldconfig -p and LD_LIBRARY_PATH show which file is loaded: install that of \
             the loaded driver, or of rdma-core. If it is the right one, read the Xid and NVRM lines of dmesg.",
        )
}

/// A file with the name of a library that cannot be used as that library.
fn unusable(library: &str, path: Option<&str>, reason: &str) -> Judgement {
    Judgement::broken(library, format!("{library} cannot be used: {reason}."))
        .evidence(path.unwrap_or(library), reason)
        .advice(
            "Install the library of the loaded driver, and remove this one from LD_LIBRARY_PATH.",
        )
}

fn nvml(ctx: &Ctx<'_>) -> Option<Judgement> {
    if let Fact::Known(NvmlOutcome::Failed { code: None, reason }) = &ctx.facts.nvml {
        return Some(unusable(NVML, None, reason));
    }
    let nvml = ctx.facts.nvml()?;
    let is_empty = nvml.driver_version.known().is_some_and(|version| version.trim().is_empty());
    let is_zero = nvml.cuda_version == Fact::Known(0);
    let path = nvml.library.as_deref().unwrap_or(NVML);
    let what = match (is_empty, is_zero) {
        (false, false) => return None,
        (true, false) => "an empty driver version",
        (false, true) => "CUDA 0.0 as the newest version",
        (true, true) => "an empty driver version and CUDA 0.0",
    };
    Some(untrue(NVML, path, what))
}

fn cuda(ctx: &Ctx<'_>) -> Option<Judgement> {
    let cuda = match &ctx.facts.cuda {
        Fact::Known(CudaOutcome::Read(cuda)) => cuda,
        Fact::Known(CudaOutcome::Failed { code: None, reason, library, .. }) => {
            return Some(unusable(CUDA, library.as_deref(), reason));
        }
        _ => return None,
    };
    let path = cuda.library.as_deref().unwrap_or(CUDA);
    // Without a GPU cuInit fails (100).
    let what = match (cuda.driver_version == Fact::Known(0), cuda.gpus.is_empty()) {
        (false, false) => return None,
        (true, false) => "CUDA 0.0 as its version",
        (false, true) => "success of cuInit, but no GPU",
        (true, true) => "success of cuInit, but CUDA 0.0 and no GPU",
    };
    Some(untrue(CUDA, path, what))
}

fn untrue(library: &str, path: &str, what: &str) -> Judgement {
    let message =
        format!("{library} answers what cannot be true: {what}. What else it says is in doubt.");
    Judgement::broken(library, message).evidence(path, what).advice(
        "Install the library of the loaded driver, and remove this one from LD_LIBRARY_PATH.",
    )
}
