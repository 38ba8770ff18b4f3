//! gpu.driver-flavour: which memory paths for RDMA the kernel module flavour supports.

use crate::check::version::{self, Flavour, Generation};
use crate::check::{Check, Ctx, Hint, Judgement, memory_path, passthrough, words};
use crate::model::{ActionClass, Area, Fact, Ids, PciDevice, Severity};

const SOURCE: &str = "/proc/driver/nvidia/version";

pub const CHECK: Check = Check {
    id: "gpu.driver-flavour",
    rule: "The kernel module flavour supports this GPU generation and exports dma-buf if the generation can.",
    sources: "/proc/driver/nvidia/version, PCI device ids",
    severity: Severity::Warn,
    why: "Open kernel modules drive Turing and later and can export GPU memory as dma-buf; the proprietary ones \
        cannot, and need nvidia-peermem for RDMA. Open modules do not drive Maxwell, Pascal and Volta at all, and the \
        last proprietary ones for these are of branch 580.",
    remedy: "Install the flavour that supports the GPU generation.",
    action: ActionClass::Install.drained(
        "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html",
    ),
    references: &[
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/595.45.04/README.md",
        "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html",
        "docs: NVIDIA, UNIX graphics feature deprecation schedule (forums.developer.nvidia.com), release 580",
        "https://docs.nvidia.com/cuda/gpudirect-rdma/",
    ],
    explained_by: &["gpu.driver"],
    hint: Some(Hint {
        cause: "The other flavour of NVIDIA's kernel modules is needed.",
        words: "open-flavour=5 storage=4 driver=2 mismatch=1 unsupported=1 dmabuf=1 failure=1 missing=1",
    }),
    judge: flavour,
    ..Check::DEFAULT
};

/// One judgement for each generation of GPUs in the machine.
fn flavour(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let flavour = match version::flavour(ctx.facts) {
        Fact::Known(Some(flavour)) => flavour,
        Fact::Known(None) => return vec![Judgement::no_driver("driver")],
        Fact::Unknown(why) => {
            let unknown = Judgement::unknown("driver", why, Area::Proc, SOURCE);
            // One flavour drives these GPUs, and the other does not.
            let of_one_flavour =
                |gpu: &PciDevice| Generation::of_device(gpu) != Some(Generation::TuringToHopper);
            return vec![if passthrough::own_gpus(ctx.facts).any(of_one_flavour) {
                unknown.weighing(Severity::Error)
            } else {
                unknown
            }];
        }
    };
    if let Fact::Unknown(why) = ctx.facts.pci {
        return vec![Judgement::unknown("driver", why, Area::Sys, "/sys/bus/pci/devices")];
    }
    let line = ctx.facts.driver.version_line.present().map_or("", String::as_str);
    let unlisted = passthrough::own_gpus(ctx.facts)
        .filter(|gpu| gpu.ids.known().is_some_and(Ids::is_unknown_gpu))
        .map(|gpu| unknown_model(ctx, gpu, flavour).evidence(SOURCE, line));
    [Generation::BeforeTuring, Generation::TuringToHopper, Generation::OpenOnly]
        .into_iter()
        .filter_map(|generation| {
            let is_of_generation =
                |gpu: &&PciDevice| Generation::of_device(gpu) == Some(generation);
            let gpus: Vec<String> = passthrough::own_gpus(ctx.facts)
                .filter(is_of_generation)
                .map(|gpu| words::device(ctx, gpu.bdf))
                .collect();
            (!gpus.is_empty())
                .then(|| judge(ctx, flavour, generation, &words::list(gpus)).evidence(SOURCE, line))
        })
        .chain(unlisted)
        .collect()
}

/// A GPU that no list has: the loaded modules drive it, or nobody knows.
fn unknown_model(ctx: &Ctx<'_>, gpu: &PciDevice, flavour: Flavour) -> Judgement {
    let subject = words::device(ctx, gpu.bdf);
    let is_driven = ctx.facts.driver.gpus.known().is_some_and(|gpus| gpus.contains_key(&gpu.bdf));
    match (is_driven, flavour) {
        (true, Flavour::Open) => Judgement::pass(
            subject,
            "Unknown model. The open kernel modules drive it: both memory paths for RDMA are possible, dma-buf and nvidia-peermem.",
        ),
        (true, Flavour::Proprietary) | (false, _) => Judgement::undetermined(
            subject,
            "Unknown model: which kernel modules drive it, and with which memory paths, is unknown.",
        )
        .needs("a release of gdr that lists it"),
    }
}

/// The last branch for Maxwell, Pascal and Volta.
const LAST_BEFORE_TURING: u32 = 580;
/// The first branch with open modules that a user can install.
const FIRST_OPEN: u32 = 515;

