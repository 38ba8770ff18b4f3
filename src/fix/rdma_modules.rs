//! rdma-modules: loads ib_uverbs and the modules that make this machine's NICs RDMA devices.

use std::collections::BTreeSet;

use super::desired::{DesiredState, Fix, FixRequest};
use super::devices;
use super::modules;
use crate::check::{Ctx, ground};
use crate::model::{Fact, Ids, ModuleFiles, PciDevice};

pub const FIX: Fix = Fix {
    id: "rdma-modules",
    about: "ib_uverbs and the NIC's RDMA module are loaded, now and at boot.",
    checks: &["rdma.modules"],
    requires: &[],
    desired,
};

const LIST: &str = "/etc/modules-load.d/gdr-rdma.conf";
/// Makes the uverbs device nodes.
const VERBS: &str = "ib_uverbs";

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    if ground::in_container(ctx) {
        return DesiredState::refused(
            "This is a container, which uses the host's modules: run this on the host, and start the container with \
             --device=/dev/infiniband.",
        );
    }
    if let Err(why) = devices::all_known(ctx) {
        return DesiredState::none(why);
    }
    let providers = providers(ctx);
    if providers.is_empty() && !has_rdma(ctx) {
        return DesiredState::refused("There is no NIC whose driver supports RDMA.");
    }
    let mut desired = DesiredState::default();
    let needed: Vec<&str> = [VERBS].into_iter().chain(providers.iter().copied()).collect();
    for module in &needed {
        if let Some(why) =
            modules::kept_out(ctx, &mut desired, module).or_else(|| missing(ctx, module))
        {
            return DesiredState::refused(why);
        }
    }
    for module in &needed {
        modules::load(ctx, &mut desired, module);
    }
    modules::at_boot(&mut desired, LIST, "the RDMA modules of this machine's NICs.", &needed);
    desired
}

fn has_rdma(ctx: &Ctx<'_>) -> bool {
    ctx.facts.rdma.known().is_some_and(|devices| !devices.is_empty())
}

/// The RDMA modules of the NICs.
fn providers(ctx: &Ctx<'_>) -> BTreeSet<&'static str> {
    let provider = |driver: &str| {
        let found = ModuleFiles::PROVIDERS.iter().find(|(name, _)| *name == driver);
        found.map(|(_, provider)| *provider)
    };
    let devices = ctx.facts.rdma.known().into_iter().flatten();
    let there =
        devices.filter_map(|device| provider(ground::nic_driver(ctx.facts, device).known()?));
    // All NVIDIA NICs support RDMA; those of other vendors count only if they are RDMA devices already.
    let nics = ctx.facts.devices().iter().filter(|device| is_nvidia_nic(device));
    there.chain(nics.filter_map(|nic| provider(&driver(nic)))).collect()
}

fn is_nvidia_nic(device: &PciDevice) -> bool {
    let ids = device.ids.known();
    ids.is_some_and(|ids| ids.vendor == Ids::MELLANOX && ids.base_class() == 0x02)
}

/// The driver of an NVIDIA NIC: the bound one, or the one for its generation.
fn driver(nic: &PciDevice) -> String {
    let bound = nic.attributes.as_ref().and_then(|attributes| attributes.driver.present());
    match (bound, nic.ids.known()) {
        (Some(driver), _) => driver.clone(),
        // ConnectX-3 and older are below Connect-IB (1011).
        (None, Some(ids)) if ids.device.is_some_and(|device| device < 0x1011) => {
            "mlx4_core".to_owned()
        }
        _ => "mlx5_core".to_owned(),
    }
}

/// An error for a module that is neither loaded nor on disk; built-in modules need neither.
fn missing(ctx: &Ctx<'_>, module: &str) -> Option<String> {
    let loaded = ctx.facts.kernel.modules.known()?.iter().any(|loaded| loaded.name == module);
    let absent = matches!(ctx.facts.module_files.find(module), Fact::Known(None));
    (absent && !loaded).then(|| {
        format!(
            "There is no {module}.ko for {}: install the remaining modules (Ubuntu: linux-modules-extra-$(uname -r), Fedora and \
             RHEL: kernel-modules-extra or kernel-modules), or DOCA-OFED for this kernel.",
            modules::kernel(ctx)
        )
    })
}
