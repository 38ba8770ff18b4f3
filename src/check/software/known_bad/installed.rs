//! The components of this machine whose versions are known to have had faults.

use crate::check::{Ctx, version};
use crate::model::{Area, Fact, Library, Missing};
use crate::profile::Component;

/// An installed component.
pub struct Installed {
    pub subject: String,
    /// None if nothing says it.
    pub version: Option<String>,
    /// What says it.
    pub source: String,
}

/// Every copy of a component that programs may use; empty if it is not installed.
pub fn installed(ctx: &Ctx<'_>, component: Component) -> Result<Vec<Installed>, Missing> {
    match component {
        Component::Driver => {
            module(component, &version::driver(ctx.facts), "/sys/module/nvidia/version")
        }
        Component::Gdrdrv => {
            module(component, &ctx.facts.gdrdrv.version, "/sys/module/gdrdrv/version")
        }
        Component::Efa => {
            module(component, &ctx.facts.rdma_stack.efa_version, "/sys/module/efa/version")
        }
        Component::Ofed => {
            let stack = &ctx.facts.rdma_stack;
            if *stack.ofed.or_missing(Area::Files, "/usr/bin/ofed_info")? {
                module(component, &stack.mlx5_version, "/sys/module/mlx5_core/version")
            } else {
                Ok(Vec::new())
            }
        }
        Component::Nccl => libraries(ctx, "libnccl.so.2", |library| Ok(Some(by_name(library)))),
        Component::Ucx => libraries(ctx, "libucp.so.0", |library| Ok(Some(by_name(library)))),
        Component::AwsOfiNccl => libraries(ctx, "libnccl-net.so", plugin),
    }
}

fn module(
    component: Component,
    version: &Fact<Option<String>>,
    source: &str,
) -> Result<Vec<Installed>, Missing> {
    let version = version.or_missing(Area::Sys, source)?.as_ref();
    let installed = version.map(|version| Installed {
        subject: component.name().to_owned(),
        version: Some(version.clone()),
        source: source.to_owned(),
    });
    Ok(installed.into_iter().collect())
}

fn libraries(
    ctx: &Ctx<'_>,
    name: &str,
    read: impl Fn(&Library) -> Result<Option<Installed>, Missing>,
) -> Result<Vec<Installed>, Missing> {
    const SOURCE: &str = "/etc/ld.so.cache, LD_LIBRARY_PATH, Python packages";
    let software = &ctx.facts.software;
    software.libraries.or_missing(Area::Files, SOURCE)?;
    software.usable(name).filter_map(|library| read(library).transpose()).collect()
}

fn by_name(library: &Library) -> Installed {
    Installed {
        subject: library.path.clone(),
        version: library.version.clone(),
        source: library.path.clone(),
    }
}

/// NCCL's plugin for libfabric, by the line that it logs at its start; none if the library is another plugin.
fn plugin(library: &Library) -> Result<Option<Installed>, Missing> {
    let words = library.words.or_missing(Area::Files, &library.path)?;
    let version = words.iter().find_map(|word| word.strip_prefix("aws-ofi-nccl "));
    Ok(version.map(|version| Installed { version: Some(version.to_owned()), ..by_name(library) }))
}
