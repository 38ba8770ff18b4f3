//! mapping.backend: at least one backend maps each GPU's memory for the CPU, tried with --live.

use crate::check::{Check, Ctx, Hint, Judgement, Source, passthrough, words};
use crate::model::{
    ActionClass, Area, BackendOutcome, Bdf, Fact, GpuMapping, MappingOutcome, MappingTrial,
    Severity,
};

/// Shown if no backend works.
const ADVICE: &str = "See why each backend was refused; gdr probe copy shows more. For gdrdrv, load gdrcopy's kernel module; for rm, the \
                      nodes /dev/nvidiactl and /dev/nvidiaN must open, and MIG and confidential computing be off.";

pub const CHECK: Check = Check {
    id: "mapping.backend",
    rule: "With --live: the CPU maps memory of each GPU, and every byte arrives correctly.",
    sources: "CUDA; gdrdrv, dma-buf and RM, tried on memory that gdr allocates",
    severity: Severity::Info,
    why: "Small copies between CPU and GPU are fastest through a mapping. Driver, modules and \
        permissions decide which backend works; only a trial shows it.",
    remedy: "Load gdrdrv, or use a driver whose memory can be mapped without it; the trial shows \
        why each backend failed.",
    action: ActionClass::Install.running("https://github.com/NVIDIA/gdrcopy/blob/v2.6/README.md"),
    references: &["docs: gdrcopy.md", "https://github.com/NVIDIA/gdrcopy/blob/v2.6/README.md"],
    explained_by: &["gpu.driver"],
    reads: &[Source::Mapping],
    hint: Some(Hint {
        cause: "GPU memory cannot be mapped for the CPU in this way.",
        words: "gdrcopy=4 gdr-map=3 slow=1 invalid=1 failure=1 coherent-gpu=1",
    }),
    judge: mapping,
    ..Check::DEFAULT
};

/// One judgement for each GPU: its memory was mapped, and written data read back.
fn mapping(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let Some(outcome) = &ctx.facts.mapping else {
        return vec![Judgement::skip("machine", "GPU memory is mapped only with --live.")];
    };
    match outcome {
        Fact::Unknown(why) => {
            vec![Judgement::unknown("machine", *why, Area::Cuda, "a trial of mapping GPU memory")]
        }
        Fact::Known(MappingOutcome::Absent { reason }) => vec![
            Judgement::broken("machine", "There is no CUDA library: no GPU memory can be mapped.")
                .evidence("libcuda.so.1", reason)
                .advice("Install the driver's user-space part (libcuda.so.1)."),
        ],
        Fact::Known(MappingOutcome::Failed { reason }) => vec![
            Judgement::broken("machine", "CUDA shows no GPU whose memory could be mapped.")
                .evidence("libcuda.so.1", reason)
                .advice(
                    "See gpu.driver and gpu.present; a container needs the nodes /dev/nvidia*.",
                ),
        ],
        Fact::Known(MappingOutcome::Tried(gpus)) => {
            let tried = gpus.iter().map(|gpu| judge(ctx, gpu));
            tried.chain(not_tried(ctx, gpus)).collect()
        }
    }
}

/// The GPUs that no trial names.
fn not_tried(ctx: &Ctx<'_>, gpus: &[GpuMapping]) -> Vec<Judgement> {
    let is_tried = |bdf: Bdf| gpus.iter().any(|gpu| gpu.bdf == Some(bdf));
    passthrough::own_gpus(ctx.facts)
        .filter(|gpu| !is_tried(gpu.bdf))
        .map(|gpu| {
            let message = "Memory not mapped: CUDA shows this process no such GPU.";
            Judgement::undetermined(words::device(ctx, gpu.bdf), message)
                .evidence("CUDA", "not among the GPUs that were tried")
                .needs("a CUDA that shows the GPU (gpu.driver, CUDA_VISIBLE_DEVICES)")
        })
        .collect()
}

