//! param.peer-mapping: CUDA may map a NIC's doorbell into the GPU.

use std::collections::BTreeMap;

use super::{PARAMS, loaded, next, registry_keys as keys};
use crate::check::{Check, Ctx, Hint, Judgement, Source, container, passthrough, words};
use crate::kmod::nvidia;
use crate::model::{ActionClass, Bdf, Fact, Process, Severity};

const KEY: &str = "PeerMappingOverride";

/// Permission of unprivileged processes to map a doorbell to a GPU; greater values need more steps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerMapping {
    /// Allowed by the loaded driver.
    Open,
    /// Allowed from the next load on, by the directive at this place.
    OpenNext(String),
    /// Not allowed.
    Shut,
}

impl PeerMapping {
    pub fn of(ctx: &Ctx<'_>, gpu: Bdf) -> Self {
        if let Some(params) = ctx.facts.driver.params.present() {
            let text = |name: &str| params.get(name).map_or("", String::as_str);
            if is_on(of(text("RegistryDwords"), text("RegistryDwordsPerDevice"), gpu)) {
                return Self::Open;
            }
        }
        match next::config(ctx, "driver") {
            Ok(config) => {
                let values = next::values(&config.load(nvidia::MODULE));
                next_load(&values, gpu).map_or(Self::Shut, Self::OpenNext)
            }
            Err(_) => Self::Shut,
        }
    }
}

/// Place of the directive that allows it at the next load.
fn next_load(values: &BTreeMap<String, next::Value<'_>>, gpu: Bdf) -> Option<String> {
    let text = |name: &str| values.get(name).map_or("", |value| value.text.as_str());
    let (all, each) = (text("RegistryDwords"), text("RegistryDwordsPerDevice"));
    let from = match keys::key_of_device(each, gpu, KEY) {
        Some(_) => "RegistryDwordsPerDevice",
        None => "RegistryDwords",
    };
    let value = values.get(from).filter(|_| is_on(of(all, each, gpu)))?;
    Some(next::place(value.from))
}

/// True if a process like this one may map a doorbell for every GPU.
pub fn doorbells_mapped(ctx: &Ctx<'_>) -> Fact<bool> {
    if let Fact::Unknown(why) = ctx.facts.driver.params {
        return Fact::Unknown(why);
    }
    let mut gpus = passthrough::own_gpus(ctx.facts);
    if gpus.all(|gpu| PeerMapping::of(ctx, gpu.bdf) == PeerMapping::Open) {
        return Fact::Known(true);
    }
    ctx.facts.process.capable(Process::CAP_SYS_ADMIN)
}

/// The advice for a denied peer mapping.
pub fn remedy(ctx: &Ctx<'_>, judgement: Judgement, found: &PeerMapping) -> Judgement {
    match found {
        PeerMapping::Open => judgement
            .advice("Read the NVRM lines of the kernel log: the driver rejects this mapping."),
        PeerMapping::OpenNext(place) => judgement.advice(format!(
            "Reload the nvidia module, or reboot: {place} sets {KEY} for its next load."
        )),
        PeerMapping::Shut => {
            let params = ctx.facts.driver.params.present();
            let all = params.and_then(|params| params.get("RegistryDwords"));
            let setting = setting(all.map_or("", String::as_str));
            if container::in_container(ctx) {
                judgement.fix("peer-mapping").advice(format!(
                    "On the machine itself, not in this container: {setting} Or give the container CAP_SYS_ADMIN in the \
                     machine's user namespace."
                ))
            } else {
                judgement.fix("peer-mapping").advice(setting)
            }
        }
    }
}

/// The key's value for a GPU; the per-device key takes precedence.
fn of(all: &str, each: &str, gpu: Bdf) -> Option<u32> {
    keys::key_of_device(each, gpu, KEY).or_else(|| keys::key(all, KEY))
}

/// Any value but 0 counts.
fn is_on(value: Option<u32>) -> bool {
    value.is_some_and(|value| value != 0)
}

/// How to set the key without losing other keys.
fn setting(all: &str) -> String {
    format!(
        "Write 'options nvidia NVreg_RegistryDwords=\"{}\"' to a file of /etc/modprobe.d (replacing any other \
         NVreg_RegistryDwords), then rebuild the initramfs and reload the driver. This allows peer mappings to every \
         user of the machine (CVE-2015-5053).",
        keys::merged(all, KEY, 1)
    )
}

