//! gdrdrv.node: the device node of gdrcopy's kernel module.

use crate::check::gpu::reading;
use crate::check::version::{self, Flavour};
use crate::check::{Check, Ctx, Hint, Judgement, Source};
use crate::model::{ActionClass, Area, Fact, NodeState, Severity, Why};
use crate::profile::version_numbers;

const NODE: &str = "/dev/gdrdrv";
const MODULE: &str = "/sys/module/gdrdrv/version";
/// Exists since gdrdrv 2.5.
const PARAMS: &str = "/proc/driver/gdrdrv/params";

pub const CHECK: Check = Check {
    id: "gdrdrv.node",
    rule: "The device node of gdrcopy's kernel module exists, has the right device number and \
        can be opened; the module matches the driver. gdrcopy 2.6 works without it where CUDA is 13.3 or later.",
    sources: "/dev/gdrdrv, /proc/devices, /proc/driver/gdrdrv/params, /sys/module/gdrdrv/version",
    severity: Severity::Info,
    why: "NVIDIA's libgdrapi maps GPU memory through /dev/gdrdrv. If the node is missing, \
        stale or closed, gdr_open fails; NCCL and UCX then work without it. gdr's own \
        library needs no node.",
    remedy: "Load gdrdrv and create its node, or use gdr's libgdrapi.so.2.",
    action: ActionClass::Configure.running("https://github.com/NVIDIA/gdrcopy/blob/v2.6/README.md"),
    references: &[
        "https://github.com/NVIDIA/gdrcopy/blob/v2.6/CHANGELOG.md",
        "https://github.com/NVIDIA/gdrcopy/blob/v2.6/src/gdrdrv/gdrdrv.c",
    ],
    explained_by: &["gpu.driver", "platform.container"],
    reads: &[Source::Software, Source::Cuda],
    hint: Some(Hint {
        cause: "The kernel module of gdrcopy is not loaded, not built for this driver, or its node is not accessible.",
        words: "gdrcopy=6 kernel-module=1 missing=2 failure=1 invalid=1 container=1 build=2 unsupported=1 mismatch=1 \
            not-permitted=1 integrated-gpu=-2",
    }),
    judge: gdrdrv,
    ..Check::DEFAULT
};

/// The node exists, has the module's major number, and can be opened. gdrcopy's library needs it.
fn gdrdrv(ctx: &Ctx<'_>) -> Vec<Judgement> {
    let node = ctx.facts.gdrdrv.node.as_ref().map(|node| &node.state);
    let state = match node {
        Some(Fact::Known(Some(state))) => state,
        Some(Fact::Known(None)) => return vec![absent(ctx)],
        Some(Fact::Unknown(why)) => {
            return vec![Judgement::unknown(NODE, *why, Area::Devices, NODE)];
        }
        None => {
            return vec![Judgement::unknown(NODE, Why::NotCovered, Area::Devices, NODE)];
        }
    };
    vec![judge(ctx, state).evidence(NODE, describe(state))]
}

fn absent(ctx: &Ctx<'_>) -> Judgement {
    let majors = majors(ctx);
    let judgement = match majors.known().and_then(|majors| majors.first()) {
        Some(major) => Judgement::broken(NODE, "gdrdrv is loaded, but its node is missing.")
            .evidence("/proc/devices", format!("{major} gdrdrv"))
            .fix("gdrdrv-node").command(format!("mknod -m 0666 {NODE} c {major} 0")).advice(format!("In a container, start it with --device={NODE}.")),
        None if falls_back(ctx) => Judgement::info(
            NODE,
            "gdrdrv is not installed: NVIDIA's libgdrapi 2.6 falls back to mappings of dma-bufs (CUDA 13.3) on GPUs that support them; \
             gdr's needs neither.",
        ),
        None => Judgement::broken(
            NODE,
            "gdrdrv is not installed: NVIDIA's libgdrapi needs it (gdr's does not: mapping.backend, --live).",
        )
        .command("modprobe gdrdrv").advice("Install gdrcopy's kernel module first (package gdrdrv-dkms)."),
    };
    judgement.evidence(NODE, "not there")
}

/// True if the libgdrapi of this machine works without gdrdrv (README.md and src/gdrapi.c of gdrcopy 2.6, "DMA-BUF mmap backend").
fn falls_back(ctx: &Ctx<'_>) -> bool {
    const CUDA: i32 = 13_030;
    let library = ctx.facts.software.picked("libgdrapi.so.2");
    let version = library.and_then(|library| library.version.as_deref());
    let driver = reading::cuda(ctx).ok().and_then(|cuda| cuda.driver_version.known());
    version.is_some_and(|version| version_numbers(version) >= vec![2, 6])
        && driver.is_some_and(|driver| *driver >= CUDA)
}

