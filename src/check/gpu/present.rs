//! gpu.present: at least one GPU is available to the NVIDIA driver.

use std::collections::BTreeMap;

use crate::check::{
    Check, Ctx, Hint, Judgement, Source, container, unidentified, unknown_if, words,
};
use crate::model::{ActionClass, Area, Bdf, Fact, PciDevice, Severity, Why, is_passthrough_driver};
use crate::output::shell_word;

use super::node;

const SOURCE: &str = "/sys/bus/pci/devices";

pub const CHECK: Check = Check {
    id: "gpu.present",
    rule: "At least one NVIDIA GPU is on the PCI bus, and the NVIDIA driver drives it; \
        PCI bus, driver and NVML list the same GPUs.",
    sources: "/sys/bus/pci/devices, /proc/driver/nvidia/gpus, NVML",
    severity: Severity::Error,
    why: "GPUDirect begins with a GPU that the NVIDIA driver drives. A GPU bound to vfio-pci belongs to a \
        virtual machine; one bound to nouveau or nova cannot run CUDA. A GPU that one \
        list lacks has fallen off the bus or did not start.",
    remedy: "Reseat the GPU, pass it to this machine or container, or bind it to the NVIDIA driver.",
    action: ActionClass::Reboot
        .drained("https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html")
        .then(ActionClass::ReseatGpu),
    references: &["https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"],
    explained_by: &["gpu.nouveau", "gpu.driver", "platform.container"],
    reads: &[Source::Nvml],
    hint: Some(Hint {
        cause: "A GPU of this machine is not on the bus, or the driver does not list it.",
        words: "gpu-lost=6 no-device=2 missing=1 driver=1 aer=1 failure=1 container=-1 rdma=-2",
    }),
    finds_gpus: true,
    judge: present,
    ..Check::DEFAULT
};

fn present(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if let Some(unknown) = unknown_if(&ctx.facts.pci, "machine", Area::Sys, SOURCE) {
        return vec![unknown];
    }
    let off_the_bus = off_the_bus(ctx);
    let gpus: Vec<&PciDevice> = ctx.facts.gpus().collect();
    if gpus.is_empty() && off_the_bus.is_empty() {
        return vec![none(ctx)];
    }
    let all_passed_through = gpus.iter().all(|gpu| gpu.passthrough_driver().is_some());
    let on_the_bus = gpus.iter().map(|gpu| one(ctx, gpu, all_passed_through));
    let unidentified = unidentified(ctx.facts);
    on_the_bus.chain(off_the_bus).chain(unidentified).collect()
}

/// GPUs that the driver knows, but that are gone from the PCI bus.
fn off_the_bus(ctx: &Ctx<'_>) -> Vec<Judgement> {
    if ctx.facts.partial {
        return Vec::new();
    }
    let nvml = ctx.facts.nvml().into_iter().flat_map(|nvml| &nvml.gpus);
    let driver = ctx.facts.driver.gpus.known().into_iter().flatten();
    let known: BTreeMap<Bdf, &str> = driver
        .map(|(bdf, _)| (*bdf, "/proc/driver/nvidia/gpus"))
        .chain(nvml.map(|gpu| (gpu.bdf, "NVML")))
        .collect();
    known
        .into_iter()
        .filter(|(bdf, _)| ctx.facts.device(*bdf).is_none())
        .map(|(bdf, source)| {
            Judgement::broken(
                bdf.to_string(),
                format!(
                    "GPU {bdf} is not on the PCI bus any more: the NVIDIA driver still lists it."
                ),
            )
            .evidence(source, bdf.to_string())
            .evidence(format!("{SOURCE}/{bdf}"), "not there")
            .advice(LOST)
        })
        .collect()
}

const LOST: &str = "Read the NVRM and Xid lines of the kernel log (Xid 79: the GPU has fallen off the bus). A reset \
                    (nvidia-smi -r) or a power cycle brings a lost GPU back.";

