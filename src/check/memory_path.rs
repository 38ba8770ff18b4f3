//! The memory paths between a NIC and GPU memory, nvidia-peermem and dma-buf, judged from files.

use crate::check::version::{self, Flavour};
use crate::check::{Ctx, nics};
use crate::model::{Area, Dmabuf, Fact, Ids, Missing, NicDriver, RdmaDevice, Why};

pub const MODULE: &str = "/sys/module/nvidia_peermem";
/// Where the RDMA stack lists its clients.
pub const CLIENTS: &str = "/sys/kernel/mm/memory_peers";

/// State of a memory path.
pub enum PathState {
    /// It works, according to these facts.
    Open(String),
    /// It does not work, for this reason.
    Closed(String),
    /// Why the state is unknown, and the missing source with its area.
    Unknown(Why, Area, String),
}

impl PathState {
    fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

/// Both memory paths of each NIC: nvidia-peermem's and dma-buf's.
fn paths(ctx: &Ctx<'_>) -> Vec<(PathState, PathState)> {
    let state = |nic: &RdmaDevice| {
        let provider = nics::driver(ctx.facts, nic);
        (peer_memory(ctx, nic, &provider), dma_buf(ctx, &provider))
    };
    nics::rdma_nics(ctx.facts).map(state).collect()
}

/// The module beside dma-buf by which this machine's NICs register GPU memory: Amazon's if all of them are EFAs, whose driver does not
/// use nvidia-peermem (amzn-drivers, efa_linux_3.1.0, kernel/linux/efa/src/efa_nvmem_impl.h).
pub fn peer_module(ctx: &Ctx<'_>) -> &'static str {
    let mut drivers = nics::rdma_nics(ctx.facts).map(|nic| nics::driver(ctx.facts, nic)).peekable();
    let is_efa = drivers.peek().is_some()
        && drivers.all(|driver| driver.known().is_some_and(|name| name == "efa"));
    if is_efa { "efa_nv_peermem" } else { "nvidia-peermem" }
}

/// True if peer memory works: the module is a client of the RDMA stack, or works for a NIC that needs another one.
pub fn peer_memory_is_open(ctx: &Ctx<'_>) -> bool {
    peer_memory_module(ctx).is_open() || paths(ctx).iter().any(|(peer, _)| peer.is_open())
}

/// True if dma-buf works for every NIC, so that only software without dma-buf needs nvidia-peermem.
pub fn dma_buf_everywhere(ctx: &Ctx<'_>) -> bool {
    let paths = paths(ctx);
    !paths.is_empty() && paths.iter().all(|(_, dma_buf)| dma_buf.is_open())
}

/// True if dma-buf works for a NIC, and nvidia-peermem for no NIC.
pub fn dma_buf_alone(ctx: &Ctx<'_>) -> Result<bool, Missing> {
    let swapped = paths(ctx).into_iter().map(|(peer, dma_buf)| (dma_buf, peer));
    works_alone(swapped.collect())
}

/// True if nvidia-peermem works for a NIC, and dma-buf for no NIC.
pub fn peer_memory_alone(ctx: &Ctx<'_>) -> Result<bool, Missing> {
    works_alone(paths(ctx))
}

/// True if the first of the two paths works for a NIC, and the second for none.
fn works_alone(paths: Vec<(PathState, PathState)>) -> Result<bool, Missing> {
    if paths.iter().any(|(_, second)| second.is_open())
        || paths.iter().all(|(first, _)| first.is_closed())
    {
        return Ok(false);
    }
    let works = paths.iter().any(|(first, _)| first.is_open());
    let mut missing = None;
    for (first, second) in paths {
        match (first, second) {
            (_, PathState::Unknown(why, area, source)) => {
                return Err(Missing { why, area, source });
            }
            (PathState::Unknown(why, area, source), _) if !works => {
                missing.get_or_insert(Missing { why, area, source });
            }
            _ => {}
        }
    }
    missing.map_or(Ok(true), Err)
}

/// The nvidia-peermem memory path of a NIC with this driver.
pub fn peer_memory(ctx: &Ctx<'_>, nic: &RdmaDevice, provider: &Fact<String>) -> PathState {
    let function = nic.place.present().and_then(|bdf| ctx.facts.device(*bdf));
    match provider {
        Fact::Known(name) if name == "efa" => efa_peer_memory(ctx),
        Fact::Known(name) if !knows_peer_memory(name) => {
            PathState::Closed("this NIC's driver does not know it".to_owned())
        }
        Fact::Known(_) => peer_memory_module(ctx),
        // mlx4 and mlx5, the drivers of NVIDIA's NICs, know it.
        Fact::Unknown(_)
            if function.is_some_and(|it| it.ids.known().is_some_and(Ids::is_nvidia_nic)) =>
        {
            peer_memory_module(ctx)
        }
        Fact::Unknown(why) => match (peer_memory_module(ctx), efa_peer_memory(ctx)) {
            // An EFA needs another module, and some drivers know neither.
            (PathState::Open(_), _) | (_, PathState::Open(_)) => {
                PathState::Unknown(*why, Area::Sys, "the NIC's driver".to_owned())
            }
            (state, _) => state,
        },
    }
}

/// nvidia-peermem, judged by its traces in the RDMA stack.
pub fn peer_memory_module(ctx: &Ctx<'_>) -> PathState {
    let closed = |why: &str| PathState::Closed(why.to_owned());
    let peers = &ctx.facts.peer_memory;
    match (&peers.nvidia_peermem, &peers.nv_peer_mem) {
        (Fact::Known(false), Fact::Known(false)) => return closed("not loaded"),
        (Fact::Known(true), _) | (_, Fact::Known(true)) => {}
        (Fact::Unknown(why), _) | (_, Fact::Unknown(why)) => {
            return PathState::Unknown(*why, Area::Sys, MODULE.to_owned());
        }
    }
    match &peers.clients {
        Fact::Known(Some(clients)) => {
            match clients.iter().find(|name| *name == "nv_mem" || *name == "nv_mem_nc") {
                Some(client) => PathState::Open(format!("loaded, client {client}")),
                None => closed("loaded, but not a client of the RDMA stack"),
            }
        }
        Fact::Known(None) => by_users(ctx),
        Fact::Unknown(why) => PathState::Unknown(*why, Area::Sys, CLIENTS.to_owned()),
    }
}

/// True if the NIC's driver registers memory that a peer memory client resolves.
pub fn knows_peer_memory(provider: &str) -> bool {
    NicDriver::of(provider).is_none_or(|driver| driver.peer_memory)
}

/// Fallback if the stack lists no clients: nvidia_peermem uses ib_core or ib_uverbs only if it was
/// built with their symbols.
fn by_users(ctx: &Ctx<'_>) -> PathState {
    let modules = match &ctx.facts.kernel.modules {
        Fact::Known(modules) => modules,
        Fact::Unknown(why) => {
            return PathState::Unknown(*why, Area::Proc, "/proc/modules".to_owned());
        }
    };
    let uses = |module: &str| {
        let found = modules.iter().find(|found| found.name == module)?;
        Some(found.users.iter().any(|user| user == "nvidia_peermem" || user == "nv_peer_mem"))
    };
    match (uses("ib_core"), uses("ib_uverbs"), uses("nvidia")) {
        (Some(true), _, _) | (_, Some(true), _) => {
            PathState::Open("loaded, and a user of the RDMA stack".to_owned())
        }
        // It always uses nvidia, so a list without nvidia names no users. Built-ins are not listed.
        (None, None, _) | (_, _, Some(false) | None) => PathState::Unknown(
            Why::NotCovered,
            Area::Proc,
            "/proc/modules: users of ib_core and ib_uverbs".to_owned(),
        ),
        _ => PathState::Closed("loaded, but built without the RDMA stack's symbols".to_owned()),
    }
}

fn efa_peer_memory(ctx: &Ctx<'_>) -> PathState {
    match &ctx.facts.kernel.modules {
        Fact::Known(modules) => {
            if modules.iter().any(|module| module.name == "efa_nv_peermem") {
                PathState::Open("efa_nv_peermem is loaded".to_owned())
            } else {
                PathState::Closed("efa_nv_peermem is not loaded".to_owned())
            }
        }
        Fact::Unknown(why) => PathState::Unknown(*why, Area::Proc, "/proc/modules".to_owned()),
    }
}

/// First kernel in which a driver imports dma-buf: mlx5's.
const FIRST_KERNEL: (u32, u32) = (5, 12);

/// The dma-buf memory path: the open modules of 515 and later export, and a driver with
/// `reg_user_mr_dmabuf` imports.
pub fn dma_buf(ctx: &Ctx<'_>, provider: &Fact<String>) -> PathState {
    match version::flavour(ctx.facts) {
        Fact::Known(Some(Flavour::Open)) => {}
        Fact::Known(_) => {
            return PathState::Closed("the proprietary kernel modules do not export it".to_owned());
        }
        Fact::Unknown(why) => {
            return PathState::Unknown(why, Area::Proc, "/proc/driver/nvidia/version".to_owned());
        }
    }
    match version::driver(ctx.facts) {
        Fact::Known(version) => match version.as_deref().and_then(version::branch) {
            Some(515..) => {}
            Some(branch) => return PathState::Closed(format!("driver {branch} is older than 515")),
            None => {
                return PathState::Unknown(
                    Why::Broken,
                    Area::Sys,
                    "/sys/module/nvidia/version".to_owned(),
                );
            }
        },
        Fact::Unknown(why) => {
            return PathState::Unknown(why, Area::Sys, "/sys/module/nvidia/version".to_owned());
        }
    }
    let release = match &ctx.facts.kernel.release {
        Fact::Known(release) => release,
        Fact::Unknown(why) => {
            return PathState::Unknown(*why, Area::Proc, "/proc/sys/kernel/osrelease".to_owned());
        }
    };
    let kernel = match version::kernel(release) {
        Some(numbers) if numbers >= FIRST_KERNEL => numbers,
        Some(_) => return PathState::Closed(format!("kernel {release} is older than 5.12")),
        None => {
            return PathState::Unknown(
                Why::Broken,
                Area::Proc,
                "/proc/sys/kernel/osrelease".to_owned(),
            );
        }
    };
    match provider {
        Fact::Known(name) => match NicDriver::of(name).map(|driver| driver.dmabuf) {
            // A distribution's kernel may have a newer driver.
            Some(Dmabuf::Since { kernel: first, .. }) if kernel < first => PathState::Unknown(
                Why::NotCovered,
                Area::Files,
                format!("whether {name} of kernel {release} supports dma-buf"),
            ),
            Some(Dmabuf::Since { .. }) => {
                PathState::Open(format!("open modules, {name} supports it"))
            }
            Some(Dmabuf::Never) => PathState::Closed(format!("{name} does not take it")),
            None => PathState::Unknown(
                Why::NotCovered,
                Area::Files,
                format!("whether {name} supports dma-buf"),
            ),
        },
        Fact::Unknown(why) => PathState::Unknown(*why, Area::Sys, "the NIC's driver".to_owned()),
    }
}