fn judge(ctx: &Ctx<'_>, state: &NodeState) -> Judgement {
    let majors = match majors(ctx) {
        Fact::Known(majors) => majors,
        Fact::Unknown(why) => return Judgement::unknown(NODE, why, Area::Proc, "/proc/devices"),
    };
    let Some(major) = majors.first() else {
        return Judgement::broken(NODE, "Node left over: gdrdrv is not loaded.")
            .evidence("/proc/devices", "no gdrdrv")
            .command("modprobe gdrdrv")
            .advice(
                "If its major number has changed, create the node again (gdr fix gdrdrv-node).",
            );
    };
    if !state.character || !majors.contains(&state.major) {
        let major_is = state.major;
        let message =
            format!("Major number {major_is}, gdrdrv has {major}: the node opens another driver.");
        return Judgement::broken(NODE, message)
            .evidence("/proc/devices", format!("{major} gdrdrv"))
            .fix("gdrdrv-node")
            .command(format!("rm {NODE} && mknod -m 0666 {NODE} c {major} 0"));
    }
    match usable(state) {
        Fact::Known(true) => {}
        Fact::Known(false) => {
            return Judgement::broken(
                NODE,
                "gdrdrv is loaded, but this user may not open its node.",
            )
            .fix("gdrdrv-node")
            .command(format!("chmod 0666 {NODE}"));
        }
        Fact::Unknown(why) => {
            return Judgement::unknown(NODE, why, Area::Devices, "access to /dev/gdrdrv");
        }
    }
    if let Some(judgement) = wrong_flavour(ctx) {
        return judgement;
    }
    let version = ctx.facts.gdrdrv.version.present().or_else(|| param(ctx, "Version"));
    match (version, &ctx.facts.gdrdrv.version) {
        (Some(version), _) => {
            let pass = Judgement::pass(NODE, format!("gdrdrv {version} is loaded and opens."))
                .evidence(MODULE, version);
            let shown = ["Built for NVIDIA driver flavor", "Use persistent mapping"];
            shown.iter().fold(pass, |pass, name| match param(ctx, name) {
                Some(value) => pass.evidence(format!("{PARAMS}: {name}"), value),
                None => pass,
            })
        }
        (None, Fact::Unknown(why)) => Judgement::unknown(NODE, *why, Area::Sys, MODULE),
        (None, Fact::Known(_)) => {
            Judgement::pass(NODE, "gdrdrv is loaded and opens; the module has no version.")
                .evidence(MODULE, "no version")
        }
    }
}

fn param<'a>(ctx: &'a Ctx<'_>, name: &str) -> Option<&'a String> {
    ctx.facts.gdrdrv.params.present()?.get(name)
}

/// A module built for the other driver flavour may not pin memory.
fn wrong_flavour(ctx: &Ctx<'_>) -> Option<Judgement> {
    let built = match &ctx.facts.gdrdrv.params {
        Fact::Known(params) => params.as_ref()?.get("Built for NVIDIA driver flavor")?,
        Fact::Unknown(why) => return Some(Judgement::unknown(NODE, *why, Area::Proc, PARAMS)),
    };
    let source = "/proc/driver/nvidia/version";
    let wanted = match version::flavour(ctx.facts) {
        Fact::Known(Some(Flavour::Open)) => "opensource",
        Fact::Known(Some(Flavour::Proprietary)) => "proprietary",
        Fact::Known(None) => return None,
        Fact::Unknown(why) => return Some(Judgement::unknown(NODE, why, Area::Proc, source)),
    };
    (["opensource", "proprietary"].contains(&built.as_str()) && built != wanted).then(|| {
        let message = format!(
            "gdrdrv was built for the {built} driver modules, and the {wanted} ones are loaded: it may fail to pin GPU memory."
        );
        Judgement::broken(NODE, message)
            .evidence(format!("{PARAMS}: Built for NVIDIA driver flavor"), built)
            .evidence("/proc/driver/nvidia/version", wanted)
            .advice(
                "Build gdrdrv again with this driver's sources (dkms: remove and install gdrdrv again), \
                 and reload it.",
            )
    })
}

fn majors(ctx: &Ctx<'_>) -> Fact<Vec<u32>> {
    let devices = ctx.facts.kernel.char_devices.as_ref();
    devices.map(|devices| devices.get("gdrdrv").cloned().unwrap_or_default())
}

/// True if this process may open the node; for a recorded machine, if every user may.
fn usable(state: &NodeState) -> Fact<bool> {
    match state.usable {
        Fact::Unknown(_) if state.mode & 0o006 == 0o006 => Fact::Known(true),
        ref usable => usable.clone(),
    }
}

