//! Fake resource manager and CUDA: their memory is files, and they enforce the rules of the real
//! ones.

mod bench;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use gdr_sys::rm::{self, Status};
use gpu::{DevicePtr, PciAddress};

use super::calls::{Answer, Caller, Calls, Card, Export, RmError, Surface};
use super::owner::{Allocation, AllocationKind, Bench, Owner, Retained};
use super::{Rm, Shared};
use crate::vma::Vma;

/// PCI address of the one GPU.
pub(super) const PCI: PciAddress = PciAddress { domain: 0, bus: 6, device: 0, function: 0 };
pub(super) const CUDA: u32 = 0xc1d0_0019;
const INSTANCE: u32 = 3;
const BLOCK: u64 = 2 << 20;
const HEAP: u64 = 0x7f00_0000_0000;

/// State of both fakes, with a call log.
#[derive(Clone)]
pub(super) struct Fake(Arc<Mutex<FakeRm>>);

impl Default for Fake {
    fn default() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let fake = FakeRm { number: NEXT.fetch_add(1, Ordering::Relaxed), ..Default::default() };
        Self(Arc::new(Mutex::new(fake)))
    }
}

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fake")
    }
}

#[derive(Debug, Default)]
pub(super) struct FakeRm {
    /// Distinguishes this test's files from those of other tests.
    number: u32,
    /// Names of the calls in order.
    pub(super) log: Vec<String>,
    /// Injected results for calls of a name, until removed.
    pub(super) errors: HashMap<&'static str, Status>,
    /// The next mappings show this memory instead.
    pub(super) wrong: bool,
    /// mmap of the node returns no address.
    pub(super) lost: bool,
    /// The IPC handle has another layout.
    pub(super) other_layout: bool,
    /// The exported file belongs to this device.
    pub(super) export_instance: Option<u32>,
    /// An exported file has an object of the NVLink fabric behind the memory.
    pub(super) fabric: bool,
    /// Size in bytes.
    pub(super) bar1: Option<u64>,
    /// Objects of all clients.
    memories: HashMap<(u32, u32), Memory>,
    live: Vec<(Allocation, (u32, u32), u64)>,
    structures: HashMap<u64, Box<[u64; 32]>>,
    /// Inodes of prepared node files, with the file, offset and linear address that they map.
    prepared: HashMap<u64, (Arc<OwnedFd>, u64, u64)>,
    /// Linear address of each mapping, with its CPU address once placed.
    mapped: HashMap<u64, Option<(usize, usize)>>,
    nodes: BTreeSet<u64>,
    clients: u32,
    next: u32,
    /// Number of allocations.
    buffers: u64,
    /// First unused address.
    heap: u64,
    /// Block of the small allocations.
    shared: Option<Block>,
}

/// Block shared by small allocations.
#[derive(Debug, Clone, Copy)]
struct Block {
    place: (u32, u32),
    address: u64,
    used: u64,
}

#[derive(Debug, Clone)]
struct Memory {
    file: Arc<OwnedFd>,
    size: u64,
}

