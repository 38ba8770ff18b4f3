//! param.peer-mapping: may CUDA map a NIC's doorbell into the GPU?

use super::{PARAMS, registry_keys as keys};
use crate::check::{Ctx, Judgement, passthrough, words};
use crate::model::{Bdf, Fact, Process};

const KEY: &str = "PeerMappingOverride";

/// The driver allows it to CAP_SYS_ADMIN in the initial user namespace, and with `PeerMappingOverride` to everybody.
pub fn peer_mapping(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let params = match &ctx.facts.driver.params {
        Fact::Known(Some(params)) => params,
        Fact::Known(None) => return vec![Judgement::skip("driver", "The NVIDIA driver is not loaded.")],
        Fact::Unknown(why) => return vec![Judgement::unknown("driver", *why, PARAMS)],
    };
    let text = |name: &str| params.get(name).map_or("", String::as_str);
    let (all, each) = (text("RegistryDwords"), text("RegistryDwordsPerDevice"));
    // Any value but 0 counts; a GPU's own key goes before the common one.
    let common = keys::key(all, KEY);
    let of = |gpu: Bdf| keys::key_of_device(each, gpu, KEY);
    let gpus: Vec<Bdf> = passthrough::own_gpus(ctx.facts).map(|gpu| gpu.bdf).collect();
    let single = gpus.iter().all(|gpu| of(*gpu).is_none());
    let subjects: Vec<(String, Option<u32>)> = match single {
        true => vec![("driver".to_owned(), common)],
        false => gpus
            .iter()
            .map(|gpu| (words::device(ctx, *gpu), of(*gpu).or(common)))
            .collect(),
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
    if value.is_some_and(|value| value != 0) {
        return Judgement::pass(
            subject,
            "PeerMappingOverride is on: every process may map a NIC's doorbell to the GPU.",
        );
    }
    let dwords = keys::merged(all, KEY, 1);
    let fix = format!(
        "in a file of /etc/modprobe.d: options nvidia NVreg_RegistryDwords=\"{dwords}\" (in place of any other \
         NVreg_RegistryDwords), then rebuild the initramfs and reload the driver; this opens peer mappings to every \
         user of the machine (CVE-2015-5053)"
    );
    let judgement = match ctx.facts.process.capable(Process::CAP_SYS_ADMIN) {
        Fact::Known(true) => Judgement::info(
            subject,
            "PeerMappingOverride is off: this process may map a NIC's doorbell to the GPU because it has CAP_SYS_ADMIN, \
             others may not.",
        ),
        // Without a process to speak of, the rule is that of all who lack the capability.
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
        .fix("peer-mapping", fix)
}

#[cfg(test)]
mod tests {
    use crate::check::testing::{Edit, findings, gpu, machine, only};
    use crate::model::{Fact, Facts, Outcome, Why};

    fn with(all: &str, each: &str) -> Facts {
        let mut facts = machine();
        facts.param("RegistryDwords", all);
        facts.param("RegistryDwordsPerDevice", each);
        facts
    }

    #[test]
    fn either_string_opens_it() {
        for (all, each) in [
            ("peermappingoverride=0x1", ""),
            ("PeerMappingOverride=2", ""),
            ("", "pci=0000:03:00.0;PeerMappingOverride=1"),
            ("PeerMappingOverride=0", "pci=03:00;PeerMappingOverride=1"),
        ] {
            assert_eq!(
                only("param.peer-mapping", &with(all, each)).outcome,
                Outcome::Pass,
                "{all} {each}"
            );
        }
        for (all, each) in [
            ("", ""),
            ("PeerMappingOverride=1=1", ""),
            ("", "pci=0000:04:00.0;PeerMappingOverride=1"),
            ("PeerMappingOverride=1", "pci=0000:03:00.0;PeerMappingOverride=0"),
        ] {
            assert_eq!(
                only("param.peer-mapping", &with(all, each)).outcome,
                Outcome::Warn,
                "{all} {each}"
            );
        }
    }

    #[test]
    fn a_key_for_one_gpu_leaves_the_other() {
        let mut facts = with("", "pci=0000:03:00.0;PeerMappingOverride=1");
        facts.add(gpu("0000:05:00.0"));
        let found = findings("param.peer-mapping", &facts, &["async"]);
        let outcomes: Vec<_> = found.iter().map(|f| (f.subject.as_str(), f.outcome)).collect();
        assert_eq!(
            outcomes,
            [
                ("GPU0 (0000:03:00.0)", Outcome::Pass),
                ("GPU1 (0000:05:00.0)", Outcome::Fail)
            ]
        );
    }

    #[test]
    fn the_fix_keeps_what_is_there_and_warns() {
        let fix = only("param.peer-mapping", &with("RMForceP2PType=1", ""))
            .fix
            .expect("a fix");
        assert_eq!(fix.id, "peer-mapping");
        assert!(
            fix.command
                .contains("NVreg_RegistryDwords=\"RMForceP2PType=1;PeerMappingOverride=1;\"")
        );
        assert!(fix.command.contains("CVE-2015-5053"));
    }

    #[test]
    fn a_privileged_process_may_and_others_may_not() {
        let mut facts = with("", "");
        facts.process.capabilities = Fact::Known(1 << 21);
        let found = only("param.peer-mapping", &facts);
        assert_eq!(found.outcome, Outcome::Info);
        assert!(found.message.ends_with("others may not."));
        // Root of a container's own user namespace is nobody to the driver.
        facts.process.initial_user_namespace = Fact::Known(false);
        assert_eq!(only("param.peer-mapping", &facts).outcome, Outcome::Warn);
        facts.process.capabilities = Fact::Unknown(Why::NotCovered);
        assert_eq!(only("param.peer-mapping", &facts).outcome, Outcome::Warn);
    }

    #[test]
    fn without_parameters_it_is_skipped_or_unknown() {
        let mut facts = machine();
        facts.driver.params = Fact::Known(None);
        assert_eq!(only("param.peer-mapping", &facts).outcome, Outcome::Skip);
        facts.driver.params = Fact::Unknown(Why::Denied);
        assert_eq!(only("param.peer-mapping", &facts).outcome, Outcome::Unknown);
    }
}
