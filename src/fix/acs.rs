//! acs: ports stop redirecting traffic between devices to the root complex.
//!
//! Clears only the control bits that redirect: request and completion redirect, and egress control if
//! its vector blocks the pair. Source validation, translation blocking and upstream forwarding stay.

use std::collections::{BTreeMap, BTreeSet};

use super::desired::{ChangeTarget, DesiredState, Fix, FixRequest, NoChange, Persist, PortChoice};
use super::{devices, persist};
use crate::check::{Ctx, ground};
use crate::model::config::AcsBits;
use crate::model::{Bdf, Capability, Fact, Severity, Why};
use crate::topo::{self, MAX_PATHS, Redirect, Role};

pub const FIX: Fix = Fix {
    id: "acs",
    about: "Ports between GPUs and NICs stop redirecting peer-to-peer traffic to the root complex.",
    checks: &["pcie.acs"],
    requires: &["iommu"],
    desired,
};

/// The control register's offset in the capability (PCI Express 7.7.11.3).
const CONTROL: u16 = 6;

/// The bits that can redirect or block.
const ALL: AcsBits = AcsBits(AcsBits::REDIRECT.0 | AcsBits::EGRESS_CONTROL.0);

fn desired(request: &FixRequest<'_>) -> DesiredState {
    let ctx = request.ctx;
    let locked = match &ctx.facts.platform.lockdown {
        Fact::Known(Some(mode)) if mode != "none" && !request.options.force => Some(mode.as_str()),
        _ => None,
    };
    let by_kernel = request.options.persist == Some(Persist::CommandLine);
    if let Some(why) = why_refused(ctx, locked.filter(|_| !by_kernel)) {
        return DesiredState::refused(why);
    }
    let ports = match ports(request) {
        Ok(ports) => ports,
        Err(why) => return DesiredState::none(why),
    };
    let mut desired = DesiredState::default();
    let lasting = if by_kernel { lasting(request, &ports) } else { BTreeMap::new() };
    let concerned: BTreeSet<&Bdf> = ports.keys().chain(lasting.keys()).collect();
    let all_held = ground::Held::new(ctx);
    let held: Vec<String> = concerned
        .into_iter()
        .flat_map(|port| {
            let held = all_held.below(*port).iter();
            held.map(move |device| format!("{device} below {port}"))
        })
        .collect();
    if !held.is_empty() && !request.options.force {
        return DesiredState::refused(format!(
            "A device is assigned to a virtual machine ({}): these bits isolate it, and clearing them opens a path around the \
             IOMMU. --force clears them anyway.",
            held.join(", ")
        ));
    }
    // Under lockdown only the kernel command line can change the bits.
    if locked.is_none() {
        clear_bits(&mut desired, ctx, &ports);
    }
    if !held.is_empty() {
        desired.warnings.push(format!(
            "{} belong to virtual machines, which lose their isolation.",
            held.join(", ")
        ));
    }
    if translated(ctx) {
        desired.warnings.push(
            "The IOMMU translates these devices' addresses, which a switch cannot route to a GPU: clearing the bits alone has no \
             effect. See pcie.iommu ('gdr fix iommu')."
                .to_owned(),
        );
    }
    let kept = match request.options.persist {
        // No change, nothing to persist.
        None if desired.changes.is_empty() => Ok(()),
        None => {
            desired.warnings.push(
                "Idle the devices first. A reboot, a hot-plug or a reset of a port (AER, DPC) reverts the change; --persist unit \
                 or --persist cmdline makes it permanent."
                    .to_owned(),
            );
            Ok(())
        }
        Some(Persist::Unit) => persist::unit(&mut desired, request).map_err(NoChange::from),
        Some(Persist::CommandLine) => persist::command_line(&mut desired, ctx, &lasting),
    };
    match kept {
        Ok(()) => desired,
        Err(why) => DesiredState::none(why),
    }
}

/// Why this machine's ports are not changed. `locked` is the kernel's lockdown mode.
fn why_refused(ctx: &Ctx<'_>, locked: Option<&str>) -> Option<String> {
    if ctx.facts.platform.is_guest() {
        return Some(
            "This is a virtual machine: the host controls these ports, and a guest can neither see nor change them. Use \
             DirectTrans with ATS on the NIC there (see pcie.acs-vm)."
                .to_owned(),
        );
    }
    if ctx.facts.is_grace() {
        return Some(
            "On Grace and Vera the ports keep the kernel's settings: GPU memory is reached over NVLink-C2C, and clearing the bits \
             is unsafe."
                .to_owned(),
        );
    }
    locked.map(|mode| {
        format!(
            "The kernel is locked down ({mode}) and rejects writes to configuration space. Set the bits on the kernel command \
             line instead (gdr fix-acs --persist cmdline), or disable secure boot; --force tries anyway."
        )
    })
}

fn clear_bits(desired: &mut DesiredState, ctx: &Ctx<'_>, ports: &BTreeMap<Bdf, AcsBits>) {
    for (port, mask) in ports {
        let Some(acs) = ctx.facts.device(*port).and_then(|device| device.config.acs.present())
        else {
            continue;
        };
        let set = acs.control & *mask;
        let verb = if set.0.count_ones() == 1 { "is" } else { "are" };
        desired.change(
            format!("{port} stops redirecting: {} {verb} cleared.", set.names().join(", ")),
            ChangeTarget::Register {
                bdf: *port,
                capability: Capability::ACS,
                offset: CONTROL,
                width: 2,
                mask: mask.0.into(),
                value: 0,
            },
        );
    }
}

