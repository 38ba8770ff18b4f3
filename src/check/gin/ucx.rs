//! gin.ucx: the installed UCX sends from kernels.

use super::LIBRARIES;
use crate::check::{Check, Ctx, Judgement, Source, or_skip, unknown_if, unread_library};
use crate::model::{ActionClass, Area, Library, Severity};

/// The plugin of the transport rc_gda (ucx.spec, package ucx-ib-mlx5-gda).
const PLUGIN: &str = "libuct_ib_mlx5_gda.so";

pub const CHECK: Check = Check {
    id: "gin.ucx",
    rule: "Each UCX has the transport of its device API, rc_gda.",
    sources: "plugins beside libucp",
    severity: Severity::Info,
    why: "UCX's device API sends from kernels by the transport rc_gda, which is a plugin of its own (libuct_ib_mlx5_gda.so, package \
        ucx-ib-mlx5-gda). NIXL's kernels need it.",
    remedy: "Install the package ucx-ib-mlx5-gda (rpm of UCX 1.20 and later, deb of 1.20 alone), or build UCX where CUDA's compiler is installed.",
    action: ActionClass::Install.running("https://github.com/openucx/ucx/blob/v1.22.0/ucx.spec.in"),
    references: &[
        "https://github.com/openucx/ucx/tree/v1.22.0/src/uct/ib/mlx5/gdaki",
        "https://github.com/openucx/ucx/blob/v1.22.0/ucx.spec.in",
        "https://github.com/openucx/ucx/blob/v1.20.1/debian/control.in",
        "https://github.com/ai-dynamo/nixl/pull/2250",
    ],
    reads: &[Source::Software],
    judge: ucx,
    ..Check::DEFAULT
};

fn ucx(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let software = &ctx.facts.software;
    if let Some(unknown) = unknown_if(&software.libraries, "machine", Area::Files, LIBRARIES) {
        return vec![unknown];
    }
    let judgements = software.usable("libucp.so.0").map(judge);
    let judgements = judgements.chain(unread_library(ctx, "libucp.so.0"));
    or_skip(judgements.collect(), "No UCX is found.")
}

fn judge(library: &Library) -> Judgement {
    let subject = format!("UCX ({})", library.path);
    let Some(plugins) = &library.plugins else {
        let message = "It has no directory of plugins beside it: whether its device API is built in shows only when it runs.";
        return Judgement::undetermined(subject, message)
            .evidence(&library.path, "no directory ucx")
            .needs("ucx_info -d of this installation: rc_gda is listed");
    };
    let judgement = if plugins.iter().any(|plugin| plugin == PLUGIN) {
        Judgement::pass(subject, "It has the transport of its device API, rc_gda.")
    } else {
        Judgement::broken(
            subject,
            "It has no transport for kernels: its device API finds no rc_gda.",
        )
        .advice("Install the package ucx-ib-mlx5-gda (rpm of UCX 1.20 and later, deb of 1.20 alone), or build UCX where CUDA's compiler is installed.")
    };
    let list = if plugins.is_empty() { "none for GPUs".to_owned() } else { plugins.join(", ") };
    judgement.evidence(&library.path, list)
}
