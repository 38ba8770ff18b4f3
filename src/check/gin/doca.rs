//! gin.doca: programs of the DOCA SDK find DOCA GPUNetIO.

use super::LIBRARIES;
use crate::check::{Check, Ctx, Judgement, Source, or_skip, unknown_if, unread_library};
use crate::model::{ActionClass, Area, Library, Severity};

const NAME: &str = "libdoca_gpunetio.so.2";

pub const CHECK: Check = Check {
    id: "gin.doca",
    rule: "An installed DOCA GPUNetIO lies where the loader finds it.",
    sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, /opt/mellanox/doca/lib",
    severity: Severity::Info,
    why: "Programs of the DOCA SDK load libdoca_gpunetio.so.2, which the package doca-sdk-gpunetio has below /opt/mellanox/doca/lib. \
        NCCL's GIN has its own copy, and UCX needs none. No minimum is documented, so no version is too old for this check.",
    remedy: "Install doca-sdk-gpunetio, or add the directory of its library to LD_LIBRARY_PATH or to a file in /etc/ld.so.conf.d.",
    action: ActionClass::Install
        .running("https://docs.nvidia.com/doca/archive/3-0-0/DOCA+GPUNetIO"),
    references: &[
        "https://docs.nvidia.com/doca/archive/3-0-0/DOCA+GPUNetIO",
        "https://github.com/NVIDIA/cuda-quantum/blob/20bd173df3abbdd6a8ce32b07be6ba1312664ca5/realtime/docs/user_guide.md",
        "https://github.com/NVIDIA-DOCA/gpunetio/blob/v2.0.1/README.md",
        "https://github.com/NVIDIA/nccl/tree/v2.30.7-1/src/transport/net_ib/gdaki/doca-gpunetio",
        "https://github.com/openucx/ucx/blob/v1.20.0/src/uct/ib/mlx5/gdaki/configure.m4",
    ],
    reads: &[Source::Software],
    judge: doca,
    ..Check::DEFAULT
};

fn doca(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let software = &ctx.facts.software;
    if let Some(unknown) = unknown_if(&software.libraries, "machine", Area::Files, LIBRARIES) {
        return vec![unknown];
    }
    let picked = software.picked(NAME);
    let judgement = match picked {
        Some(library) => Some(installed(library)),
        None => software.all(NAME).next().map(hidden).or_else(|| unread_library(ctx, NAME)),
    };
    let message = "No DOCA GPUNetIO is found. NCCL has its own copy.";
    or_skip(judgement.into_iter().collect(), message)
}

fn installed(library: &Library) -> Judgement {
    let message = match &library.version {
        Some(version) => format!("Programs of the DOCA SDK find DOCA GPUNetIO: {version}."),
        None => "Programs of the DOCA SDK find DOCA GPUNetIO. Its file has no version.".to_owned(),
    };
    Judgement::pass(&library.path, message).evidence(&library.path, version(library))
}

/// Installed, and not for the loader.
fn hidden(library: &Library) -> Judgement {
    let directory = library.path.rsplit_once('/').map_or("/", |(above, _)| above);
    let message = format!(
        "DOCA GPUNetIO is installed where the loader does not look: a program without a RUNPATH to it ends with 'error while loading \
         shared libraries: {NAME}: cannot open shared object file'."
    );
    Judgement::broken(&library.path, message)
        .advice(format!(
            "Add {directory} to LD_LIBRARY_PATH, or to a file in /etc/ld.so.conf.d and run ldconfig."
        ))
        .evidence(&library.path, version(library))
}

fn version(library: &Library) -> &str {
    library.version.as_deref().unwrap_or("no version")
}
