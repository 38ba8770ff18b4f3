//! GPU of this process's client: open node, device object, and BAR1 budget.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gpu::PciAddress;

use super::calls::{Card, Surface};
use super::client::{Client, Object};
use super::fault::{self, Step};
use super::trust::Trust;
use crate::Error;
use crate::copy::Cpus;

#[derive(Debug)]
pub(crate) struct Device {
    // Dropped before the node, which RM needs while the device is in use.
    object: Object,
    _node: OwnedFd,
    client: Arc<Client>,
    card: Card,
    instance: u32,
    budget: Budget,
    pci: PciAddress,
    near: Option<Cpus>,
    pub(crate) trust: Trust,
}

impl Device {
    pub(crate) fn open(client: Arc<Client>, pci: PciAddress) -> Result<Self, Error> {
        let calls = client.calls();
        let cards = calls
            .cards(client.control())
            .map_err(|error| fault::error(Step::Cards, error.into()))?;
        let same =
            |card: &&Card| (card.domain, card.bus, card.slot) == (pci.domain, pci.bus, pci.device);
        let card = *cards.iter().find(same).ok_or_else(|| Error::Refused {
            backend: crate::BackendKind::Rm,
            why: format!("the resource manager lists no GPU at {pci}"),
            kind: crate::Kind::Absent,
        })?;
        let node = open_node(&client, card.minor)?;
        let instance = calls
            .device_instance(client.caller(), card.gpu_id)
            .map_err(|error| fault::error(Step::Instance, error))?;
        let object = client
            .make(client.caller().client, |calls, caller, handle| {
                calls.new_device(caller, handle, instance)
            })
            .map_err(|error| fault::error(Step::Device, error))?;
        Ok(Self {
            object,
            _node: node,
            card,
            instance,
            pci,
            near: near(pci),
            budget: Budget::of(card.bar1),
            trust: Trust::default(),
            client,
        })
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(crate) fn handle(&self) -> u32 {
        self.object.handle()
    }

    pub(crate) fn instance(&self) -> u32 {
        self.instance
    }

    pub(crate) fn pci(&self) -> Option<PciAddress> {
        Some(self.pci)
    }

    /// CPUs near the GPU, if known.
    pub(crate) fn near(&self) -> Option<Cpus> {
        self.near
    }

    /// Counts bytes of BAR1 to be mapped, or refuses them.
    pub(crate) fn take_bar1(&self, bytes: u64) -> Result<(), Error> {
        self.budget.take(bytes, || is_static(&self.client, &self.object))
    }

    pub(crate) fn give_back_bar1(&self, bytes: u64) {
        self.budget.give_back(bytes);
    }

    /// New file of the node, registered with the client.
    pub(crate) fn fresh_node(&self) -> Result<OwnedFd, Error> {
        open_node(&self.client, self.card.minor)
    }

    /// Properties of a memory object; only video memory is accepted.
    pub(crate) fn surface(&self, memory: &Object) -> Result<Surface, Error> {
        self.client
            .calls()
            .surface(self.client.caller(), memory.handle())
            .map_err(|error| fault::error(Step::Surface, error))
    }
}

fn open_node(client: &Client, minor: u32) -> Result<OwnedFd, Error> {
    let node = client.calls().open_device(minor).map_err(|source| Error::System {
        operation: format!("open /dev/nvidia{minor}"),
        source,
    })?;
    client
        .calls()
        .register(node.as_fd(), client.control())
        .map_err(|error| fault::error(Step::Register, error.into()))?;
    Ok(node)
}

fn near(pci: PciAddress) -> Option<Cpus> {
    let list = std::fs::read_to_string(format!("/sys/bus/pci/devices/{pci}/local_cpulist")).ok()?;
    Cpus::parse(&list)
}

/// Whether all memory is in BAR1 already. If unknown (drivers before 570, sandboxes): no, which only lowers the budget.
fn is_static(client: &Arc<Client>, device: &Object) -> bool {
    client
        .make(device.handle(), |calls, caller, handle| {
            calls.new_subdevice(caller, device.handle(), handle)
        })
        .and_then(|subdevice| client.calls().static_bar1(client.caller(), subdevice.handle()))
        .unwrap_or(false)
}

/// Bytes of BAR1 that this process may map at once. A full BAR1 has crashed machines
/// (NVIDIA/open-gpu-kernel-modules issue 1187).
#[derive(Debug)]
struct Budget {
    limit: u64,
    taken: AtomicU64,
    /// All memory is in BAR1 already: mappings need no more. Asked for only where the limit is reached, because RM takes half a
    /// millisecond to make and free the object that answers.
    whole: OnceLock<bool>,
}

/// Minimum reserve for the driver and other processes; the reserve is a sixteenth of BAR1.
const LEAST_LEFT: u64 = 16 << 20;

impl Budget {
    fn of(bar1: u64) -> Self {
        Self {
            limit: bar1.saturating_sub((bar1 / 16).max(LEAST_LEFT)),
            taken: AtomicU64::new(0),
            whole: OnceLock::new(),
        }
    }

    fn take(&self, wanted: u64, is_whole: impl FnOnce() -> bool) -> Result<(), Error> {
        let count = |limit: u64| {
            let fits = |mapped: u64| mapped.checked_add(wanted).filter(|after| *after <= limit);
            self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
        };
        match count(self.limit) {
            Err(_) if wanted <= self.limit && *self.whole.get_or_init(is_whole) => count(u64::MAX),
            counted => counted,
        }
        .map(drop)
        .map_err(|mapped| Error::Bar1 { wanted, mapped, limit: self.limit })
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_bar1_keeps_reserve() {
        let budget = Budget::of(256 << 20);
        let take = |bytes| budget.take(bytes, || false);
        take(200 << 20).unwrap();
        assert_eq!(take(41 << 20).unwrap_err().errno(), libc::ENOMEM);
        take(40 << 20).unwrap();
        budget.give_back(200 << 20);
        take(128 << 20).unwrap();
    }

    #[test]
    fn static_bar1_has_no_limit_and_is_asked_for_once() {
        let budget = Budget::of(256 << 30);
        let asked = AtomicU64::new(0);
        let take = |bytes| {
            budget.take(bytes, || {
                asked.fetch_add(1, Ordering::Relaxed);
                true
            })
        };
        for _ in 0..2 {
            take(100 << 30).unwrap();
        }
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        for _ in 0..100 {
            take(100 << 30).unwrap();
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert!(take(250 << 30).is_err());
    }
}
