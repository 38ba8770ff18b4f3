//! One end: an open port, and memory that is registered with its NIC.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gpu::{Pattern, sentence};
use verbs::{Context, Event, Gid, GidKind, LinkLayer, PortState};

use super::control::Offer;
use super::counters::Baseline;
use super::device::{Device, MemoryRegion, SIMULATED_MTU, SIMULATED_READS};
use super::memory::{Store, half};
use super::memory_paths::{PathSelection, select_path};
use super::nodes::memory_node;
use super::paging::{self, Paging};
use super::purpose::{Purpose, Role};
use super::srd::Abilities;
use super::task::{LocalEnd, Memory, MemoryPath, Port};
use crate::model::{Bdf, NicDriver, ProbedEnd, ProbedFunction, ProbedPaging};
use crate::probe::cpus::current_cpus;
use crate::probe::failure::StepError;
use crate::probe::integrity::Wrong;

/// The P_Key of the default partition, of a full member.
const DEFAULT_PKEY: u16 = 0xffff;

pub struct End {
    pub device: Device,
    pub port: Port,
    pub gid: Option<Gid>,
    lid: u16,
    pub mtu: u32,
    pub reads: u8,
    link_layer: LinkLayer,
    /// What SRD can do; none if the device is not of EFA.
    pub srd: Option<Abilities>,
    /// The memory under test: the first half is sent from and arrived at, the second is the other end's in turns.
    pub store: Store,
    pub selection: PathSelection,
    /// Whether the memory can be registered with relaxed ordering, or why not.
    pub relaxed_ordering: Result<(), String>,
    /// What it offers for memory with on-demand paging, or why nothing.
    pub on_demand: Result<Paging, String>,
    /// The same, of the device; none if unknown.
    paging: Option<ProbedPaging>,
    /// Its NIC has atomic operations.
    pub atomics: bool,
    /// What is known of its NIC's driver.
    pub driver: Option<&'static NicDriver>,
    pkey: u16,
    /// The NUMA node of its host memory.
    memory_node: Option<u32>,
    /// The counters of its port at the start.
    pub counters: Arc<Baseline>,
    /// How long a completion may take.
    pub timeout: Duration,
}

impl End {
    /// Opens it on a device of its port. There is room for two messages of `room` bytes.
    pub fn open(
        place: &LocalEnd,
        device: Device,
        room: usize,
        timeout: Duration,
    ) -> Result<Self, StepError> {
        let port = &place.port;
        let link = match &device {
            Device::Verbs { context, .. } => Link::query(context, port)?,
            Device::Sim(hca) => Link {
                gid: None,
                lid: hca.lid(),
                mtu: SIMULATED_MTU,
                reads: SIMULATED_READS,
                layer: LinkLayer::InfiniBand,
                atomics: true,
                pkey: DEFAULT_PKEY,
                srd: None,
            },
        };
        let store = Store::take(&place.memory, half(room) * 2)?;
        // Its pages come from the node of this thread.
        if store.is_seen() {
            store.clear(0, half(room) * 2)?;
        }
        let driver = place.driver.as_deref().and_then(NicDriver::of);
        let selection = select_path(&device, driver, &place.memory, &store)?;
        let relaxed_ordering = match link.srd {
            Some(_) => Err("EFA takes no order of writes".to_owned()),
            None => selection.try_relaxed_ordering(&device, &store),
        };
        let paging = match &device {
            Device::Verbs { context, .. } => {
                let found = context.on_demand_paging();
                found.map_err(|error| sentence(&error))
            }
            Device::Sim(_) => Ok(None),
        };
        let on_demand = paging::offered(&port.device, &place.memory, &paging, || {
            PathSelection::try_on_demand(&device, &store)
        });
        let memory_node = store.host_address().and_then(memory_node);
        Ok(Self {
            port: port.clone(),
            gid: link.gid,
            lid: link.lid,
            mtu: link.mtu,
            reads: link.reads,
            link_layer: link.layer,
            srd: link.srd.map(|(srd, longest)| Abilities::of(srd, longest)),
            device,
            store,
            selection,
            relaxed_ordering,
            on_demand,
            paging: paging.ok().map(paging::reported),
            atomics: link.atomics,
            driver,
            pkey: link.pkey,
            memory_node,
            counters: Arc::new(Baseline::read(place)),
            timeout,
        })
    }

