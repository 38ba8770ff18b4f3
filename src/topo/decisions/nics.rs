//! GPUDirect RDMA between each GPU and each NIC, and the NICs that each GPU uses (`ncclTopoCheckGdr`, `ncclTopoComputePaths`).

use super::Job;
use super::paths::{gpus, over_pcie};
use super::variables::selects;
use crate::model::{Ids, Kind, NcclLevel, NcclNicPair, NcclPath, NcclUse, RdmaDevice};
use crate::topo::share::{self, device_of};

/// How a GPU reaches a NIC that is not near it.
enum Relay {
    /// By a GPU that is near the NIC.
    By(usize),
    None,
    /// It depends on NVLinks or a GPU that are unknown.
    Unknown,
}

pub fn nics(job: &Job<'_>, level: &NcclLevel) -> (Vec<NcclNicPair>, Vec<NcclUse>) {
    let topology = job.topology;
    let nics: Vec<usize> = topology
        .rows_of(Kind::Nic)
        .filter(|(_, row)| !row.software && row.bdf.is_some())
        .map(|(at, _)| at)
        .collect();
    let (mut pairs, mut uses) = (Vec::new(), Vec::new());
    for (gpu, row) in topology.rows_of(Kind::Gpu) {
        pairs.extend(nics.iter().map(|nic| job.nic_pair(gpu, *nic, level)));
        uses.push(NcclUse { gpu: row.name.clone(), nics: job.used(gpu, &nics) });
    }
    (pairs, uses)
}

