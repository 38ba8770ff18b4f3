//! gin.nvshmem: the installed NVSHMEM starts IBGDA with the rights that processes have here.

use super::{LIBRARIES, version};
use crate::check::param::doorbells_mapped;
use crate::check::{Check, Ctx, Judgement, Source, or_skip, unknown_if, unread_library};
use crate::model::{ActionClass, Area, Fact, Library, Severity};

const NAME: &str = "libnvshmem_host.so.3";
/// The first with doorbells by the CPU that need neither gdrcopy nor a driver parameter (release notes of 3.4.5).
const WITHOUT_MAPPING: [u32; 3] = [3, 4, 5];

pub const CHECK: Check = Check {
    id: "gin.nvshmem",
    rule: "Each NVSHMEM starts IBGDA with the rights that processes have here: from 3.4.5 on without the GPU's access to the doorbell.",
    sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages; /proc/driver/nvidia/params, /proc/self/status",
    severity: Severity::Info,
    why: "NVSHMEM's IBGDA maps the NIC's doorbell for the GPU ('cudaHostRegister with IoMemory failed with error=800' where the driver \
        refuses). Before 3.4.5 the only other way is gdrcopy, with NVSHMEM_IBGDA_NIC_HANDLER=cpu; without both, IBGDA does not \
        start ('init failed for transport: IBGDA'), and NVSHMEM continues with its other transports. From 3.4.5 on it falls back to doorbells that a CPU thread rings, with words in host memory \
        (cpu_host_memory), which is slower and needs neither.",
    remedy: "gdr fix peer-mapping, for doorbells by the GPU; or NVSHMEM 3.4.5 or later.",
    action: ActionClass::Install.running("https://docs.nvidia.com/nvshmem/release-notes-install-guide/release-notes/release-3405.html"),
    references: &[
        "https://docs.nvidia.com/nvshmem/release-notes-install-guide/release-notes/release-3405.html",
        "https://github.com/NVIDIA/nvshmem/blob/v3.4.5-0/src/host/transport/transport.cpp",
        "https://github.com/NVIDIA/nvshmem/issues/23",
        "https://github.com/deepseek-ai/DeepEP/issues/163",
    ],
    reads: &[Source::Software, Source::Modules],
    judge: nvshmem,
    ..Check::DEFAULT
};

fn nvshmem(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let software = &ctx.facts.software;
    if let Some(unknown) = unknown_if(&software.libraries, "machine", Area::Files, LIBRARIES) {
        return vec![unknown];
    }
    let judgements = software.usable(NAME).map(|library| judge(ctx, library));
    let judgements = judgements.chain(unread_library(ctx, NAME));
    or_skip(judgements.collect(), "No NVSHMEM is found.")
}

fn judge(ctx: &Ctx<'_>, library: &Library) -> Judgement {
    let subject = library.path.clone();
    let Some(found) = version(library) else {
        return Judgement::undetermined(subject, "Neither its file nor its package has a version.")
            .evidence(&library.path, "no version")
            .needs("nvshmem-info -v of this installation");
    };
    let release = library.version.as_deref().unwrap_or_default();
    let judgement = match doorbells_mapped(ctx) {
        Fact::Known(true) => Judgement::pass(
            subject,
            format!("NVSHMEM {release} may let the GPU ring the NIC's doorbell: the driver maps it for this process."),
        ),
        Fact::Known(false) if found >= WITHOUT_MAPPING => Judgement::pass(
            subject,
            format!(
                "NVSHMEM {release} starts IBGDA with doorbells that a CPU thread rings (cpu_host_memory), because the driver does not map \
                 them for the GPU. It warns 'cudaHostRegister with IoMemory failed with error=800'."
            ),
        ),
        Fact::Known(false) => Judgement::broken(
            subject,
            format!(
                "NVSHMEM {release} does not start IBGDA here: the driver does not map the NIC's doorbell for the GPU ('cudaHostRegister with \
                 IoMemory failed with error=800', 'init failed for transport: IBGDA'), and doorbells by the CPU need gdrcopy before 3.4.5."
            ),
        )
        .fix("peer-mapping")
        .advice(
            "Or use NVSHMEM 3.4.5 or later. With gdrcopy (gdrdrv loaded), NVSHMEM_IBGDA_NIC_HANDLER=cpu works before; the first version of \
             DeepEP hangs with it.",
        ),
        Fact::Unknown(why) => {
            return Judgement::unknown(subject, why, Area::Proc, "/proc/driver/nvidia/params")
                .evidence(&library.path, release);
        }
    };
    judgement.evidence(&library.path, release)
}
