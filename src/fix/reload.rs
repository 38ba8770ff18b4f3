//! Advice on how to reload the driver with new options: which modules to remove, in order, and load
//! again. gdr itself unloads nothing.

use crate::check::Ctx;
use crate::kmod::nvidia;
use crate::model::Order as _;
use crate::model::{Fact, Module};

/// Modules above the driver, in the order of removal.
const ABOVE: [&str; 6] =
    ["gdrdrv", "nv_peer_mem", "nvidia_peermem", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"];

pub fn reload(ctx: &Ctx<'_>) -> String {
    const HOLDERS: &str =
        "programs on the GPUs, nvidia-persistenced, nvidia-fabricmanager, a display";
    let modules = match &ctx.facts.kernel.modules {
        Fact::Known(modules) => modules,
        Fact::Unknown(_) => return "Takes effect after a reboot.".to_owned(),
    };
    let order = order(modules);
    let Some(driver) = order.last() else {
        return format!("Takes effect when the driver is loaded: modprobe {}.", nvidia::MODULE);
    };
    let others: Vec<&str> = order
        .iter()
        .rev()
        .skip(1)
        .map(|name| name.as_str())
        .filter(|name| *name != driver)
        .collect();
    format!(
        "Takes effect after a reboot, or when the driver is reloaded: stop what uses it ({HOLDERS}), run 'rmmod {}', then \
         'modprobe -a {}'.",
        order.join(" "),
        std::iter::once(nvidia::MODULE).chain(others).collect::<Vec<_>>().join(" ")
    )
}

/// The driver's loaded modules in the order of removal, the driver last.
fn order(modules: &[Module]) -> Vec<String> {
    let loaded = |name: &str| modules.iter().find(|module| module.name == name);
    let Some(driver) = [nvidia::MODULE, "nvidia_current"].into_iter().find_map(loaded) else {
        return Vec::new();
    };
    // Direct and indirect users, and the known modules, should the kernel not list them.
    let mut above: Vec<&Module> = ABOVE.into_iter().filter_map(loaded).collect();
    let mut next = 0;
    let mut current = Some(driver);
    while let Some(module) = current {
        for user in module.users.iter().filter_map(|name| loaded(name)) {
            if user.name != driver.name && !above.contains(&user) {
                above.push(user);
            }
        }
        current = above.get(next).copied();
        next += 1;
    }
    let rank = |module: &Module| ABOVE.iter().position(|name| *name == module.name);
    above.order_by_key(|module| (rank(module), module.name.clone()));
    let mut order: Vec<String> = Vec::new();
    while !above.is_empty() {
        let is_free = |module: &&Module| {
            let holds = |user: &String| {
                above.iter().any(|other| other.name == *user && other.name != module.name)
            };
            !module.users.iter().any(holds)
        };
        // The kernel shows no cycle; break one anyway.
        let at = above.iter().position(is_free).unwrap_or(0);
        order.push(above.remove(at).name.clone());
    }
    order.push(driver.name.clone());
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(text: &str) -> Vec<Module> {
        text.lines()
            .map(|line| {
                let (name, users) = line.split_once(':').expect("a colon");
                Module {
                    name: name.to_owned(),
                    users: users.split_whitespace().map(str::to_owned).collect(),
                }
            })
            .collect()
    }

    #[test]
    fn users_come_before_dependencies() {
        let all = "nvidia_drm:\nnvidia_modeset: nvidia_drm\nnvidia_uvm: nvidia_fs\nnvidia_fs:\nnvidia: gdrdrv nvidia_peermem \
                   nvidia_uvm nvidia_modeset\ngdrdrv:\nnvidia_peermem:\nib_core: nvidia_peermem\nmlx5_core:\n";
        assert_eq!(
            order(&modules(all)).join(" "),
            "nvidia_fs gdrdrv nvidia_peermem nvidia_uvm nvidia_drm nvidia_modeset nvidia"
        );
        assert_eq!(
            order(&modules("nv_peer_mem:\nnvidia: nv_peer_mem\n")).join(" "),
            "nv_peer_mem nvidia"
        );
        assert!(order(&modules("ib_core:\n")).is_empty());
        // Terminates on a cycle.
        assert_eq!(order(&modules("a: b\nb: a\nnvidia: a b\n")).len(), 3);
    }
}
