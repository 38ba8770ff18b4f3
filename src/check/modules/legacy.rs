//! peermem.legacy: nv_peer_mem, the predecessor of nvidia-peermem, matches the RDMA stack.
//!
//! nv_peer_mem 1.2 and later need fix 2696789 of MLNX_OFED (release notes of 5.4-3.0.3.0 and 5.5-1.0.3.2); 1.1 is the last
//! for 4.9 LTS. With another stack a killed program may deadlock the node.

use crate::check::{Check, Ctx, Judgement, Source, unknown_if, version};
use crate::model::{ActionClass, Area, Fact, Severity};

const MODULE: &str = "/sys/module/nv_peer_mem";
const OFED: &str = "/sys/module/mlx5_core/version";
/// Version of the kernel's own mlx5_core, in kernels that have one.
const INBOX: &str = "5.0-0";
/// The first driver branch with nvidia-peermem.
const SUCCESSOR: u32 = 470;

pub const CHECK: Check = Check {
    id: "peermem.legacy",
    rule: "Only one of nv_peer_mem and nvidia-peermem is loaded, and it matches the RDMA stack.",
    sources: "/sys/module/nv_peer_mem, /sys/module/nvidia_peermem, /sys/module/mlx5_core/version",
    severity: Severity::Warn,
    why: "Both modules register under the same name in the RDMA stack. nv_peer_mem with an \
        RDMA stack that it was not made for may deadlock the node when a program ends.",
    remedy: "With driver 470 or later use nvidia-peermem and remove nv_peer_mem; with an older \
        driver use nv_peer_mem 1.3 on MLNX_OFED 5.4-3.0.3.0, 5.5-1.0.3.2 or later.",
    action: ActionClass::Install
        .drained("https://github.com/Mellanox/nv_peer_memory/blob/1.3-0/README.md"),
    references: &[
        "https://docs.nvidia.com/networking/display/MLNXOFEDv543030/Bug+Fixes+in+This+Version",
        "https://docs.nvidia.com/networking/display/mlnxofedv551032/bug+fixes+in+this+version",
        "https://github.com/Mellanox/nv_peer_memory/blob/1.3-0/README.md",
        "https://github.com/NVIDIA/open-gpu-kernel-modules/blob/580.65.06/kernel-open/nvidia-peermem/nvidia-peermem.c",
    ],
    reads: &[Source::Modules],
    judge: legacy,
    ..Check::DEFAULT
};

/// Judges the loaded module, or both.
fn legacy(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let peers = &ctx.facts.peer_memory;
    let unknown = unknown_if(&peers.nv_peer_mem, "nv_peer_mem", Area::Sys, MODULE);
    if let Some(unknown) = unknown.or_else(|| {
        unknown_if(&peers.nvidia_peermem, "nv_peer_mem", Area::Sys, "/sys/module/nvidia_peermem")
    }) {
        let loaded = [&peers.nv_peer_mem, &peers.nvidia_peermem];
        let one_at_most = loaded.contains(&&Fact::Known(false));
        // Two would be an error.
        return vec![if one_at_most { unknown } else { unknown.weighing(Severity::Error) }];
    }
    let new = peers.nvidia_peermem == Fact::Known(true);
    vec![match (peers.nv_peer_mem == Fact::Known(true), new) {
        (false, false) => Judgement::skip("machine", "Neither nv_peer_mem nor nvidia-peermem is loaded."),
        (false, true) => successor(ctx),
        (true, true) => Judgement::broken(
            "nv_peer_mem",
            "nv_peer_mem and nvidia-peermem are both loaded: both register under one name, and only one gets GPU memory.",
        )
        .weighing(Severity::Error)
        .evidence(MODULE, "loaded")
        .evidence("/sys/module/nvidia_peermem", "loaded")
        .fix("peermem").command("modprobe -r nv_peer_mem && modprobe -r nvidia-peermem && modprobe nvidia-peermem").advice("Remove the package of nv_peer_mem, or it is loaded again."),
        (true, false) => old(ctx),
    }]
}

/// nvidia-peermem alone; with MLNX_OFED 4.9 LTS it needs a parameter.
fn successor(ctx: &Ctx<'_>) -> Judgement {
    let ofed = ctx.facts.module_files.ofed.present();
    let parameter = ctx.facts.peer_memory.peerdirect_support.present();
    let lts = ofed.is_some_and(|ofed| numbers(ofed).starts_with(&[4, 9]));
    let parameter_is = parameter.map_or("not there", String::as_str);
    let judgement = if lts && parameter_is != "1" {
        Judgement::broken(
            "nvidia-peermem",
            "With MLNX_OFED 4.9 nvidia-peermem needs its parameter peerdirect_support=1.",
        )
        .fix("peermem")
        .advice(
            "Add 'options nvidia-peermem peerdirect_support=1' to a file of /etc/modprobe.d, and load \
                 the module again.",
        )
    } else {
        Judgement::pass("nvidia-peermem", "nvidia-peermem is loaded, and nv_peer_mem is not.")
    };
    let judgement = judgement.evidence(MODULE, "not loaded");
    match ofed {
        Some(ofed) => judgement
            .evidence(OFED, ofed)
            .evidence("/sys/module/nvidia_peermem/parameters/peerdirect_support", parameter_is),
        None => judgement,
    }
}

