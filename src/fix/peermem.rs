//! peermem: loads the module that gives the RDMA stack the addresses of GPU memory, now and at boot.
//!
//! nvidia-peermem, part of the driver, is preferred to its predecessor nv_peer_mem; both register as a
//! client of the same name. gdr unloads no module that programs may use.

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, NoChange};
use super::modules;
use crate::check::{Ctx, Rule, ground};
use crate::model::{AtBoot, Fact, NicDriver, Operation};

pub const FIX: Fix = Fix {
    id: "peermem",
    about: "nvidia-peermem, through which NICs reach GPU memory, is loaded now and at boot, after the RDMA stack.",
    checks: &["peermem.loaded", "peermem.legacy", "peermem.boot"],
    requires: &[],
    desired,
};

const LIST: &str = "/etc/modules-load.d/gdr-peermem.conf";
const OPTIONS: &str = "/etc/modprobe.d/gdr-peermem.conf";
const OPENIBD: &str = "/etc/systemd/system/openibd.service.d/gdr-peermem.conf";
const OLD_CONF: &str = "/etc/infiniband/nv_peer_mem.conf";
const OLD: &str = "nv_peer_mem";
const NEW: &str = "nvidia-peermem";
/// The first driver branch with nvidia-peermem.
const FIRST: u32 = 470;

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    let module = match module(ctx) {
        Ok(module) => module,
        Err(why) => return DesiredState::none(why),
    };
    let mut desired = DesiredState::default();
    if let Some(why) = modules::kept_out(ctx, &mut desired, module) {
        return DesiredState::refused(why);
    }
    if ground::dma_buf_everywhere(ctx) {
        desired.warnings.push(format!(
            "dma-buf works for every NIC: only software that does not use it (ibv_reg_mr on a GPU pointer) needs {module}."
        ));
    }
    let peers = &ctx.facts.peer_memory;
    let both = peers.nvidia_peermem == Fact::Known(true) && peers.nv_peer_mem == Fact::Known(true);
    let old_is_loaded = module == NEW && peers.nv_peer_mem == Fact::Known(true);
    let parameter = module == NEW && needs_parameter(ctx);
    if parameter {
        desired.change(
            "Set the parameter that nvidia-peermem needs with MLNX_OFED 4.9.",
            ChangeTarget::file(
                OPTIONS,
                "# By 'gdr fix peermem': MLNX_OFED 4.9.\noptions nvidia-peermem peerdirect_support=1\n",
            ),
        );
    }
    if module == NEW {
        stop_nv_peer_mem(ctx, &mut desired);
    }
    if !old_is_loaded {
        modules::load(ctx, &mut desired, module);
    }
    boot(ctx, &mut desired, module);
    if old_is_loaded {
        desired.warnings.push(format!(
            "{OLD} is loaded, and gdr unloads no module that programs may use: {NEW} replaces it at the next boot, or with the \
             commands below."
        ));
        desired.afterwards.push(format!("Stop all programs that use RDMA, then: rmmod {OLD}"));
    }
    let reload = both || parameter && peers.nvidia_peermem == Fact::Known(true);
    match (old_is_loaded, reload) {
        (_, true) => desired.afterwards.push(format!(
            "rmmod nvidia_peermem && modprobe {NEW}, to register it again; or reboot."
        )),
        (true, false) => desired.afterwards.push(format!("modprobe {NEW}; or reboot.")),
        (false, false) => {}
    }
    if desired.changes.is_empty() {
        // The files are written already, but the user still has to finish.
        let left = std::mem::take(&mut desired.afterwards);
        desired.warnings.extend(left);
    }
    desired
}