    /// Registers the memory of a test case, with the access that the case needs: two messages of it, or all of a GPU's memory.
    pub fn register(&self, purpose: Purpose, role: Role) -> Result<MemoryRegion, StepError> {
        self.selection.register(&self.device, &self.store, purpose, role)
    }

    /// True if copies carry the bytes between the NIC's buffer and the GPU.
    pub fn is_staged(&self) -> bool {
        self.selection.memory_path.is_some_and(MemoryPath::is_staged)
    }

    /// Its GPU is a simulated one.
    pub fn is_simulated(&self) -> bool {
        let device = self.store.device();
        device.is_some_and(|(memory, _)| memory.gpu().is_sim())
    }

    /// The end in a report.
    pub fn probed(&self, place: &LocalEnd, remote: bool) -> ProbedEnd {
        let (memory, gpu) = match &place.memory {
            Memory::Host => ("host", None),
            Memory::Huge => ("huge", None),
            Memory::Pinned(target) => ("pinned", Some(target)),
            Memory::Gpu(target, _) if target.ordinal.is_none() => ("sim", Some(target)),
            Memory::Gpu(target, _) => ("gpu", Some(target)),
        };
        ProbedEnd {
            subject: place.subject.clone(),
            remote,
            memory: memory.to_owned(),
            gpu: gpu.map(|target| target.subject.clone()),
            device: self.port.device.clone(),
            driver: place.driver.clone(),
            port: self.port.number,
            link_layer: match self.srd {
                Some(_) => "EFA".to_owned(),
                None => format!("{:?}", self.link_layer),
            },
            mtu: self.mtu,
            gid_index: self.gid.map(|gid| gid.index),
            gid_kind: self.gid.map(|gid| {
                match gid.kind {
                    _ if self.srd.is_some() => "EFA",
                    GidKind::InfiniBand => "InfiniBand",
                    GidKind::RoceV1 => "RoCE v1",
                    GidKind::RoceV2 => "RoCE v2",
                    _ => "unknown",
                }
                .to_owned()
            }),
            pkey: Some(self.pkey),
            srd: self.srd.map(Abilities::reported),
            on_demand_paging: self.paging.clone(),
            cpu_node: place.node.as_ref().map(|(node, _)| *node),
            cpus: current_cpus().map(|cpus| cpus.to_string()),
            memory_node: self.memory_node,
            virtual_function: place.virtual_function,
            relaxed_ordering: place.relaxed_ordering,
            memory_path: self
                .selection
                .memory_path
                .map(|memory_path| memory_path.name().to_owned()),
            memory_paths: self.selection.choices.clone(),
            data_direct: self.data_direct(),
            class: place.class.clone(),
            path: place.path,
            rdma_path: place.expected,
            rate: place.rate,
            bonded_ports: Some(place.bonded).filter(|ports| *ports > 1),
        }
    }

    /// The Data Direct function that reaches the memory under test; none for another memory path.
    fn data_direct(&self) -> Option<ProbedFunction> {
        match (&self.device, self.selection.memory_path) {
            (Device::Verbs { context, .. }, Some(MemoryPath::DataDirect)) => {
                function_at(&context.data_direct().ok()??)
            }
            _ => None,
        }
    }

    /// The properties that the remote end needs.
    pub fn offer(&self, room: usize) -> Offer {
        Offer {
            lid: self.lid,
            gid: self.gid.map(|gid| gid.address),
            mtu: self.mtu,
            reads: self.reads,
            ethernet: self.link_layer == LinkLayer::Ethernet,
            half: half(room) as u64,
            staged: self.is_staged(),
            pinned: self.selection.pinned.is_some(),
            seen: self.store.is_seen(),
            simulated: self.is_simulated(),
            relaxed_ordering: self.relaxed_ordering.is_ok(),
            on_demand: self.on_demand.as_ref().ok().copied(),
            atomics: self.atomics,
            pkey: self.pkey,
            srd: self.srd,
        }
    }

