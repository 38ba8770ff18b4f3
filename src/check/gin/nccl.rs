//! gin.nccl: the installed NCCL has GPU-initiated networking.

use super::{LIBRARIES, version};
use crate::check::{Check, Ctx, Judgement, Source, or_skip, unknown_if, unread_library};
use crate::model::{ActionClass, Area, Library, Severity};

/// The first with GIN in its device API (NCCL user guide, Device-Initiated Communication).
const GIN: [u32; 3] = [2, 28, 7];
/// What the second version of DeepEP needs (its README).
const DEEP_EP: [u32; 3] = [2, 30, 4];

pub const CHECK: Check = Check {
    id: "gin.nccl",
    rule: "Each NCCL has GIN (2.28.7), and what the second version of DeepEP needs of it (2.30.4).",
    sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages",
    severity: Severity::Info,
    why: "NCCL's device API has network operations since 2.28.7. The second version of DeepEP is built on it, and needs 2.30.4.",
    remedy: "Update NCCL: pip install 'nvidia-nccl-cu13>=2.30.4' --no-deps, or the package of the distribution.",
    action: ActionClass::Install
        .running("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/deviceapi.html"),
    references: &[
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/deviceapi.html",
        "https://github.com/deepseek-ai/DeepEP/blob/b306af06afd412c88e51e71802951606e40b7358/README.md",
    ],
    reads: &[Source::Software],
    judge: nccl,
    ..Check::DEFAULT
};

fn nccl(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let software = &ctx.facts.software;
    if let Some(unknown) = unknown_if(&software.libraries, "machine", Area::Files, LIBRARIES) {
        return vec![unknown];
    }
    let judgements = software.usable("libnccl.so.2").map(judge);
    let judgements = judgements.chain(unread_library(ctx, "libnccl.so.2"));
    or_skip(judgements.collect(), "No NCCL is found.")
}

fn judge(library: &Library) -> Judgement {
    let subject = library.path.clone();
    let Some(found) = version(library) else {
        return Judgement::undetermined(subject, "Neither its file nor its package has a version.")
            .evidence(&library.path, "no version")
            .needs("NCCL_DEBUG=VERSION with a program that uses it");
    };
    let release = library.version.as_deref().unwrap_or_default();
    let update = "Use NCCL 2.30.4 or later.";
    let judgement = if found < GIN {
        let message =
            format!("NCCL {release} has no GPU-initiated networking: that came with 2.28.7.");
        Judgement::broken(subject, message).advice(update)
    } else if found < DEEP_EP {
        let message = format!(
            "NCCL {release} has GPU-initiated networking; the second version of DeepEP needs 2.30.4."
        );
        // Enough for all but DeepEP.
        Judgement::broken(subject, message).weighing(Severity::Info).advice(update)
    } else {
        Judgement::pass(
            subject,
            format!(
                "NCCL {release} has GPU-initiated networking, and all that DeepEP needs of it."
            ),
        )
    };
    judgement.evidence(&library.path, release)
}