fn module(ctx: &Ctx<'_>) -> Result<&'static str, NoChange> {
    if ground::in_container(ctx) {
        return refused(
            "This is a container, which uses the host's modules: run this on the host.",
        );
    }
    if let Fact::Unknown(why) = ctx.facts.rdma {
        return Err(NoChange::unread("/sys/class/infiniband", why));
    }
    if ground::rdma_nics(ctx.facts).next().is_none() {
        return refused(
            "There is no RDMA device. If there should be one, run 'gdr fix rdma-modules'.",
        );
    }
    let provider = |name: &str| {
        let has_driver =
            |nic| ground::nic_driver(ctx.facts, nic).known().is_some_and(|driver| driver == name);
        ground::rdma_nics(ctx.facts).all(has_driver)
    };
    if provider("efa") {
        return Ok(efa(ctx)?);
    }
    let of_first =
        ground::rdma_nics(ctx.facts).next().map(|nic| ground::nic_driver(ctx.facts, nic));
    if let Some(Fact::Known(driver)) = of_first
        && NicDriver::of(&driver).is_some_and(|known| !known.peer_memory)
        && provider(&driver)
    {
        return refused(format!(
            "The NICs' driver ({driver}) has no peer memory support: dma-buf is their only path to GPU memory (open kernel \
             modules, 515 or later)."
        ));
    }
    match ground::driver(ctx.facts) {
        Fact::Known(None) => {
            return refused(format!(
                "The NVIDIA driver, which provides {NEW}, is not loaded: see gpu.driver."
            ));
        }
        Fact::Known(Some(version))
            if ground::branch(&version).is_some_and(|branch| branch < FIRST) =>
        {
            return Ok(older(ctx)?);
        }
        _ => {}
    }
    match ground::buildable(ctx).into_iter().find(|found| found.rule == Rule::Broken) {
        None => Ok(NEW),
        Some(found) => {
            let advice = found.fix.and_then(|remedy| remedy.manual().advice.clone());
            refused(format!("{} {}", found.message, advice.unwrap_or_default()))
        }
    }
}

fn refused<T>(why: impl Into<String>) -> Result<T, NoChange> {
    Err(NoChange::Refused(why.into()))
}

fn efa(ctx: &Ctx<'_>) -> Result<&'static str, String> {
    match ctx.facts.module_files.find("efa_nv_peermem") {
        Fact::Known(None) => Err(format!(
            "There is no efa_nv_peermem.ko for {}: reinstall Amazon's EFA driver, or use dma-buf (open kernel modules).",
            modules::kernel(ctx)
        )),
        _ => Ok("efa_nv_peermem"),
    }
}

/// Drivers before 470 do not include the module.
fn older(ctx: &Ctx<'_>) -> Result<&'static str, String> {
    let loaded = ctx.facts.peer_memory.nv_peer_mem == Fact::Known(true);
    match (loaded, ctx.facts.module_files.find(OLD)) {
        (true, _) | (_, Fact::Known(Some(_))) => Ok(OLD),
        _ => Err(format!(
            "This driver is older than {FIRST} and has no {NEW}, and {OLD} is not installed: install driver {FIRST} or later, or \
             {OLD} 1.3 (package nvidia-peer-memory-dkms)."
        )),
    }
}

/// True if the RDMA stack is MLNX_OFED 4.9, which needs the module's parameter.
fn needs_parameter(ctx: &Ctx<'_>) -> bool {
    let ofed = ctx.facts.module_files.ofed.present();
    let is_set =
        ctx.facts.peer_memory.peerdirect_support.present().is_some_and(|value| value == "1");
    !is_set
        && ofed.is_some_and(|version| {
            version == "4.9" || version.starts_with("4.9-") || version.starts_with("4.9.")
        })
}

/// Stops nv_peer_mem from loading at boot, wherever it is configured.
fn stop_nv_peer_mem(ctx: &Ctx<'_>, desired: &mut DesiredState) {
    let places = ctx.facts.module_files.at_boot.known().map_or(&[][..], Vec::as_slice);
    for AtBoot { path, names } in
        places.iter().filter(|place| !ground::loads_module(NEW, &place.names))
    {
        // On Debian this is a link to /etc/modules.
        if path == "/etc/modules-load.d/modules.conf"
            && places.iter().any(|place| place.path == "/etc/modules")
        {
            continue;
        }
        if path == OLD_CONF {
            desired.change(
                format!("Stop the service of {OLD}, which conflicts with {NEW}, from loading it."),
                ChangeTarget::File {
                    path: path.clone(),
                    mode: 0o644,
                    content: Box::new(|text| {
                        Ok(lines(text, |line| {
                            (line == "ONBOOT=yes").then(|| "ONBOOT=no".to_owned())
                        }))
                    }),
                },
            );
        } else if path.starts_with("/etc/systemd/") {
            desired.run(
                format!("Disable {names}: {OLD} conflicts with {NEW}."),
                Operation::disable_unit(names),
            );
        } else if path.starts_with("/etc/") {
            let comment_out =
                |line: &str| line.replace('-', "_").starts_with(OLD).then(|| format!("# {line}"));
            desired.change(
                format!("Remove {OLD}, which conflicts with {NEW}, from the list."),
                ChangeTarget::File {
                    path: path.clone(),
                    mode: 0o644,
                    content: Box::new(move |text| Ok(lines(text, comment_out))),
                },
            );
        } else {
            desired.warnings.push(format!("{path} loads {OLD} at boot: remove its package."));
        }
    }
}

/// Changes some lines of a text and keeps the others byte for byte.
fn lines(text: Option<&str>, change: impl Fn(&str) -> Option<String>) -> String {
    let line = |line: &str| {
        let inner = line.trim();
        match change(inner) {
            Some(new) => line.replacen(inner, &new, 1),
            None => line.to_owned(),
        }
    };
    text.unwrap_or_default().split_inclusive('\n').map(line).collect()
}

/// Loads the module at boot, unless configured already, and whenever openibd has started its stack.
fn boot(ctx: &Ctx<'_>, desired: &mut DesiredState, module: &str) {
    let at_boot = ctx.facts.module_files.at_boot.known().map_or(&[][..], Vec::as_slice);
    let known = ["nvidia-peermem", "nv_peer_mem"].contains(&module);
    if !known || !at_boot.iter().any(|place| ground::loads_module(module, &place.names)) {
        // The module is a client of the RDMA stack, which has to be loaded first.
        modules::at_boot(
            desired,
            LIST,
            "peer memory, after the RDMA stack.",
            &["ib_core", "ib_uverbs", module],
        );
    }
    if ctx.facts.module_files.openibd == Fact::Known(true) && modules::may_have_systemd(ctx) {
        desired.change(
            format!("Load {module} whenever openibd starts: openibd unloads it with its stack."),
            ChangeTarget::file(
                OPENIBD,
                format!(
                    "# By 'gdr fix peermem'.\n[Service]\nExecStartPost=-/sbin/modprobe {module}\n"
                ),
            ),
        );
        desired.change("Reload systemd's units.", ChangeTarget::Run(Operation::ReloadUnits));
    }
}