/// A GPU that the driver is bound to, but that NVML does not list. NVML lists only the GPUs that a container or a job may use.
fn not_listed(ctx: &Ctx<'_>, gpu: &PciDevice, subject: &str, what: &str) -> Option<Judgement> {
    let nvml = ctx.facts.nvml()?;
    if nvml.partial
        || !nvml.unreachable.is_empty()
        || nvml.gpus.iter().any(|listed| listed.bdf == gpu.bdf)
    {
        return None;
    }
    let count = match nvml.gpus.len() {
        1 => "1 GPU".to_owned(),
        count => format!("{count} GPUs"),
    };
    let message = format!("{what}: bound to nvidia, but not among the {count} that NVML lists");
    let excluded = ctx.facts.driver.params.present();
    if let Some(list) =
        excluded.and_then(|params| params.get("ExcludedGpus")).filter(|list| !list.is_empty())
    {
        return Some(
            Judgement::info(subject, format!("{message}: NVreg_ExcludedGpus may exclude it."))
                .evidence("/proc/driver/nvidia/params", format!("ExcludedGpus: {list}")),
        );
    }
    let job = ctx.facts.environment.known();
    let is_in_job = job.is_some_and(|variables| variables.contains_key("SLURM_JOB_ID"));
    let judgement = if container::in_container(ctx) || is_in_job {
        Judgement::info(subject, format!("{message}: this container or job does not have it."))
    } else {
        match node::problem(ctx, gpu.bdf) {
            Some(problem) => problem
                .advise(Judgement::broken(subject, format!("{message}: {}.", problem.text()))),
            None => Judgement::broken(
                subject,
                format!("{message}: the driver lost it, or could not start it."),
            )
            .advice(LOST),
        }
    };
    Some(judgement.evidence("NVML", count))
}

fn none(ctx: &Ctx<'_>) -> Judgement {
    if let Some(unidentified) = unidentified(ctx.facts) {
        return unidentified;
    }
    if ctx.facts.partial {
        return Judgement::unlisted();
    }
    let functions = ctx.facts.devices().len();
    Judgement::broken("machine", "There is no NVIDIA GPU on the PCI bus.")
        .evidence(
            SOURCE,
            format!("{functions} functions, none of class 03xx by vendor 10de"),
        )
        .advice(
            "lspci -d 10de: shows what the bus sees; if it shows nothing, reseat the GPU, or pass it \
                 through to this guest.",
        )
}

fn one(ctx: &Ctx<'_>, gpu: &PciDevice, all_passed_through: bool) -> Judgement {
    let subject = words::device(ctx, gpu.bdf);
    let source = format!("{SOURCE}/{}/driver", gpu.bdf);
    let what = format!("{}, {}", model(ctx, gpu), words::numa(&gpu.numa_node));
    let driver = match bound(ctx, gpu) {
        Fact::Known(driver) => driver,
        Fact::Unknown(why) => return Judgement::unknown(subject, why, Area::Sys, &source),
    };
    let mut unbind = None;
    let (broken, message, advice) = match driver.as_deref() {
        Some("nvidia") => {
            return not_listed(ctx, gpu, &subject, &what)
                .unwrap_or_else(|| Judgement::pass(subject, format!("{what}.")))
                .evidence(source, "nvidia");
        }
        Some(name) if is_passthrough_driver(name) => (
            all_passed_through,
            format!("{what}: bound to {name}, so it is for a virtual machine, not for this host."),
            format!("To use it here, unbind it from {name} and bind it to nvidia."),
        ),
        Some(name) if name == "nouveau" || name.to_ascii_lowercase().starts_with("nova") => (
            true,
            format!("{what}: bound to {name}, which has no GPUDirect; the NVIDIA driver cannot bind it."),
            format!("Write 'blacklist {name}' to a file of /etc/modprobe.d, rebuild the initramfs and reboot."),
        ),
        Some(name) => {
            let file = shell_word(&format!("/sys/bus/pci/drivers/{name}/unbind"));
            unbind = Some(format!("echo {} > {file} && modprobe nvidia", gpu.bdf));
            (
                true,
                format!("{what}: bound to {name}, not to the NVIDIA driver."),
                format!("Unbind it from {name}, and load the NVIDIA driver."),
            )
        }
        None => (
            true,
            format!("{what}: no driver is bound to it."),
            "Load nvidia (modprobe nvidia), then read the NVRM lines of the kernel log: they show why the driver did not bind it.".to_owned(),
        ),
    };
    let judgement = if broken {
        Judgement::broken(subject, message)
            .action(ActionClass::Configure.drained(CHECK.action.source))
    } else {
        Judgement::info(subject, message)
    };
    let judgement =
        judgement.evidence(source, driver.as_deref().unwrap_or("no such link")).advice(advice);
    match unbind {
        Some(unbind) => judgement.command(unbind),
        None => judgement,
    }
}

