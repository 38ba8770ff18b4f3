//! Compute NICs that are alike: the same chip, function of the card and port. Where nearly all of three or more are up, one that is down or
//! slower is a lost rail; a port that is down on many cards is not connected on purpose.

use std::collections::BTreeMap;

use crate::check::nics::rdma_nics;
use crate::check::roles::Roles;
use crate::check::{Ctx, words};
use crate::model::{Fact, RdmaDevice, RdmaPort};
use crate::profile::NicRole;

/// Number of other ports that there must be.
const OTHERS: usize = 2;

/// True of at least three in four.
fn are_nearly_all(count: usize, of: usize) -> bool {
    count * 4 >= of * 3
}

/// Chip, function number, port number.
type Kind<'a> = (&'a str, u8, u32);

pub struct Rails<'a>(BTreeMap<Kind<'a>, Vec<(&'a str, &'a RdmaPort)>>);

impl<'a> Rails<'a> {
    pub fn new(ctx: &Ctx<'a>, roles: &Roles<'_>) -> Self {
        let mut alike: BTreeMap<Kind<'a>, Vec<(&'a str, &'a RdmaPort)>> = BTreeMap::new();
        let is_rail = |nic: &&RdmaDevice| {
            roles.of(&nic.name) == Some(NicRole::Compute)
                && ctx.facts.virtual_function(nic).is_none()
        };
        for nic in rdma_nics(ctx.facts).filter(is_rail) {
            for port in nic.ports.known().into_iter().flatten() {
                if let Some(kind) = kind(nic, port) {
                    alike.entry(kind).or_default().push((&nic.name, port));
                }
            }
        }
        Self(alike)
    }

    /// What is wrong with a port if nearly all others of its kind are active, or faster.
    pub fn fault(&self, nic: &RdmaDevice, port: &RdmaPort) -> Option<String> {
        let alike = self.0.get(&kind(nic, port)?)?;
        let is_among = alike.iter().any(|(name, _)| *name == nic.name);
        let count = alike.len().saturating_sub(1);
        if !is_among || count < OTHERS {
            return None;
        }
        let others = alike.iter().filter(|(name, _)| *name != nic.name).map(|(_, port)| port);
        let active: Vec<&&RdmaPort> = others.filter(|port| port.is_active()).collect();
        let of = |those: usize| format!("{those} of {count} other compute NICs of its kind");
        let state = port.state.known()?;
        if !port.is_active() {
            let those = active.len();
            return are_nearly_all(those, count)
                .then(|| format!("Port {state}; those of {} are active.", of(those)));
        }
        let own = rate(port)?;
        let faster = active.iter().filter_map(|port| rate(port)).filter(|other| own < *other);
        let faster: Vec<f64> = faster.collect();
        let least = faster.iter().copied().reduce(f64::min)?;
        are_nearly_all(faster.len(), count).then(|| {
            let (speed, those) = (words::list(port.speed()), of(faster.len()));
            format!("Port at {speed}; those of {those} run at {least} Gb/s or more.")
        })
    }
}

fn kind<'a>(nic: &'a RdmaDevice, port: &RdmaPort) -> Option<Kind<'a>> {
    let (Fact::Known(Some(chip)), Fact::Known(Some(place))) = (&nic.chip, &nic.place) else {
        return None;
    };
    Some((chip, place.function, port.number))
}

/// In Gb/s.
fn rate(port: &RdmaPort) -> Option<f64> {
    port.rate.known()?.split(' ').next()?.parse().ok()
}
