//! peermem.boot: what is loaded now is loaded again after a reboot, and after openibd takes the RDMA stack down.

use crate::check::memory_path;
use crate::check::{Ctx, Judgement, unknown_if, words};
use crate::model::{Fact, Severity};

const PLACES: &str =
    "/etc/modules-load.d, /etc/modules, /etc/infiniband/nv_peer_mem.conf, multi-user.target.wants";

/// Whether something of this machine loads the module at boot.
pub fn boot(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let peers = &ctx.facts.peer_memory;
    let unknown = unknown_if(
        &peers.nvidia_peermem,
        "machine",
        "/sys/module/nvidia_peermem",
    );
    if let Some(unknown) =
        unknown.or_else(|| unknown_if(&peers.nv_peer_mem, "machine", "/sys/module/nv_peer_mem"))
    {
        return vec![unknown];
    }
    let module = match (&peers.nvidia_peermem, &peers.nv_peer_mem) {
        (Fact::Known(true), _) => "nvidia-peermem",
        (_, Fact::Known(true)) => "nv_peer_mem",
        _ => {
            return vec![Judgement::skip(
                "machine",
                "No peer memory module is loaded.",
            )];
        }
    };
    let at_boot = match &ctx.facts.module_files.at_boot {
        Fact::Known(at_boot) => at_boot,
        Fact::Unknown(why) => return vec![Judgement::unknown(module, *why, PLACES)],
    };
    let places: Vec<_> = at_boot
        .iter()
        .filter(|place| suits(module, &place.names))
        .collect();
    if !places.is_empty() {
        let by = words::list(places.iter().map(|place| &place.path));
        let pass = Judgement::pass(module, format!("{module} is loaded at boot, by {by}."));
        return vec![
            places
                .iter()
                .fold(pass, |pass, place| pass.evidence(&place.path, &place.names)),
        ];
    }
    // Something loaded it that leaves no mark here: a script, a unit of a site's own. Where dma-buf is open for every
    // NIC, or loading it is somebody else's business, nothing is at risk.
    let container = ctx
        .facts
        .platform
        .container_marks
        .known()
        .is_some_and(|marks| !marks.is_empty());
    let weight = match container || memory_path::dma_buf_everywhere(ctx) {
        true => Severity::Info,
        false => Severity::Warn,
    };
    let message = format!(
        "{module} is loaded, and nothing that gdr knows loads it at boot: after a reboot or a restart of openibd the NICs may lose access to GPU memory."
    );
    vec![
        Judgement::broken(module, message)
            .weighing(weight)
            .evidence(PLACES, format!("no word of {module}"))
            .fix("peermem")
            .command(format!("echo {module} > /etc/modules-load.d/{module}.conf")),
    ]
}

/// Whether what a place of the boot names loads this module.
pub fn suits(module: &str, names: &str) -> bool {
    let names = names.replace('-', "_");
    let old = names.starts_with("nv_peer_mem") || names == "ONBOOT=yes";
    match module {
        "nvidia-peermem" => !old,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{machine, only};
    use crate::model::{AtBoot, Facts, Outcome, Why};

    /// Loaded, under the proprietary modules: dma-buf is closed.
    fn closed() -> Facts {
        let mut facts = machine();
        facts.driver.version_line = Fact::Known(Some(
            "NVIDIA UNIX x86_64 Kernel Module  535.129.03".to_owned(),
        ));
        facts
    }

    fn at_boot(path: &str, names: &str) -> Fact<Vec<AtBoot>> {
        Fact::Known(vec![AtBoot {
            path: path.to_owned(),
            names: names.to_owned(),
        }])
    }

    #[test]
    fn a_module_that_nothing_loads_again_warns_where_it_is_needed() {
        let mut facts = closed();
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Pass);
        facts.module_files.at_boot = Fact::Known(Vec::new());
        let found = only("peermem.boot", &facts);
        assert_eq!(found.outcome, Outcome::Warn);
        assert!(
            found
                .fix
                .expect("a fix")
                .text()
                .contains("/etc/modules-load.d/nvidia-peermem.conf")
        );
        facts.driver = machine().driver;
        assert_eq!(
            only("peermem.boot", &facts).outcome,
            Outcome::Info,
            "dma-buf is open"
        );
    }

    #[test]
    fn the_old_modules_list_does_not_load_the_new_one() {
        let mut facts = closed();
        facts.module_files.at_boot = at_boot("/etc/infiniband/nv_peer_mem.conf", "ONBOOT=yes");
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Warn);
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Skip);
        facts.peer_memory.nv_peer_mem = Fact::Known(true);
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Pass);
        facts.module_files.at_boot = Fact::Unknown(Why::NotCovered);
        assert_eq!(only("peermem.boot", &facts).outcome, Outcome::Unknown);
        assert_eq!(
            only("peermem.boot", &Facts::default()).outcome,
            Outcome::Unknown
        );
    }
}