impl Job<'_> {
    /// Why NCCL's own network does not use a NIC.
    fn unused(&self, nic: usize) -> Option<String> {
        let row = &self.topology.rows[nic];
        let device = self
            .topology
            .facts
            .rdma
            .known()
            .and_then(|devices| devices.iter().find(|device| device.name == row.label));
        let port = device.and_then(RdmaDevice::main_port).map(|port| port.number);
        if self.number("NCCL_IB_DISABLE").unwrap_or(0) != 0 {
            return Some("NCCL_IB_DISABLE keeps NCCL from NICs".to_owned());
        }
        match self.set.get("NCCL_IB_HCA") {
            Some(list) if row.named && !selects(list, &row.label, port) => {
                return Some(format!("NCCL_IB_HCA={list} leaves it out"));
            }
            _ => {}
        }
        (row.active == Some(false)).then(|| "no port is up".to_owned())
    }

    fn nic_pair(&self, gpu: usize, nic: usize, level: &NcclLevel) -> NcclNicPair {
        let rows = &self.topology.rows;
        let direct = self.direct(gpu, nic);
        let (relay, path) = match self.relay(gpu, nic, direct, level) {
            Relay::By(peer) => (Some(peer), Some(NcclPath::Pxn)),
            Relay::None => (None, direct),
            Relay::Unknown => (None, None),
        };
        let (receive, send, reason, line) = match (self.unused(nic), path) {
            (Some(reason), _) => (Some(false), Some(false), reason, self.rules.gdr),
            (None, None) => (
                None,
                None,
                "unknown: the path, as PCI tree, NUMA node or NVLinks are".to_owned(),
                self.rules.gdr,
            ),
            (None, Some(_)) => self.decided(gpu, nic, relay, level),
        };
        NcclNicPair {
            gpu: rows[gpu].name.clone(),
            nic: rows[nic].name.clone(),
            device: rows[nic].label.clone(),
            path,
            through: relay.map(|relay| rows[relay].name.clone()),
            receive,
            send,
            reason,
            source: self.rules.line(line),
        }
    }

    /// Receive, send, reason and line for a NIC in use whose path is known.
    fn decided(
        &self,
        gpu: usize,
        nic: usize,
        relay: Option<usize>,
        level: &NcclLevel,
    ) -> (Option<bool>, Option<bool>, String, u32) {
        let Some(most) = level.level else {
            return (None, None, level.reason.clone(), self.rules.gdr);
        };
        let (near, path) = (relay.unwrap_or(gpu), self.direct(relay.unwrap_or(gpu), nic));
        if path.is_none_or(|path| self.counts_as(near, path) > most) {
            let letters = path.map_or("?", NcclPath::letters);
            let reason = format!(
                "farther than {} ({}); NCCL_NET_GDR_LEVEL={letters} allows it",
                most.letters(),
                level.reason
            );
            return (Some(false), Some(false), reason, self.rules.gdr);
        }
        let within = match relay {
            Some(relay) => format!("by {}, ", self.topology.rows[relay].name),
            None => String::new(),
        };
        let within = format!("{within}within {} ({})", most.letters(), level.reason);
        match self.sends(gpu) {
            (Some(true), _) => (Some(true), Some(true), within, self.rules.gdr),
            (send, reason) => {
                (Some(true), send, format!("{within}; send: {reason}"), self.rules.send)
            }
        }
    }

    /// The distance that NCCL compares with the level.
    fn counts_as(&self, gpu: usize, path: NcclPath) -> NcclPath {
        let coherent = self.topology.rows[gpu].coherent;
        match (self.rules.minor, path) {
            (26, NcclPath::Phb) if coherent && self.uses_c2c() => NcclPath::C2c,
            (27 | 28, NcclPath::P2c) if self.uses_c2c() => NcclPath::C2c,
            _ => path,
        }
    }

    /// The path without a relay.
    fn direct(&self, gpu: usize, nic: usize) -> Option<NcclPath> {
        let path = over_pcie(self.topology, gpu, nic)?;
        let coherent = self.topology.rows[gpu].coherent;
        let by_c2c = coherent && path == NcclPath::Phb && self.rules.minor >= 27;
        Some(if by_c2c && !self.has_nearer(gpu) { NcclPath::P2c } else { path })
    }

    /// True if a NIC is below a switch of the GPU.
    fn has_nearer(&self, gpu: usize) -> bool {
        let mut nics = self.topology.rows_of(Kind::Nic).map(|(at, _)| at);
        nics.any(|nic| over_pcie(self.topology, gpu, nic).is_some_and(|path| path <= NcclPath::Pxb))
    }

    /// The GPU by which a GPU reaches a NIC that is not near it.
    fn relay(&self, gpu: usize, nic: usize, direct: Option<NcclPath>, level: &NcclLevel) -> Relay {
        let is_off = self.number("NCCL_PXN_DISABLE") == Some(1);
        let is_near = direct.is_none_or(|path| path <= NcclPath::Pxn);
        if is_off || is_near || self.unused(nic).is_some() {
            return Relay::None;
        }
        let default = i64::from(self.rules.minor >= 28);
        let by_c2c = self.rules.minor >= 27 && self.number("NCCL_PXN_C2C").unwrap_or(default) != 0;
        let farthest = if by_c2c { NcclPath::P2c } else { NcclPath::Pxb };
        let peers = self.topology.rows_of(Kind::Gpu).map(|(at, _)| at);
        let near = peers.filter(|peer| {
            let path = self.direct(*peer, nic).filter(|path| *path <= farthest);
            let is_allowed = path
                .zip(level.level)
                .is_some_and(|(path, most)| self.counts_as(*peer, path) <= most);
            *peer != gpu && is_allowed && self.sends(*peer).0 != Some(false)
        });
        let mut answer = Relay::None;
        for peer in near {
            let path = gpus(self.topology, self.rules, peer, gpu, false);
            match (path, self.sends(peer).0) {
                (Some(NcclPath::Nvl), Some(_)) => return Relay::By(peer),
                (Some(NcclPath::Nvl), None) | (None, _) => answer = Relay::Unknown,
                (Some(_), _) => {}
            }
        }
        answer
    }

    /// Whether NCCL lets NICs read a GPU's memory, and why it does not.
    fn sends(&self, gpu: usize) -> (Option<bool>, String) {
        match self.number("NCCL_NET_GDR_READ") {
            Some(0) => return (Some(false), "NCCL_NET_GDR_READ=0".to_owned()),
            Some(1..) => return (Some(true), String::new()),
            _ => {}
        }
        if self.rules.minor >= 19 {
            match self.is_ampere(gpu) {
                Some(true) => return (Some(true), String::new()),
                Some(false) => {}
                None => return (None, "unknown: the GPU's generation".to_owned()),
            }
        }
        let mut peers = self.topology.rows_of(Kind::Gpu).map(|(at, _)| at).filter(|at| *at != gpu);
        let links: Option<Vec<u32>> = peers
            .by_ref()
            .map(|peer| self.topology.pair(gpu, peer)?.nvlinks.known().copied())
            .collect();
        match links {
            None => (None, "unknown: the GPU's NVLinks".to_owned()),
            Some(links) if links.is_empty() || links.iter().any(|count| *count > 0) => {
                (Some(true), String::new())
            }
            Some(_) => {
                (Some(false), "off without NVLink; NCCL_NET_GDR_READ=1 allows it".to_owned())
            }
        }
    }

    /// True from compute capability 8.0 on. By pci.ids, Ampere's device ids begin at 0x2080, with Turing's TU116 between them.
    fn is_ampere(&self, gpu: usize) -> Option<bool> {
        let ids: &Ids = self.topology.device(gpu)?.ids.known()?;
        ids.device.map(|device| device >= 0x2080 && !(0x2180..=0x21ff).contains(&device))
    }

    /// The names of the NICs that a GPU uses, in the order of its channels: its share of the nearest ones that the variables leave
    /// (`ncclTopoGetLocalNet`).
    fn used(&self, gpu: usize, nics: &[usize]) -> Vec<String> {
        let rows = &self.topology.rows;
        let allowed = |nic: &usize| self.unused(*nic).is_none();
        let best = |row: usize| {
            let found = self.topology.matches.iter().find(|found| found.row == row);
            found.map_or(&[][..], |found| &found.best)
        };
        let mut local = best(gpu).to_vec();
        if local.is_empty() || !local.iter().all(allowed) {
            let paths = nics.iter().copied().filter(allowed);
            let known: Vec<(usize, NcclPath)> =
                paths.filter_map(|nic| Some((nic, self.direct(gpu, nic)?))).collect();
            let nearest = known.iter().map(|(_, path)| *path).min();
            local = known
                .into_iter()
                .filter(|(_, path)| Some(*path) == nearest)
                .map(|(nic, _)| nic)
                .collect();
        }
        local.sort_by_key(|nic| (rows[*nic].bdf, *nic));
        let Some(first) = local.first().copied() else { return Vec::new() };
        let local = share::without_virtual(rows, &local, first);
        let same = |a: &usize, b: &usize| device_of(rows, *a) == device_of(rows, *b);
        let devices: Vec<&[usize]> = local.chunk_by(same).collect();
        let mut gpus = self.topology.rows_of(Kind::Gpu).map(|(at, _)| at);
        let number = gpus.position(|at| at == gpu).unwrap_or_default();
        let sharing = best(first).len().max(1);
        let start = if self.rules.minor >= 30 { number % sharing } else { number };
        let chosen = channels(start, devices.len(), sharing);
        chosen.flat_map(|at| devices[at]).map(|nic| rows[*nic].label.clone()).collect()
    }
}

/// The numbers of the NICs of a GPU among those that several GPUs share. NCCL spreads the GPUs by the reversed bits of their numbers.
fn channels(gpu: usize, nics: usize, gpus: usize) -> impl Iterator<Item = usize> {
    let bits = nics.trailing_zeros();
    let reversed = (0..bits).filter(|bit| gpu >> bit & 1 == 1).map(|bit| 1 << (bits - 1 - bit));
    let start = if nics.is_power_of_two() { reversed.sum() } else { gpu };
    (0..nics.div_ceil(gpus)).map(move |channel| (start + channel) % nics)
}
