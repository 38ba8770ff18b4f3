//! gin.nccl: the installed NCCL has GPU-initiated networking.

use super::{LIBRARIES, version};
use crate::check::{Ctx, Judgement, or_skip, unknown_if, unread_library};
use crate::model::{Area, Library, Severity};

/// The first with GIN in its device API (NCCL user guide, Device-Initiated Communication).
const GIN: [u32; 3] = [2, 28, 7];
/// What the second version of DeepEP needs (its README).
const DEEP_EP: [u32; 3] = [2, 30, 4];

pub fn nccl(ctx: &Ctx<'_>) -> Vec<Judgement> {
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