fn judge(ctx: &Ctx<'_>, flavour: Flavour, generation: Generation, gpus: &str) -> Judgement {
    let subject = gpus.to_owned();
    let driver = version::driver(ctx.facts);
    let branch = driver.present().and_then(|driver| version::branch(driver));
    let module = memory_path::peer_module(ctx);
    match (flavour, generation) {
        (Flavour::Open, Generation::BeforeTuring) => Judgement::broken(
            subject,
            "Open kernel modules do not drive it: GPUs before Turing (Maxwell, Pascal, Volta) need the proprietary ones.",
        )
        .weighing(Severity::Error)
        .advice(format!("Install the proprietary kernel modules; {module} is the memory path for RDMA on this GPU.")),
        (Flavour::Open, _) => Judgement::pass(
            subject,
            format!("Open kernel modules: both memory paths for RDMA are possible, dma-buf and {module}."),
        ),
        (Flavour::Proprietary, Generation::BeforeTuring) if branch > Some(LAST_BEFORE_TURING) => {
            Judgement::broken(
                subject,
                "No driver after branch 580 drives it: that is the last one for GPUs before Turing (Maxwell, Pascal, Volta).",
            )
            .weighing(Severity::Error)
            .advice("Install the proprietary kernel modules of the last branch that drives it: 580 for Maxwell, Pascal and Volta, 470 for Kepler.")
        }
        (Flavour::Proprietary, Generation::BeforeTuring) => Judgement::pass(
            subject,
            format!("Proprietary kernel modules, the only ones for GPUs before Turing: {module} is the memory path for RDMA."),
        ),
        (Flavour::Proprietary, Generation::TuringToHopper) => (if memory_path::peer_memory_is_open(ctx) { Judgement::info(
                subject,
                format!("Proprietary kernel modules: they export no dma-buf. {module} is the only memory path for RDMA, and it is open."),
            ) } else { Judgement::broken(
                subject,
                format!("Proprietary kernel modules: they export no dma-buf, so {module} is the only memory path for RDMA."),
            ) })
        .advice(match branch {
            Some(..FIRST_OPEN) => "Install driver 515 or later with the open kernel modules (package nvidia-open, or the -open flavour).",
            _ => "Install the open kernel modules of the same version (package nvidia-open, or the -open flavour).",
        }),
        (Flavour::Proprietary, Generation::OpenOnly) => Judgement::broken(
            subject,
            "Proprietary modules do not drive it: Grace Hopper, Blackwell and later need the open ones.",
        )
        .weighing(Severity::Error)
        .advice("Install the open kernel modules (package nvidia-open, or the -open flavour)."),
    }
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{
        Edit, GPU, assert_fix_says, bind, gpu, machine, only, set_device_id,
    };
    use crate::model::{Fact, Outcome};

    #[test]
    fn ignores_gpus_of_guests() {
        let mut facts = machine();
        facts.add(gpu("0000:05:00.0"));
        set_device_id(&mut facts, "0000:05:00.0", 0x1db4);
        bind(&mut facts, "0000:05:00.0", Some("vfio-pci"));
        let found = only("gpu.driver-flavour", &facts);
        assert_eq!((found.outcome, found.subject), (Outcome::Pass, format!("GPU0 ({GPU})")));
    }

    #[test]
    fn drivers_end_and_begin_with_branches() {
        let flavour = |id: u16, driver: &str, is_open: bool| {
            let mut facts = machine();
            if !is_open {
                facts.set_proprietary();
            }
            facts.driver.module_version = Fact::Known(Some(driver.to_owned()));
            set_device_id(&mut facts, GPU, id);
            only("gpu.driver-flavour", &facts)
        };
        // A V100.
        assert_eq!(flavour(0x1db4, "580.142", false).outcome, Outcome::Pass);
        let found = flavour(0x1db4, "590.48.01", false);
        assert_eq!(found.outcome, Outcome::Fail);
        assert_fix_says(&found, "580");
        // An A100.
        assert_fix_says(&flavour(0x20b0, "510.47.03", false), "515 or later");
        assert_fix_says(&flavour(0x20b0, "570.211.01", false), "same version");
    }

    #[test]
    fn unknown_model_needs_a_driver_that_lists_it() {
        let mut facts = machine();
        set_device_id(&mut facts, GPU, 0x3041);
        assert_eq!(only("gpu.driver-flavour", &facts).outcome, Outcome::Pass);
        facts.driver.gpus = Fact::Known(Default::default());
        assert_eq!(only("gpu.driver-flavour", &facts).outcome, Outcome::Unknown);
        facts.set_proprietary();
        assert_eq!(only("gpu.driver-flavour", &facts).outcome, Outcome::Unknown);
    }
}