/// The ports and bits for the kernel command line: those that redirect now, and those already cleared
/// on the same paths, which a boot would set again.
fn lasting(request: &FixRequest<'_>, ports: &BTreeMap<Bdf, AcsBits>) -> BTreeMap<Bdf, AcsBits> {
    let mut lasting = ports.clone();
    let all: Vec<Bdf> = match &request.options.ports {
        PortChoice::Judged => ground::ports(request.ctx).worth.into_iter().collect(),
        PortChoice::Pair(a, b) => between(request.ctx, a, b).map_or_else(
            |_| Vec::new(),
            |ports| ports.into_iter().map(|redirect| redirect.port).collect(),
        ),
        PortChoice::Port(_) | PortChoice::AllBridges => Vec::new(),
    };
    for port in all {
        lasting.entry(port).or_insert(AcsBits::REDIRECT);
    }
    let has_acs = |port: &Bdf| {
        let device = request.ctx.facts.device(*port);
        device.is_some_and(|device| device.config.acs.present().is_some())
    };
    lasting.retain(|port, _| has_acs(port));
    lasting
}

/// The ports to change, with the bits to clear.
fn ports(request: &FixRequest<'_>) -> Result<BTreeMap<Bdf, AcsBits>, NoChange> {
    let ctx = request.ctx;
    devices::all_known(ctx)?;
    match &request.options.ports {
        PortChoice::Judged => {
            let found = ground::ports(ctx);
            if found.too_many {
                return Err(NoChange::Refused(format!(
                    "There are more than {MAX_PATHS} pairs of devices, the limit: name a pair or a port."
                )));
            }
            // Between host bridges the bits do not matter.
            let redirecting =
                found.redirecting.iter().filter(|(_, what)| what.weight > Severity::Info);
            if let Some((port, why)) = found.unknown.iter().next() {
                return Err(unread(*port, *why));
            }
            // The ports above such a device are not known.
            if let Some(unknown) = ground::unplaced(ctx).filter(|_| !found.lost.is_empty()) {
                return Err(NoChange::from(&unknown));
            }
            Ok(redirecting.map(|(port, what)| (*port, what.bits | AcsBits::REDIRECT)).collect())
        }
        PortChoice::Pair(a, b) => pair(ctx, a, b),
        PortChoice::Port(port) => {
            let device =
                ctx.facts.device(*port).ok_or_else(|| format!("There is no function {port}."))?;
            match &device.config.acs {
                Fact::Known(Some(_)) => Ok([(*port, ALL)].into()),
                Fact::Known(None) => Err(NoChange::Refused(format!(
                    "{port} has no ACS capability: nothing to clear."
                ))),
                Fact::Unknown(why) => Err(unread(*port, *why)),
            }
        }
        PortChoice::AllBridges => {
            let bridges = ctx.facts.devices().iter().filter(|device| {
                let role = ctx.forest.role(device);
                matches!(role, Role::RootPort | Role::DownstreamPort)
            });
            let mut ports = BTreeMap::new();
            for device in bridges {
                match &device.config.acs {
                    Fact::Known(None) => {}
                    Fact::Known(Some(_)) => drop(ports.insert(device.bdf, ALL)),
                    Fact::Unknown(why) => return Err(unread(device.bdf, *why)),
                }
            }
            Ok(ports)
        }
    }
}

/// One unreadable port refuses the whole fix: clearing only some ports of a path has no effect.
fn unread(port: Bdf, why: Why) -> NoChange {
    let source = format!("the ACS registers of {port} (/sys/bus/pci/devices/{port}/config)");
    NoChange::unread(&source, why)
}

fn between(ctx: &Ctx<'_>, a: &str, b: &str) -> Result<Vec<Redirect>, String> {
    let row = |name: &str| {
        ctx.topology.find(name).ok_or_else(|| {
            let names: Vec<&str> = ctx.topology.rows.iter().map(|row| row.name.as_str()).collect();
            format!("There is no device {name}. Devices: {}.", names.join(", "))
        })
    };
    let path = ctx.topology.route(row(a)?, row(b)?)?;
    Ok(topo::redirects(ctx.forest, &path))
}

/// The ports between two devices that redirect, with the bits to clear.
fn pair(ctx: &Ctx<'_>, a: &str, b: &str) -> Result<BTreeMap<Bdf, AcsBits>, NoChange> {
    let mut ports = BTreeMap::new();
    for redirect in between(ctx, a, b)? {
        match redirect.bits {
            Fact::Known(found) if found.is_empty() => {}
            Fact::Known(found) => {
                ports.insert(redirect.port, found | AcsBits::REDIRECT);
            }
            Fact::Unknown(why) => return Err(unread(redirect.port, why)),
        }
    }
    Ok(ports)
}

fn translated(ctx: &Ctx<'_>) -> bool {
    let rows = ctx.topology.rows.iter().filter_map(|row| row.bdf);
    rows.into_iter().any(|bdf| ground::is_translated(ctx, bdf))
}
