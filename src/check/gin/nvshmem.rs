//! gin.nvshmem: the installed NVSHMEM starts IBGDA with the rights that processes have here.

use super::{LIBRARIES, version};
use crate::check::param::doorbells_mapped;
use crate::check::{Ctx, Judgement, or_skip, unknown_if, unread_library};
use crate::model::{Area, Fact, Library};

const NAME: &str = "libnvshmem_host.so.3";
/// The first with doorbells by the CPU that need neither gdrcopy nor a driver parameter (release notes of 3.4.5).
const WITHOUT_MAPPING: [u32; 3] = [3, 4, 5];

pub fn nvshmem(ctx: &Ctx<'_>) -> Vec<Judgement> {
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