/// The driver bound to a GPU: by the link, else by the list of the NVIDIA driver.
pub fn bound(ctx: &Ctx<'_>, gpu: &PciDevice) -> Fact<Option<String>> {
    let link = match &gpu.attributes {
        Some(attributes) => attributes.driver.clone(),
        None => Fact::Unknown(Why::NotCovered),
    };
    let listed = ctx.facts.driver.gpus.known().is_some_and(|gpus| gpus.contains_key(&gpu.bdf));
    match link {
        Fact::Unknown(_) if listed => Fact::Known(Some("nvidia".to_owned())),
        link => link,
    }
}

fn model(ctx: &Ctx<'_>, gpu: &PciDevice) -> String {
    let row = ctx.topology.row_at(gpu.bdf).and_then(|row| ctx.topology.rows.get(row));
    match (row.filter(|row| !row.label.is_empty()), gpu.ids.known()) {
        (Some(row), _) => row.label.clone(),
        (None, Some(ids)) => ids.to_string(),
        (None, None) => "a GPU".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{Edit, GPU, bind, findings, gpu, machine, only};
    use crate::model::{Facts, Outcome};

    #[test]
    fn no_gpu_and_unread_bus() {
        let mut facts = machine();
        facts.pci = Fact::Known(Vec::new());
        assert_eq!(only("gpu.present", &facts).outcome, Outcome::Fail);
        facts.partial = true;
        assert_eq!(only("gpu.present", &facts).outcome, Outcome::Unknown, "the text may omit it");
        let mut facts = machine();
        for device in facts.devices_mut() {
            device.ids = Fact::Unknown(Why::Denied);
        }
        assert_eq!(only("gpu.present", &facts).outcome, Outcome::Unknown);
    }

    #[test]
    fn other_drivers() {
        let with = |driver: Option<&str>| {
            let mut facts = machine();
            facts.driver.gpus = Fact::Known(Default::default());
            bind(&mut facts, GPU, driver);
            facts
        };
        for driver in [Some("nouveau"), Some("NovaCore"), Some("simpledrm"), None, Some("vfio-pci")]
        {
            let found = only("gpu.present", &with(driver));
            assert_eq!(found.outcome, Outcome::Fail, "{driver:?}");
            assert!(found.fix.is_some() && found.message.contains(driver.unwrap_or("no driver")));
        }
        let mut facts = with(Some("vfio-pci"));
        facts.add(gpu("0000:05:00.0"));
        facts.nvml = Fact::Unknown(Why::NotCovered);
        assert_eq!(outcomes(&facts), [Outcome::Info, Outcome::Pass]);
    }

    fn outcomes(facts: &Facts) -> Vec<Outcome> {
        let found = findings("gpu.present", facts, &[]);
        found.iter().map(|finding| finding.outcome).collect()
    }

    #[test]
    fn vanished_gpus_fail() {
        // On the bus and bound, but NVML lists one GPU only.
        let mut facts = machine();
        facts.add(gpu("0000:05:00.0"));
        assert_eq!(outcomes(&facts), [Outcome::Pass, Outcome::Fail]);
        let found = findings("gpu.present", &facts, &[]);
        assert!(
            found[1].message.contains("not among the 1 GPU that NVML lists"),
            "{}",
            found[1].message
        );
        // A job or a container may have been given one GPU only; a GPU may be excluded.
        facts.environment = Fact::Known([("SLURM_JOB_ID".to_owned(), "7".to_owned())].into());
        assert_eq!(outcomes(&facts), [Outcome::Pass, Outcome::Info]);
        facts.environment = Fact::Known(Default::default());
        facts.param("ExcludedGpus", "0000:05:00.0");
        assert_eq!(outcomes(&facts), [Outcome::Pass, Outcome::Info]);
        // NVML and the driver list a GPU that is not on the bus.
        let mut facts = machine();
        facts.devices_mut().retain(|device| device.bdf.to_string() != GPU);
        facts.add(gpu("0000:05:00.0"));
        let found = findings("gpu.present", &facts, &[]);
        let lost = found.last().expect("a finding");
        assert_eq!((lost.outcome, lost.subject.as_str()), (Outcome::Fail, GPU));
        assert!(lost.message.contains("not on the PCI bus any more"));
        // Text of lspci may omit it.
        facts.partial = true;
        assert!(findings("gpu.present", &facts, &[]).iter().all(|found| found.subject != GPU));
    }

    #[test]
    fn driver_list_replaces_link() {
        let mut facts = machine();
        facts.device_mut(GPU).attributes = None;
        assert_eq!(only("gpu.present", &facts).outcome, Outcome::Pass);
        facts.driver.gpus = Fact::Unknown(Why::NotCovered);
        assert_eq!(only("gpu.present", &facts).outcome, Outcome::Unknown);
    }
}
