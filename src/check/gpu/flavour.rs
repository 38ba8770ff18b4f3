//! gpu.driver-flavour: which memory paths for RDMA the kernel module flavour supports.

use crate::check::memory_path::{self, PathState};
use crate::check::version::{self, Flavour, Generation};
use crate::check::{Ctx, Judgement, passthrough, words};
use crate::model::{Area, Fact, PciDevice, Severity};

const SOURCE: &str = "/proc/driver/nvidia/version";

/// One judgement for each generation of GPUs in the machine.
pub fn flavour(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let flavour = match version::flavour(ctx.facts) {
        Fact::Known(Some(flavour)) => flavour,
        Fact::Known(None) => return vec![Judgement::no_driver("driver")],
        Fact::Unknown(why) => {
            let unknown = Judgement::unknown("driver", why, Area::Proc, SOURCE);
            // One flavour drives these GPUs, and the other does not.
            let of_one_flavour =
                |gpu: &PciDevice| Generation::of_device(gpu) != Some(Generation::TuringToHopper);
            return vec![match passthrough::own_gpus(ctx.facts).any(of_one_flavour) {
                true => unknown.weighing(Severity::Error),
                false => unknown,
            }];
        }
    };
    if let Fact::Unknown(why) = ctx.facts.pci {
        return vec![Judgement::unknown(
            "driver",
            why,
            Area::Sys,
            "/sys/bus/pci/devices",
        )];
    }
    let line = ctx
        .facts
        .driver
        .version_line
        .present()
        .map_or("", String::as_str);
    [
        Generation::BeforeTuring,
        Generation::TuringToHopper,
        Generation::OpenOnly,
    ]
    .into_iter()
    .filter_map(|generation| {
        let is_of_generation = |gpu: &&PciDevice| Generation::of_device(gpu) == Some(generation);
        let gpus: Vec<String> = passthrough::own_gpus(ctx.facts)
            .filter(is_of_generation)
            .map(|gpu| words::device(ctx, gpu.bdf))
            .collect();
        (!gpus.is_empty())
            .then(|| judge(ctx, flavour, generation, &words::list(gpus)).evidence(SOURCE, line))
    })
    .collect()
}

fn judge(ctx: &Ctx<'_>, flavour: Flavour, generation: Generation, gpus: &str) -> Judgement {
    let subject = gpus.to_owned();
    match (flavour, generation) {
        (Flavour::Open, Generation::BeforeTuring) => Judgement::broken(
            subject,
            "The open kernel modules do not drive GPUs before Turing (Maxwell, Pascal, Volta).",
        )
        .weighing(Severity::Error)
        .advice("Install the proprietary kernel modules; nvidia-peermem is the memory path for RDMA on \
                 this GPU."),
        (Flavour::Open, _) => Judgement::pass(
            subject,
            "Open kernel modules: both memory paths for RDMA are possible, dma-buf and nvidia-peermem.",
        ),
        (Flavour::Proprietary, Generation::BeforeTuring) => Judgement::pass(
            subject,
            "Proprietary kernel modules, the only ones for GPUs before Turing: nvidia-peermem is the memory path for RDMA.",
        ),
        (Flavour::Proprietary, Generation::TuringToHopper) => match peermem_is_open(ctx) {
            true => Judgement::info(
                subject,
                "Proprietary kernel modules: they export no dma-buf. nvidia-peermem is the only memory path for RDMA, and it is open.",
            ),
            false => Judgement::broken(
                subject,
                "Proprietary kernel modules: they export no dma-buf, so nvidia-peermem is the only memory path for RDMA.",
            ),
        }
        .advice("Install the open kernel modules of the same version (package nvidia-open, or the -open \
                 flavour)."),
        (Flavour::Proprietary, Generation::OpenOnly) => Judgement::broken(
            subject,
            "The proprietary kernel modules do not drive this generation (Grace Hopper, Blackwell and later).",
        )
        .weighing(Severity::Error)
        .advice("Install the open kernel modules (package nvidia-open, or the -open flavour)."),
    }
}

/// True if nvidia-peermem or nv_peer_mem is a client of the RDMA stack.
pub fn peermem_is_open(ctx: &Ctx<'_>) -> bool {
    matches!(memory_path::peer_memory(ctx, None), PathState::Open(_))
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{Edit, GPU, bind, gpu, machine, only, set_device_id};
    use crate::model::Outcome;

    #[test]
    fn ignores_gpus_of_guests() {
        let mut facts = machine();
        facts.add(gpu("0000:05:00.0"));
        set_device_id(&mut facts, "0000:05:00.0", 0x1db4);
        bind(&mut facts, "0000:05:00.0", Some("vfio-pci"));
        let found = only("gpu.driver-flavour", &facts);
        assert_eq!(
            (found.outcome, found.subject),
            (Outcome::Pass, format!("GPU0 ({GPU})"))
        );
    }
}