    /// Replaces a failure by its cause, if the device reports that its port went down or that it failed.
    pub fn cause(&self, failure: StepError) -> StepError {
        let Device::Verbs { context, .. } = &self.device else {
            return failure;
        };
        loop {
            let port = format!("{}:{}", self.port.device, self.port.number);
            match context.event(Duration::ZERO) {
                Ok(Some(Event::PortDown(number))) if number == self.port.number => {
                    return StepError::PortDown(port);
                }
                Ok(Some(Event::Device)) => {
                    return StepError::DeviceFailed(self.port.device.clone());
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return failure,
            }
        }
    }

    /// Writes a pattern to the start of its memory.
    pub fn fill(&self, bytes: usize, pattern: Pattern) -> Result<(), StepError> {
        self.store.fill(bytes, pattern)
    }

    /// Compares the start of its memory.
    pub fn check(&self, bytes: usize, pattern: Pattern) -> Result<Option<Wrong>, StepError> {
        self.store.check(bytes, pattern)
    }

    /// Staged: copies bytes from the memory under test to the NIC's buffer.
    pub fn leave(&self, offset: usize, bytes: usize) -> Result<(), StepError> {
        if let (true, Some(host), Some((memory, stream))) =
            (self.is_staged(), &self.selection.pinned, self.store.device())
        {
            stream.download(host, offset, memory, offset, bytes)?;
            stream.synchronize()?;
        }
        Ok(())
    }

    /// Staged: copies bytes from the NIC's buffer to the memory under test.
    pub fn arrive(&self, offset: usize, bytes: usize) -> Result<(), StepError> {
        if let (true, Some(host), Some((memory, stream))) =
            (self.is_staged(), &self.selection.pinned, self.store.device())
        {
            stream.upload(memory, offset, host, offset, bytes)?;
            stream.synchronize()?;
        }
        Ok(())
    }
}

/// The function at a path below `/sys/devices`, whose directories are the bridges above it.
fn function_at(path: &Path) -> Option<ProbedFunction> {
    let names = path.iter().filter_map(OsStr::to_str);
    let mut bridges: Vec<Bdf> = names.filter_map(|name| name.parse().ok()).collect();
    let bdf = bridges.pop()?;
    Some(ProbedFunction { bdf, bridges })
}

/// Properties of a port.
struct Link {
    gid: Option<Gid>,
    lid: u16,
    mtu: u32,
    reads: u8,
    layer: LinkLayer,
    atomics: bool,
    pkey: u16,
    /// Of EFA, with the longest message.
    srd: Option<(verbs::Srd, u32)>,
}

impl Link {
    fn query(context: &Context, port: &Port) -> Result<Self, StepError> {
        let named = || format!("{}:{}", port.device, port.number);
        if context.is_iwarp() {
            return Err(StepError::Iwarp(port.device.clone()));
        }
        let found = context.port(port.number)?;
        if found.state != PortState::Active {
            return Err(StepError::Port { port: named(), state: format!("{:?}", found.state) });
        }
        let table = context.gids(found.gids)?;
        let gid = match port.gid {
            None => Gid::best(&table, port.number),
            Some(index) => {
                let is_it = |gid: &&Gid| {
                    (gid.port, gid.index) == (u32::from(port.number), u32::from(index))
                };
                let found = table.iter().find(is_it).copied();
                Some(found.ok_or_else(|| StepError::NoGid { port: named(), index })?)
            }
        };
        let pkey = match context.pkey(port.number, port.pkey_index) {
            Ok(pkey) => pkey,
            // A library without the function.
            Err(verbs::Error::Missing { .. }) if port.pkey_index == 0 => DEFAULT_PKEY,
            Err(_) => {
                return Err(StepError::NoPkey { port: named(), index: port.pkey_index });
            }
        };
        let limits = context.limits()?;
        Ok(Self {
            gid,
            lid: found.lid,
            mtu: found.active_mtu.unwrap_or(1024),
            reads: limits.reads,
            layer: found.link_layer,
            atomics: limits.atomics,
            pkey,
            srd: context.srd()?.map(|srd| (srd, found.longest_message)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_direct_function_and_its_bridges() {
        let found = |path: &str| {
            let ProbedFunction { bdf, bridges } = function_at(Path::new(path))?;
            let bridges: Vec<String> = bridges.iter().map(Bdf::to_string).collect();
            Some((bdf.to_string(), bridges))
        };
        assert_eq!(
            found("/sys/devices/pci0002:00/0002:00:00.0/0002:01:00.0/0002:03:00.0"),
            Some((
                "0002:03:00.0".to_owned(),
                vec!["0002:00:00.0".to_owned(), "0002:01:00.0".to_owned()]
            ))
        );
        assert_eq!(
            found("/sys/devices/pci0002:00/0002:00:01.0"),
            Some(("0002:00:01.0".to_owned(), Vec::new()))
        );
        assert_eq!(found("/sys/devices/virtual"), None);
    }
}