fn old(ctx: &Ctx<'_>) -> Judgement {
    let version = match &ctx.facts.peer_memory.nv_peer_mem_version {
        Fact::Known(Some(version)) => version.as_str(),
        Fact::Known(None) => "of unknown version",
        Fact::Unknown(why) => {
            return Judgement::unknown(
                "nv_peer_mem",
                *why,
                Area::Sys,
                "/sys/module/nv_peer_mem/version",
            );
        }
    };
    let ofed = match &ctx.facts.module_files.ofed {
        Fact::Known(ofed) => ofed.as_deref().filter(|version| *version != INBOX),
        Fact::Unknown(why) => return Judgement::unknown("nv_peer_mem", *why, Area::Sys, OFED),
    };
    let newer = numbers(version).as_slice() >= [1, 2].as_slice();
    let stack = ofed.map(numbers);
    let judgement = match stack.as_deref() {
        Some(stack) if newer && !has_fix(stack) => Judgement::broken(
            "nv_peer_mem",
            format!(
                "nv_peer_mem {version} needs MLNX_OFED with fix 2696789 (5.4-3.0.3.0, 5.5-1.0.3.2 or later): without it, \
                 ending a program may deadlock the node."
            ),
        )
        .advice("Update MLNX_OFED (DOCA-OFED)."),
        Some(stack) if !newer && stack >= [5].as_slice() => Judgement::broken(
            "nv_peer_mem",
            format!(
                "nv_peer_mem {version} belongs to MLNX_OFED 4.9 LTS: with a newer stack, ending a program may deadlock the \
                 node."
            ),
        )
        .fix("peermem").command("modprobe -r nv_peer_mem && modprobe nvidia-peermem").advice("This needs driver 470 or later; with an older one install nv_peer_mem 1.3."),
        _ => Judgement::info("nv_peer_mem", format!("nv_peer_mem {version} is loaded; NVIDIA no longer maintains it.")),
    };
    let branch = version::driver(ctx.facts).present().and_then(|version| version::branch(version));
    let judgement = match branch {
        Some(SUCCESSOR..) if judgement.fix.is_none() => judgement
            .fix("peermem")
            .command("modprobe -r nv_peer_mem && modprobe nvidia-peermem")
            .advice("This driver brings nvidia-peermem."),
        _ => judgement,
    };
    judgement
        .evidence("/sys/module/nv_peer_mem/version", version)
        .evidence(OFED, ofed.unwrap_or("no version: not MLNX_OFED"))
}

/// `5.4-3.0.3` is 5, 4, 3, 0, 3.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split(|c: char| !c.is_ascii_digit());
    parts.map_while(|part| part.parse().ok()).collect()
}

/// True from 5.4-3.0.3, from 5.5-1.0.3, and in all later releases.
fn has_fix(stack: &[u32]) -> bool {
    match stack {
        [5, 4, rest @ ..] => rest >= [3, 0, 3].as_slice(),
        stack => stack >= [5, 5, 1, 0, 3].as_slice(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{assert_says, machine, only};
    use crate::model::{Facts, Outcome, Why};

    fn old(version: &str, ofed: &str) -> Facts {
        let mut facts = machine();
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        facts.peer_memory.nv_peer_mem = Fact::Known(true);
        facts.peer_memory.nv_peer_mem_version = Fact::Known(Some(version.to_owned()));
        facts.module_files.ofed = Fact::Known(Some(ofed.to_owned()));
        facts
    }

    #[test]
    fn version_must_match_stack() {
        for (version, ofed, outcome, word) in [
            ("1.1-0", "4.9-7.1.0", Outcome::Info, "no longer maintains"),
            ("1.1-0", "5.8-1.1.2", Outcome::Warn, "belongs to MLNX_OFED 4.9"),
            ("1.3-0", "5.4-1.0.3", Outcome::Warn, "2696789"),
            ("1.3-0", "5.4-3.0.3", Outcome::Info, "no longer"),
            ("1.2-0", "5.5-1.0.3", Outcome::Info, "no longer"),
            ("1.2-0", "5.3-1.0.0", Outcome::Warn, "2696789"),
            ("1.3-0", "24.10-1.1.4", Outcome::Info, "no longer"),
            // The kernel's own stack.
            ("1.1-0", "5.0-0", Outcome::Info, "no longer"),
        ] {
            let found = only("peermem.legacy", &old(version, ofed));
            assert_eq!(found.outcome, outcome, "{version} with {ofed}");
            assert_says(&found, word);
            assert!(found.fix.is_some(), "driver 580 brings the successor");
        }
    }

    #[test]
    fn nvidia_peermem_needs_parameter_with_old_stack() {
        let mut facts = machine();
        assert_eq!(only("peermem.legacy", &facts).outcome, Outcome::Pass);
        facts.module_files.ofed = Fact::Known(Some("4.9-7.1.0".to_owned()));
        assert_eq!(only("peermem.legacy", &facts).outcome, Outcome::Warn);
        facts.peer_memory.peerdirect_support = Fact::Known(Some("1".to_owned()));
        assert_eq!(only("peermem.legacy", &facts).outcome, Outcome::Pass);
        facts.peer_memory.nvidia_peermem = Fact::Known(false);
        assert_eq!(only("peermem.legacy", &facts).outcome, Outcome::Skip);
        facts.peer_memory.nv_peer_mem = Fact::Unknown(Why::Denied);
        assert_eq!(only("peermem.legacy", &facts).outcome, Outcome::Unknown);
    }
}