impl Fake {
    pub(super) fn backend(&self) -> Rm {
        Rm { shared: Arc::new(Shared::new(Arc::new(self.clone()), Arc::new(self.clone()))) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, FakeRm> {
        self.0.lock().unwrap()
    }

    pub(super) fn allocate(&self, kind: AllocationKind, bytes: u64) -> DevicePtr {
        self.state().allocate(kind, bytes)
    }

    pub(super) fn gap(&self) {
        self.state().heap += BLOCK;
    }

    /// Frees the allocation in CUDA; its object lives while referenced.
    pub(super) fn free(&self, address: DevicePtr) {
        self.state().live.retain(|(allocation, ..)| allocation.base != address);
    }

    /// New user allocation at a freed address.
    pub(super) fn allocate_at(&self, address: DevicePtr, kind: AllocationKind, bytes: u64) {
        let mut state = self.state();
        let heap = std::mem::replace(&mut state.heap, address.get() - HEAP);
        assert_eq!(state.allocate(kind, bytes), address);
        state.heap = heap;
    }

    /// GPU reads.
    pub(super) fn poke(&self, address: DevicePtr, bytes: &[u8]) {
        let (file, at) = self.state().place(address).unwrap();
        std::fs::File::from(file.try_clone().unwrap()).write_all_at(bytes, at).unwrap();
    }

    pub(super) fn peek(&self, address: DevicePtr, bytes: &mut [u8]) {
        let (file, at) = self.state().place(address).unwrap();
        std::fs::File::from(file.try_clone().unwrap()).read_exact_at(bytes, at).unwrap();
    }

    /// References of our clients to CUDA's memory.
    pub(super) fn references(&self) -> usize {
        self.state().memories.keys().filter(|(client, _)| *client != CUDA).count()
    }

    fn call(&self, name: &'static str) -> Answer<MutexGuard<'_, FakeRm>> {
        let mut state = self.state();
        state.log.push(name.to_owned());
        match state.errors.get(name) {
            Some(&status) => Err(RmError::Status(status)),
            None => Ok(state),
        }
    }
}

impl FakeRm {
    /// Like CUDA: small `cuMemAlloc`s share a 2 MiB object, everything else has its own.
    fn allocate(&mut self, kind: AllocationKind, bytes: u64) -> DevicePtr {
        let small = kind == AllocationKind::Malloc && bytes <= BLOCK / 2;
        let shared = self.shared.filter(|block| small && block.used + bytes <= BLOCK);
        let (place, base, offset) = match shared {
            Some(Block { place, address, used }) => (place, address + used, used),
            None => {
                let block = self.heap;
                self.heap += bytes.next_multiple_of(BLOCK);
                (self.object(bytes.next_multiple_of(BLOCK)), block, 0)
            }
        };
        if small {
            self.shared = Some(Block {
                place,
                address: base - offset,
                used: offset + bytes.next_multiple_of(512),
            });
        }
        let size = if matches!(kind, AllocationKind::Create { .. }) {
            bytes.next_multiple_of(BLOCK)
        } else {
            bytes
        };
        let base = DevicePtr::new(HEAP + base);
        self.buffers += 1;
        let allocation =
            Allocation { base, size, kind, ordinal: 0, pci: Some(PCI), buffer_id: self.buffers };
        self.live.push((allocation, place, offset));
        base
    }

    fn object(&mut self, size: u64) -> (u32, u32) {
        self.next += 2;
        let place = (CUDA, 0x5c00_0000 + self.next);
        let memory = Memory { file: Arc::new(file(self.number, size)), size };
        self.memories.insert(place, memory);
        place
    }

    fn find(&self, address: DevicePtr) -> Option<&(Allocation, (u32, u32), u64)> {
        self.live.iter().find(|(allocation, ..)| {
            let end = allocation.base.get() + allocation.size;
            (allocation.base.get()..end).contains(&address.get())
        })
    }

    pub(super) fn objects_of(&self, client: u32) -> usize {
        self.memories.keys().filter(|(owner, _)| *owner == client).count()
    }

    fn place(&self, address: DevicePtr) -> Option<(Arc<OwnedFd>, u64)> {
        let (allocation, place, offset) = self.find(address)?;
        let memory = self.memories.get(place)?;
        Some((Arc::clone(&memory.file), offset + (address.get() - allocation.base.get())))
    }
}

/// memfd named after its state.
fn file(state: u32, size: u64) -> OwnedFd {
    let name = std::ffi::CString::new(name(state)).unwrap();
    // SAFETY: a NUL-terminated name; the returned descriptor is ours.
    let file =
        unsafe { OwnedFd::from_raw_fd(libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC)) };
    std::fs::File::from(file.try_clone().unwrap()).set_len(size).unwrap();
    file
}

fn name(state: u32) -> String {
    format!("memory-{state}.")
}

fn inode(file: BorrowedFd<'_>) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::File::from(file.try_clone_to_owned().unwrap()).metadata().unwrap().ino()
}

/// True if any memory file is still mapped in this range.
fn is_mapped(state: u32, start: usize, length: usize) -> bool {
    let name = name(state);
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter(|line| line.contains(&name))
        .any(|line| {
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let [from, to] = [from, to].map(|text| usize::from_str_radix(text, 16).unwrap());
            from < start + length && start < to
        })
}

impl Calls for Fake {
    fn open_control(&self) -> io::Result<OwnedFd> {
        Ok(file(self.state().number, 0))
    }

    fn release(&self, _control: BorrowedFd<'_>) -> io::Result<String> {
        Ok("580.159.04".to_owned())
    }

    fn cards(&self, _control: BorrowedFd<'_>) -> io::Result<Vec<Card>> {
        let bar1 = self.state().bar1.unwrap_or(1 << 30);
        Ok(vec![Card { domain: 0, bus: 6, slot: 0, gpu_id: 0x600, minor: 7, bar1 }])
    }

    fn open_device(&self, minor: u32) -> io::Result<OwnedFd> {
        assert_eq!(minor, 7);
        let node = file(self.state().number, 0);
        self.state().nodes.insert(inode(node.as_fd()));
        Ok(node)
    }

    fn register(&self, device: BorrowedFd<'_>, _control: BorrowedFd<'_>) -> io::Result<()> {
        assert!(self.state().nodes.contains(&inode(device)));
        Ok(())
    }

    fn new_client(&self, _control: BorrowedFd<'_>) -> Answer<u32> {
        let mut state = self.call("client")?;
        state.clients += 1;
        Ok(0xc1d0_0100 + state.clients)
    }

    fn new_device(&self, _caller: Caller<'_>, _object: u32, instance: u32) -> Answer<()> {
        assert_eq!(instance, INSTANCE);
        self.call("device").map(drop)
    }

    fn new_subdevice(&self, _caller: Caller<'_>, _device: u32, _object: u32) -> Answer<()> {
        self.call("subdevice").map(drop)
    }

    fn free(&self, caller: Caller<'_>, _parent: u32, object: u32) -> Answer<()> {
        let mut state = self.call("free")?;
        state.memories.remove(&(caller.client, object));
        Ok(())
    }

    fn device_instance(&self, _caller: Caller<'_>, gpu_id: u32) -> Answer<u32> {
        assert_eq!(gpu_id, 0x600);
        self.call("instance").map(|_| INSTANCE)
    }

    fn static_bar1(&self, _caller: Caller<'_>, _subdevice: u32) -> Answer<bool> {
        Err(RmError::Status(Status::NOT_SUPPORTED))
    }

    fn duplicate(
        &self,
        caller: Caller<'_>,
        _parent: u32,
        object: u32,
        source: (u32, u32),
    ) -> Answer<()> {
        let mut state = self.call("duplicate")?;
        let memory = state.memories.get(&source).cloned().ok_or(Status::OBJECT_NOT_FOUND)?;
        state.memories.insert((caller.client, object), memory);
        Ok(())
    }

    fn export_info(&self, _caller: Caller<'_>, _file: BorrowedFd<'_>) -> Answer<Export> {
        let state = self.call("export_info")?;
        Ok(Export {
            device: state.export_instance.unwrap_or(INSTANCE),
            gpu_instance: None,
            objects: 1 + u16::from(state.fabric),
        })
    }

    fn import(
        &self,
        caller: Caller<'_>,
        _device: u32,
        file: BorrowedFd<'_>,
        first: u16,
        objects: &[u32],
    ) -> Answer<()> {
        let mut state = self.call("import")?;
        match usize::from(first) + objects.len() {
            1 => {}
            2 if state.fabric => return Err(Status::INVALID_OBJECT_PARENT.into()),
            count => panic!("{count} objects of an export"),
        }
        let memory = state
            .memories
            .values()
            .find(|memory| inode(memory.file.as_fd()) == inode(file))
            .cloned();
        state.memories.insert((caller.client, objects[0]), memory.ok_or(Status::INVALID_ARGUMENT)?);
        Ok(())
    }

    fn surface(&self, caller: Caller<'_>, memory: u32) -> Answer<Surface> {
        let state = self.call("surface")?;
        let memory =
            state.memories.get(&(caller.client, memory)).ok_or(Status::INVALID_OBJECT_HANDLE)?;
        Ok(Surface { space: rm::VIDEO_MEMORY, size: memory.size })
    }

    fn map(
        &self,
        caller: Caller<'_>,
        _device: u32,
        memory: u32,
        offset: u64,
        length: u64,
        file: BorrowedFd<'_>,
    ) -> Answer<u64> {
        let mut state = self.call("map")?;
        let memory = state
            .memories
            .get(&(caller.client, memory))
            .cloned()
            .ok_or(Status::OBJECT_NOT_FOUND)?;
        if offset + length > memory.size || !(offset | length).is_multiple_of(4096) {
            return Err(Status(0x2E).into());
        }
        let shown =
            if state.wrong { Arc::new(self::file(state.number, memory.size)) } else { memory.file };
        let linear = 0x1000 * (state.prepared.len() as u64 + 1);
        if state.prepared.insert(inode(file), (shown, offset, linear)).is_some() {
            return Err(Status::STATE_IN_USE.into());
        }
        state.mapped.insert(linear, None);
        Ok(linear)
    }

    fn unmap(&self, _caller: Caller<'_>, _device: u32, _memory: u32, linear: u64) -> Answer<()> {
        let mut state = self.call("unmap")?;
        let placed = state.mapped.remove(&linear).ok_or(Status::OBJECT_NOT_FOUND)?;
        if let Some((start, length)) = placed {
            assert!(
                !is_mapped(state.number, start, length),
                "RM unmaps before the addresses are unmapped"
            );
        }
        Ok(())
    }

    fn place(
        &self,
        vma: &mut Vma,
        at: usize,
        length: usize,
        file: BorrowedFd<'_>,
    ) -> io::Result<Option<()>> {
        let mut state = self.state();
        state.log.push("place".to_owned());
        if state.lost {
            return Ok(None);
        }
        let (memory, offset, linear) = state
            .prepared
            .get(&inode(file))
            .cloned()
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let start = vma.base().as_ptr().addr() + at;
        // The previous mapping was unmapped, or the address would not be free.
        for placed in state.mapped.values_mut() {
            if placed.is_some_and(|(from, bytes)| from < start + length && start < from + bytes) {
                *placed = None;
            }
        }
        state.mapped.insert(linear, Some((start, length)));
        vma.place(at, length, memory.as_fd(), offset)
    }
}

impl Owner for Fake {
    fn describe(&self, address: DevicePtr) -> Result<Option<Allocation>, gpu::Error> {
        Ok(self.state().find(address).map(|(allocation, ..)| allocation.clone()))
    }

    fn objection(&self, _ordinal: u32) -> Result<Option<&'static str>, gpu::Error> {
        Ok(None)
    }

    fn ipc_handle(&self, address: DevicePtr) -> Result<[u8; 64], gpu::Error> {
        let state = self.state();
        let (allocation, place, offset) = state.find(address).unwrap();
        let mut words = [0_u32; 16];
        let shift = usize::from(state.other_layout);
        words[4] = allocation.size as u32;
        words[5] = (allocation.size >> 32) as u32;
        words[6 + shift] = (state.memories[place].size / 4096) as u32;
        words[7 + shift] = *offset as u32;
        (words[12 + shift], words[13 + shift]) = *place;
        let mut bytes = [0; 64];
        for (at, word) in bytes.chunks_exact_mut(4).zip(words) {
            at.copy_from_slice(&word.to_le_bytes());
        }
        Ok(bytes)
    }

    fn export(&self, address: DevicePtr) -> Result<OwnedFd, gpu::Error> {
        let (file, _) = self.state().place(address).unwrap();
        Ok(file.try_clone().unwrap())
    }

    fn pool_place(&self, _address: DevicePtr) -> Result<[u8; 64], gpu::Error> {
        Ok([0; 64])
    }

    fn retain(&self, address: DevicePtr) -> Result<Box<dyn Retained>, gpu::Error> {
        let mut state = self.state();
        let (_, place, _) = state.find(address).unwrap();
        let number = u64::from(place.1);
        let root = address_of(state.structures.entry(number).or_insert_with(|| {
            let mut inner = Box::new([0; 32]);
            inner[0x38 / 8] = number;
            let mut root = Box::new([0; 32]);
            root[0x60 / 8] = address_of(Box::leak(inner));
            root
        }));
        Ok(Box::new(Structure(root)))
    }

    fn bench(&self, _near: DevicePtr) -> Result<Box<dyn Bench>, gpu::Error> {
        Ok(Box::new(self.clone()))
    }
}

fn address_of(words: &[u64; 32]) -> u64 {
    std::ptr::from_ref(words).expose_provenance() as u64
}

#[derive(Debug)]
struct Structure(u64);

impl Retained for Structure {
    fn address(&self) -> u64 {
        self.0
    }
}

/// Number of open files of this process.
pub(super) fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
