//! Looks up what NVML and CUDA report about each GPU of this machine.

use std::collections::HashMap;

use crate::check::{Ctx, Judgement, Rule, passthrough, unknown_if};
use crate::model::{
    Area, Bdf, Cuda, CudaGpu, CudaOutcome, Fact, Nvml, NvmlGpu, NvmlOutcome, PciDevice, Why,
};

pub const CUDA: &str = "libcuda.so.1";

/// Judges each GPU that is not passed through. Equal judgements without a problem share one finding.
pub fn each(ctx: &Ctx<'_>, judge: impl Fn(&PciDevice) -> Judgement) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, "/sys/bus/pci/devices")
    {
        return vec![unknown];
    }
    let mut judgements: Vec<Judgement> = Vec::new();
    // Keyed by the judgement without its subject.
    let mut shared: HashMap<Judgement, usize> = HashMap::new();
    for judgement in passthrough::own_gpus(ctx.facts).map(judge) {
        if !matches!(judgement.rule, Rule::Holds | Rule::Unknown | Rule::Skipped) {
            judgements.push(judgement);
            continue;
        }
        let Judgement { subject, .. } = judgement;
        let key = Judgement { subject: String::new(), ..judgement };
        match shared.get(&key) {
            Some(other) => {
                let subjects = &mut judgements[*other].subject;
                subjects.push_str(", ");
                subjects.push_str(&subject);
            }
            None => {
                shared.insert(key.clone(), judgements.len());
                judgements.push(Judgement { subject, ..key });
            }
        }
    }
    judgements
}

/// Why a library reports nothing about a GPU, and what is needed.
pub struct Gap {
    why: Why,
    area: Area,
    source: &'static str,
    evidence: String,
    needs: String,
}

impl Gap {
    pub fn unknown(self, subject: impl Into<String>) -> Judgement {
        let judgement =
            Judgement::unknown(subject, self.why, self.area, self.source).needs(self.needs);
        if self.evidence.is_empty() {
            judgement
        } else {
            judgement.evidence(self.source, self.evidence)
        }
    }
}

pub fn nvml<'a>(ctx: &Ctx<'a>) -> Result<&'a Nvml, Gap> {
    let gap = |why, evidence: &str, needs: &str| Gap {
        why,
        area: Area::Nvml,
        source: "NVML",
        evidence: evidence.to_owned(),
        needs: needs.to_owned(),
    };
    match &ctx.facts.nvml {
        Fact::Known(NvmlOutcome::Read(nvml)) => Ok(nvml),
        Fact::Known(NvmlOutcome::Absent { reason } | NvmlOutcome::Failed { reason, .. }) => {
            Err(gap(Why::NotCovered, reason, "an NVML that answers: see gpu.driver"))
        }
        Fact::Unknown(Why::NotCovered) => Err(gap(
            Why::NotCovered,
            "",
            "NVML: gdr doctor on the machine itself, or a snapshot of it (gdr snapshot)",
        )),
        Fact::Unknown(why) => Err(gap(*why, "", "an NVML that answers: see gpu.driver")),
    }
}

/// A GPU as NVML sees it.
pub fn nvml_gpu<'a>(ctx: &Ctx<'a>, bdf: Bdf) -> Result<&'a NvmlGpu, Gap> {
    let nvml = nvml(ctx)?;
    nvml.gpus.iter().find(|gpu| gpu.bdf == bdf).ok_or_else(|| Gap {
        why: Why::NotCovered,
        area: Area::Nvml,
        source: "NVML",
        evidence: format!("{} GPUs, not this one", nvml.gpus.len()),
        needs: "an NVML that shows this GPU: see gpu.present and gpu.driver".to_owned(),
    })
}