pub const CHECK: Check = Check {
    id: "param.peer-mapping",
    rule: "A process without CAP_SYS_ADMIN may map a NIC's doorbell into the GPU.",
    sources: "/proc/driver/nvidia/params, /proc/self/status",
    severity: Severity::Warn,
    why: "With GPUDirect Async the GPU rings the NIC's doorbell. The driver lets only a process with \
        CAP_SYS_ADMIN map the doorbell, unless PeerMappingOverride=1; otherwise cuMemHostRegister with IOMEMORY returns 800.",
    remedy: "Set NVreg_RegistryDwords=\"PeerMappingOverride=1;\" and reload the module. It allows peer mappings to \
        every user (CVE-2015-5053).",
    action: ActionClass::Configure
        .drained("https://github.com/gpudirect/libgdsync/blob/v2.1/README.md"),
    references: &[
        "https://github.com/gpudirect/libgdsync/blob/v2.1/README.md",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/src/nvidia/arch/nvalloc/unix/src/osmemdesc.c",
        "https://nvidia.custhelp.com/app/answers/detail/a_id/3802",
    ],
    explained_by: &["gpu.driver"],
    reads: &[Source::Modules],
    hint: Some(Hint {
        cause: "The NVIDIA driver does not let a process map the NIC's doorbell into the GPU.",
        words: "doorbell=5 nvshmem=4 not-permitted=3 parameter=2 failure=1 container=1 slow=1 stall=1 missing=1",
    }),
    judge: peer_mapping,
    ..Check::DEFAULT
};

/// The driver requires CAP_SYS_ADMIN in the initial user namespace, unless `PeerMappingOverride` is set.
fn peer_mapping(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let params = match loaded(ctx.facts) {
        Ok(params) => params,
        Err(judgements) => return judgements,
    };
    let text = |name: &str| params.get(name).map_or("", String::as_str);
    let (all, each) = (text("RegistryDwords"), text("RegistryDwordsPerDevice"));
    let gpus: Vec<Bdf> = passthrough::own_gpus(ctx.facts).map(|gpu| gpu.bdf).collect();
    let single = gpus.iter().all(|gpu| keys::key_of_device(each, *gpu, KEY).is_none());
    let subjects: Vec<(String, Option<u32>)> = if single {
        vec![("driver".to_owned(), keys::key(all, KEY))]
    } else {
        gpus.iter().map(|gpu| (words::device(ctx, *gpu), of(all, each, *gpu))).collect()
    };
    subjects
        .into_iter()
        .map(|(subject, value)| {
            judge(ctx, subject, value, all)
                .evidence(format!("{PARAMS}: RegistryDwords"), all)
                .evidence(format!("{PARAMS}: RegistryDwordsPerDevice"), each)
        })
        .collect()
}

fn judge(ctx: &Ctx<'_>, subject: String, value: Option<u32>, all: &str) -> Judgement {
    if is_on(value) {
        return Judgement::pass(
            subject,
            "PeerMappingOverride is on: every process may map a NIC's doorbell to the GPU.",
        );
    }
    let judgement = match ctx.facts.process.capable(Process::CAP_SYS_ADMIN) {
        Fact::Known(true) => Judgement::info(
            subject,
            "PeerMappingOverride is off: this process may map a NIC's doorbell to the GPU because it has CAP_SYS_ADMIN, \
             others may not.",
        ),
        // If the capability is unknown, judge a process without it.
        Fact::Known(false) | Fact::Unknown(_) => Judgement::broken(
            subject,
            "PeerMappingOverride is off: a process without CAP_SYS_ADMIN in the initial user namespace cannot map a \
             NIC's doorbell to the GPU (error 800, not permitted), and GPUDirect Async falls back to the CPU.",
        ),
    };
    let capabilities = match ctx.facts.process.capabilities {
        Fact::Known(bits) => format!("{bits:016x}"),
        Fact::Unknown(why) => why.phrase().to_owned(),
    };
    judgement
        .evidence("/proc/self/status: CapEff", capabilities)
        .fix("peer-mapping")
        .advice(setting(all))
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{Edit, findings, gpu, machine, only, outcomes};
    use crate::model::{Fact, Facts, Outcome, Why};

    fn with(all: &str, each: &str) -> Facts {
        let mut facts = machine();
        facts.param("RegistryDwords", all);
        facts.param("RegistryDwordsPerDevice", each);
        facts
    }

    #[test]
    fn key_for_one_of_two_gpus() {
        let mut facts = with("", "pci=0000:03:00.0;PeerMappingOverride=1");
        facts.add(gpu("0000:05:00.0"));
        let found = findings("param.peer-mapping", &facts, &["async"]);
        assert_eq!(
            outcomes(&found),
            [("GPU0 (0000:03:00.0)", Outcome::Pass), ("GPU1 (0000:05:00.0)", Outcome::Fail)]
        );
    }

    #[test]
    fn needs_capability_in_initial_namespace() {
        let mut facts = with("", "");
        facts.process.capabilities = Fact::Known(1 << 21);
        let found = only("param.peer-mapping", &facts);
        assert_eq!(found.outcome, Outcome::Info);
        assert!(found.message.ends_with("others may not."));
        // The driver looks at the initial user namespace only.
        facts.process.initial_user_namespace = Fact::Known(false);
        assert_eq!(only("param.peer-mapping", &facts).outcome, Outcome::Warn);
        facts.process.capabilities = Fact::Unknown(Why::NotCovered);
        assert_eq!(only("param.peer-mapping", &facts).outcome, Outcome::Warn);
    }
}