fn describe(state: &NodeState) -> String {
    let kind = if state.character { "character device" } else { "no character device" };
    format!("{kind} {}:{}, mode {:04o}", state.major, state.minor, state.mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::testing::{
        Edit, assert_fix_says, assert_says, findings, machine, node, only, with_libraries,
    };
    use crate::model::{CudaOutcome, Facts, Found, Library, Outcome};

    fn with(change: impl FnOnce(&mut NodeState)) -> Facts {
        let mut facts = machine();
        let mut file = node(NODE, 240);
        if let Fact::Known(Some(state)) = &mut file.state {
            change(state);
        }
        facts.gdrdrv.node = Some(file);
        facts
    }

    #[test]
    fn usable_node_passes() {
        assert_eq!(only("gdrdrv.node", &machine()).message, "gdrdrv 2.5 is loaded and opens.");
        let recorded = with(|node| node.usable = Fact::Unknown(Why::NotCovered));
        assert_eq!(only("gdrdrv.node", &recorded).outcome, Outcome::Pass, "mode 0666");
    }

    #[test]
    fn reports_each_fault() {
        let mut unloaded = machine();
        unloaded.kernel.char_devices = Fact::Known(Default::default());
        let mut missing = machine();
        missing.gdrdrv.node =
            Some(crate::model::NodeFile { path: NODE.to_owned(), state: Fact::Known(None) });
        let mut absent = missing.clone();
        absent.kernel.char_devices = Fact::Known(Default::default());
        for (facts, word, fix) in [
            (with(|node| node.major = 239), "Major number 239, gdrdrv has 240", "c 240 0"),
            (with(|node| node.character = false), "Major number 240", "rm /dev/gdrdrv"),
            (with(|node| node.usable = Fact::Known(false)), "may not open", "chmod 0666"),
            (unloaded, "left over", "modprobe gdrdrv"),
            (missing, "node is missing", "c 240 0"),
            (absent, "gdrdrv is not installed", "gdrdrv-dkms"),
        ] {
            let found = only("gdrdrv.node", &facts);
            assert_eq!(found.outcome, Outcome::Info);
            assert_says(&found, word);
            assert_fix_says(&found, fix);
            assert_eq!(findings("gdrdrv.node", &facts, &["gdrcopy"])[0].outcome, Outcome::Warn);
        }
    }

    #[test]
    fn gdrcopy_2_6_falls_back_to_dma_buf() {
        let absent = |library: &str, cuda: i32| {
            let mut facts = with_libraries(vec![Library {
                name: "libgdrapi.so.2".to_owned(),
                path: "/usr/lib/libgdrapi.so.2".to_owned(),
                version: Some(library.to_owned()),
                found: Found::Cache,
                plugins: None,
                words: Fact::Known(Vec::new()),
            }]);
            facts.gdrdrv.node =
                Some(crate::model::NodeFile { path: NODE.to_owned(), state: Fact::Known(None) });
            facts.kernel.char_devices = Fact::Known(Default::default());
            if let Fact::Known(CudaOutcome::Read(read)) = &mut facts.cuda {
                read.driver_version = Fact::Known(cuda);
            }
            findings("gdrdrv.node", &facts, &["gdrcopy"])[0].clone()
        };
        let found = absent("2.6", 13_030);
        assert_eq!(found.outcome, Outcome::Info);
        assert_says(&found, "falls back");
        assert_eq!(absent("2.5", 13_030).outcome, Outcome::Warn);
        assert_eq!(absent("2.6", 13_020).outcome, Outcome::Warn);
    }

    #[test]
    fn module_of_wrong_flavour_warns() {
        let mut facts = machine();
        if let Fact::Known(Some(params)) = &mut facts.gdrdrv.params {
            params.insert("Built for NVIDIA driver flavor".to_owned(), "proprietary".to_owned());
        }
        let found = &findings("gdrdrv.node", &facts, &["gdrcopy"])[0];
        assert_eq!(found.outcome, Outcome::Warn);
        assert_says(found, "built for the proprietary");
        facts.set_proprietary();
        assert_eq!(only("gdrdrv.node", &facts).outcome, Outcome::Pass);
        // gdrdrv before 2.5 has no such file.
        facts.gdrdrv.params = Fact::Known(None);
        assert_eq!(only("gdrdrv.node", &facts).outcome, Outcome::Pass);
    }

    #[test]
    fn unreadable_facts_are_unknown() {
        let closed =
            with(|node| (node.usable, node.mode) = (Fact::Unknown(Why::NotCovered), 0o600));
        assert_eq!(only("gdrdrv.node", &closed).outcome, Outcome::Unknown);
        let mut facts = machine();
        facts.kernel.char_devices = Fact::Unknown(Why::Denied);
        assert_eq!(only("gdrdrv.node", &facts).outcome, Outcome::Unknown);
    }
}