pub fn cuda<'a>(ctx: &Ctx<'a>) -> Result<&'a Cuda, Gap> {
    let gap = |why, evidence: &str, needs: &str| Gap {
        why,
        area: Area::Cuda,
        source: CUDA,
        evidence: evidence.to_owned(),
        needs: needs.to_owned(),
    };
    match &ctx.facts.cuda {
        Fact::Known(CudaOutcome::Read(cuda)) => Ok(cuda),
        Fact::Known(CudaOutcome::Absent { reason }) => Err(gap(
            Why::NotCovered,
            reason,
            "libcuda.so.1, which is not installed: see gpu.driver",
        )),
        Fact::Known(CudaOutcome::Failed { reason, .. }) => {
            Err(gap(Why::NotCovered, reason, "a CUDA that starts: see gpu.driver and gpu.fabric"))
        }
        Fact::Unknown(Why::NotCovered) => Err(gap(
            Why::NotCovered,
            "",
            "CUDA: gdr doctor on the machine itself, or a snapshot of it (gdr snapshot)",
        )),
        Fact::Unknown(why) => Err(gap(
            *why,
            "",
            "a CUDA that answers: a hanging driver shows in dmesg | grep -i -e NVRM -e Xid",
        )),
    }
}

/// A GPU as CUDA sees it.
pub fn cuda_gpu<'a>(ctx: &Ctx<'a>, bdf: Bdf) -> Result<&'a CudaGpu, Gap> {
    let cuda = cuda(ctx)?;
    let gap = |evidence: String, needs: &str| Gap {
        why: Why::NotCovered,
        area: Area::Cuda,
        source: CUDA,
        evidence,
        needs: needs.to_owned(),
    };
    let ids = |bdf| ctx.facts.device(bdf).and_then(|device| device.ids.known());
    let same_model = |gpu: &&CudaGpu| {
        cuda.one_of_each && gpu.bdf.and_then(ids).is_some_and(|found| Some(found) == ids(bdf))
    };
    let itself = cuda.gpus.iter().find(|gpu| gpu.bdf == Some(bdf));
    // With `one_of_each`, one GPU stands for all of its model.
    match itself.or_else(|| cuda.gpus.iter().find(same_model)) {
        // Every driver reports the compute capability: without it no attributes were recorded.
        Some(gpu) if gpu.compute == Fact::default() => Err(gap(
            String::new(),
            "CUDA's attributes: a snapshot by this version of gdr (gdr snapshot)",
        )),
        Some(gpu) => Ok(gpu),
        None => Err(gap(
            format!("{} GPUs, not this one", cuda.gpus.len()),
            "a CUDA that shows this GPU: see gpu.present, and gpu.mig for one without instances",
        )),
    }
}

/// True if NVML was queried completely: then the GPU or the driver lacks whatever is missing.
pub fn is_complete(gpu: &NvmlGpu) -> bool {
    gpu.memory_total.known().is_some() || gpu.bar1.known().is_some()
}

/// A CUDA flag as evidence.
pub fn shown(flag: &Fact<bool>) -> String {
    match flag {
        Fact::Known(flag) => u8::from(*flag).to_string(),
        Fact::Unknown(Why::NotCovered) => "not known to this driver".to_owned(),
        Fact::Unknown(why) => why.phrase().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{findings, nvml_gpu, two_gpus};
    use crate::model::{Fact, Outcome, Why};

    #[test]
    fn equal_judgements_share_a_finding() {
        let mut facts = two_gpus("0000:05:00.0");
        let subjects = |facts: &_| -> Vec<(String, Outcome)> {
            let found = findings("gpu.persistence", facts, &[]);
            found.into_iter().map(|found| (found.subject, found.outcome)).collect()
        };
        let (first, second) = ("GPU0 (0000:03:00.0)", "GPU1 (0000:05:00.0)");
        assert_eq!(subjects(&facts), [(format!("{first}, {second}"), Outcome::Pass)]);
        nvml_gpu(&mut facts, |gpu| gpu.persistence = Fact::Known(false));
        let apart = [(first.to_owned(), Outcome::Info), (second.to_owned(), Outcome::Pass)];
        assert_eq!(subjects(&facts), apart);
        facts.nvml = Fact::Unknown(Why::NotCovered);
        assert_eq!(subjects(&facts), [(format!("{first}, {second}"), Outcome::Unknown)]);
    }
}
