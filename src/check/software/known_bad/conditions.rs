//! The properties of a machine on which known faults depend.

use crate::check::gpu::is_by_driver;
use crate::check::version::{self, Generation};
use crate::check::{Ctx, memory_path, nics, passthrough};
use crate::model::{Area, Bdf, Fact, Ids, Missing, PciDevice, Why};
use crate::profile::{BadVersions, Condition, version_numbers};
use crate::topo::is_efa;

/// True if all conditions of a fault hold, false if one does not.
pub fn all_hold(ctx: &Ctx<'_>, bad: &BadVersions) -> Result<bool, Missing> {
    let mut all = Ok(true);
    for condition in &bad.when {
        match holds(ctx, *condition) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(missing) => all = Err(missing),
        }
    }
    all
}

fn holds(ctx: &Ctx<'_>, condition: Condition) -> Result<bool, Missing> {
    let facts = ctx.facts;
    match condition {
        Condition::RdmaNic => {
            facts.rdma.or_missing(Area::Sys, "/sys/class/infiniband")?;
            Ok(nics::rdma_nics(facts).next().is_some())
        }
        Condition::Efa => has_efa(ctx),
        Condition::EfaWithoutDmaBuf => {
            Ok(matches!(efa_dma_buf(ctx)?, memory_path::PathState::Closed(_)))
        }
        Condition::Driver555 => driver_since(ctx, 555),
        Condition::Driver580 => driver_since(ctx, 580),
        Condition::GpuBeforeTuring => {
            any_gpu(ctx, |ids| Generation::of(ids) == Some(Generation::BeforeTuring))
        }
        Condition::CoherentGpu => any_gpu(ctx, Ids::is_coherent_gpu),
        Condition::Cdmm => {
            if !any_gpu(ctx, Ids::is_coherent_gpu)? {
                return Ok(false);
            }
            let params =
                facts.driver.params.or_missing(Area::Proc, "/proc/driver/nvidia/params")?;
            Ok(params.as_ref().is_some_and(is_by_driver))
        }
        Condition::Nvlink => nvlink(ctx),
        Condition::Peermem => peermem(ctx),
        Condition::PeermemWithoutListedClient => {
            let clients = &facts.peer_memory.clients;
            let clients = clients.or_missing(Area::Sys, memory_path::CLIENTS)?;
            // The names that NCCL looks for (net_ib.cc of 2.21.5 and 2.22.3).
            let is_listed = clients
                .iter()
                .flatten()
                .any(|client| ["nv_mem", "nv_mem_nc", "nvidia-peermem"].contains(&client.as_str()));
            Ok(!is_listed && peermem(ctx)? && memory_path::peer_memory_alone(ctx)?)
        }
        Condition::OfedBefore55 => {
            let stack = &facts.rdma_stack;
            if !*stack.ofed.or_missing(Area::Files, "/usr/bin/ofed_info")? {
                return Ok(false);
            }
            let version =
                stack.mlx5_version.or_missing(Area::Sys, "/sys/module/mlx5_core/version")?;
            Ok(version.as_ref().is_some_and(|version| version_numbers(version) < vec![5, 5]))
        }
        Condition::UcxGdrcopy => {
            facts.software.libraries.or_missing(Area::Files, "/etc/ld.so.cache")?;
            let software = &facts.software;
            let has_plugin = software.usable("libucp.so.0").any(|library| {
                let plugins = library.plugins.iter().flatten();
                plugins.into_iter().any(|plugin| plugin.starts_with("libuct_cuda_gdrcopy"))
            });
            Ok(has_plugin && software.picked("libgdrapi.so.2").is_some())
        }
    }
}

fn driver_since(ctx: &Ctx<'_>, branch: u32) -> Result<bool, Missing> {
    let version = version::driver(ctx.facts);
    let version = version.or_missing(Area::Sys, "/sys/module/nvidia/version")?;
    Ok(version.as_deref().and_then(version::branch) >= Some(branch))
}

fn any_gpu(ctx: &Ctx<'_>, is: impl Fn(&Ids) -> bool) -> Result<bool, Missing> {
    ctx.facts.pci.or_missing(Area::Sys, "/sys/bus/pci/devices")?;
    Ok(passthrough::own_gpus(ctx.facts).any(|gpu| gpu.ids.known().is_some_and(&is)))
}

fn efa_functions<'a>(ctx: &'a Ctx<'_>) -> impl Iterator<Item = &'a PciDevice> {
    let places = nics::rdma_nics(ctx.facts).filter_map(|nic| nic.place.present());
    places.filter_map(|bdf: &Bdf| ctx.facts.device(*bdf)).filter(|function| is_efa(function))
}

fn has_efa(ctx: &Ctx<'_>) -> Result<bool, Missing> {
    ctx.facts.rdma.or_missing(Area::Sys, "/sys/class/infiniband")?;
    ctx.facts.pci.or_missing(Area::Sys, "/sys/bus/pci/devices")?;
    Ok(efa_functions(ctx).next().is_some())
}

fn efa_dma_buf(ctx: &Ctx<'_>) -> Result<memory_path::PathState, Missing> {
    match memory_path::dma_buf(ctx, &Fact::Known("efa".to_owned())) {
        memory_path::PathState::Unknown(why, area, source) => Err(Missing { why, area, source }),
        state => Ok(state),
    }
}

/// NVLinks between two GPUs matter.
fn nvlink(ctx: &Ctx<'_>) -> Result<bool, Missing> {
    ctx.facts.pci.or_missing(Area::Sys, "/sys/bus/pci/devices")?;
    if passthrough::own_gpus(ctx.facts).count() < 2 {
        return Ok(false);
    }
    let missing = |why| Missing::new(why, Area::Nvml, "NVML: NVLinks");
    let gpus = match (&ctx.facts.nvml, ctx.facts.nvml()) {
        (_, Some(nvml)) => &nvml.gpus,
        (Fact::Unknown(why), None) => return Err(missing(*why)),
        (Fact::Known(_), None) => return Err(missing(Why::NotCovered)),
    };
    let mut unread = None;
    for gpu in gpus {
        match &gpu.active_links {
            Fact::Known(links) if !links.is_empty() => return Ok(true),
            Fact::Known(_) => {}
            Fact::Unknown(why) => unread = Some(*why),
        }
    }
    unread.map_or(Ok(false), |why| Err(missing(why)))
}

fn peermem(ctx: &Ctx<'_>) -> Result<bool, Missing> {
    let peers = &ctx.facts.peer_memory;
    match (&peers.nvidia_peermem, &peers.nv_peer_mem) {
        (Fact::Known(true), _) | (_, Fact::Known(true)) => Ok(true),
        (Fact::Known(false), Fact::Known(false)) => Ok(false),
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => {
            Err(Missing::new(*why, Area::Sys, memory_path::MODULE))
        }
    }
}