fn judge(ctx: &Ctx<'_>, gpu: &GpuMapping) -> Judgement {
    let subject = subject(ctx, gpu);
    let judgement = match &gpu.trial {
        MappingTrial::Verified {
            backend,
            mapping,
            bytes,
        } => {
            let how = mapping.to_lowercase();
            let message = format!(
                "The CPU maps its memory through {backend} ({how}): {bytes} bytes in each direction arrived correctly."
            );
            // Arm's Device memory and UC on x86 do not combine accesses.
            match mapping.as_str() {
                "Device" => Judgement::info(subject, format!("{message} Uncached, it is slow.")),
                _ => Judgement::pass(subject, message),
            }
            .evidence(format!("mapped through {backend}"), mapping)
        }
        MappingTrial::Wrong { backend, reason } => Judgement::broken(
            subject,
            format!("Wrong bytes through {backend}: do not use this backend."),
        )
        .evidence(format!("mapped through {backend}"), reason)
        .advice(
            "Report it with the output of gdr probe copy --format json; choose another backend with \
                 GDR_BACKEND.",
        ),
        MappingTrial::NotTried { reason } => {
            return Judgement::undetermined(subject, "This process has none of its memory to map.")
                .evidence("the trial", reason)
                .needs("a GPU with 64 KiB of free memory that this process may use");
        }
        MappingTrial::Refused { reason } => Judgement::broken(subject, "No backend maps its memory for the CPU.")
            .evidence("the trial", reason)
            .advice(ADVICE),
    };
    let others = gpu.backends.iter().filter(|choice| choice.outcome != BackendOutcome::Chosen);
    others.fold(judgement, |judgement, choice| {
        let outcome = match choice.outcome {
            BackendOutcome::Usable => "usable",
            BackendOutcome::Refused | BackendOutcome::Chosen => "refused",
        };
        judgement
            .evidence(format!("backend {}", choice.backend), format!("{outcome}: {}", choice.why))
    })
}

/// The GPU's row name and address; without a row its address, or CUDA's number.
fn subject(ctx: &Ctx<'_>, gpu: &GpuMapping) -> String {
    let Some(bdf) = gpu.bdf else {
        return format!("CUDA device {}", gpu.ordinal);
    };
    let row = ctx.topology.row_at(bdf).and_then(|row| ctx.topology.rows.get(row));
    match row {
        Some(row) => format!("{} ({bdf})", row.name),
        None => bdf.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{GPU, assert_outcome, assert_says, bdf, findings, machine, only};
    use crate::model::{BackendChoice, Facts, Outcome};

    fn tried(trial: MappingTrial) -> Facts {
        let mut facts = machine();
        facts.mapping = Some(Fact::Known(MappingOutcome::Tried(vec![GpuMapping {
            bdf: Some(bdf(GPU)),
            ordinal: 0,
            trial,
            backends: vec![
                BackendChoice {
                    backend: "gdrdrv".to_owned(),
                    outcome: BackendOutcome::Refused,
                    why: "/dev/gdrdrv is not there".to_owned(),
                },
                BackendChoice {
                    backend: "rm".to_owned(),
                    outcome: BackendOutcome::Chosen,
                    why: "it answers".to_owned(),
                },
            ],
            dma_buf: None,
        }])));
        facts
    }

    fn verified(mapping: &str) -> Facts {
        tried(MappingTrial::Verified {
            backend: "rm".to_owned(),
            mapping: mapping.to_owned(),
            bytes: 65536,
        })
    }

    #[test]
    fn verified_mapping_passes() {
        let found = only("mapping.backend", &verified("Write Combining"));
        assert_eq!(found.outcome, Outcome::Pass);
        assert_eq!(found.subject, "GPU0 (0000:03:00.0)");
        assert_eq!(
            found.message,
            "The CPU maps its memory through rm (write combining): 65536 bytes in each direction arrived correctly."
        );
        let evidence: Vec<String> =
            found.evidence.iter().map(|e| format!("{}: {}", e.source, e.value)).collect();
        assert_eq!(
            evidence,
            [
                "mapped through rm: Write Combining",
                "backend gdrdrv: refused: /dev/gdrdrv is not there"
            ]
        );
        assert_outcome("mapping.backend", &verified("Device"), Outcome::Info);
    }

    #[test]
    fn cuda_without_gpus_fails_for_gdrcopy() {
        let failed = MappingOutcome::Failed { reason: "CUDA counts no GPU".to_owned() };
        let facts = Facts { mapping: Some(Fact::Known(failed)), ..machine() };
        let found = only("mapping.backend", &facts);
        assert_eq!(found.outcome, Outcome::Info, "{}", found.message);
        assert_says(&found, "shows no GPU");
        assert_eq!(findings("mapping.backend", &facts, &["gdrcopy"])[0].outcome, Outcome::Fail);
    }

    #[test]
    fn skipped_without_live() {
        assert_eq!(only("mapping.backend", &machine()).outcome, Outcome::Skip);
    }
}
