//! The RM backend against a fake resource manager that enforces RM's rules.

use std::sync::Arc;

use gdr_sys::rm::Status;
use gpu::DevicePtr;

use super::fake::{CUDA, Fake};
use super::owner::AllocationKind;
use crate::{Error, Gdr, Kind, MapRequest, Mapping, MappingType, Pin, PinFlags};

const KINDS: [AllocationKind; 3] = [
    AllocationKind::Malloc,
    AllocationKind::Create { exportable: true },
    AllocationKind::Create { exportable: false },
];

fn setup() -> (Fake, Gdr) {
    let fake = Fake::default();
    let gdr = Gdr::over(Arc::new(fake.backend()));
    (fake, gdr)
}

fn pin(gdr: &Gdr, address: DevicePtr, length: usize) -> Result<Pin, Error> {
    // SAFETY: the fake's memory is files, whose mappings stay valid.
    unsafe { gdr.pin_raw(address, length, PinFlags::default()) }
}

fn map(gdr: &Gdr, address: DevicePtr, length: usize) -> Mapping {
    pin(gdr, address, length).unwrap().map(MapRequest::Default).unwrap()
}

fn wait(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` lives through the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

#[test]
fn maps_all_kinds() {
    for kind in KINDS {
        let (fake, gdr) = setup();
        // Another allocation first, so that the next one lies within a block.
        fake.allocate(kind, 5000);
        let address = fake.allocate(kind, 70_000);
        fake.poke(address.offset(123), b"from the GPU");
        let pin = pin(&gdr, address.offset(100), 60_000).unwrap();
        let mut mapping = pin.map(MapRequest::Default).unwrap();
        let mut seen = [0; 12];
        mapping.read(23, &mut seen).unwrap();
        assert_eq!(&seen, b"from the GPU", "{kind:?}");
        mapping.write(59_988, b"from the CPU").unwrap();
        fake.peek(address.offset(60_088), &mut seen);
        assert_eq!(&seen, b"from the CPU", "{kind:?}");
        let info = pin.info().unwrap();
        assert_eq!(info.va, (address.get() + 100) / 65536 * 65536);
        assert_eq!(mapping.as_ptr().as_ptr().addr() % 4096, (address.get() as usize + 100) % 4096);
        assert!(info.mapped && info.mapping_type == mapping.mapping_type());
        drop(mapping);
        assert!(!pin.info().unwrap().mapped);
    }
}

#[test]
fn drop_order() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 4096);
    drop(pin(&gdr, address, 4096).unwrap());
    fake.state().log.clear();
    // The fake's `unmap` fails the test if the addresses are still mapped.
    let mapping = map(&gdr, address, 4096);
    drop(mapping);
    assert_eq!(fake.state().log, ["duplicate", "surface", "map", "place", "unmap", "free"]);
    assert_eq!(fake.references(), 0);
}

#[test]
fn maps_range_of_several_allocations() {
    let (fake, gdr) = setup();
    let kind = AllocationKind::Create { exportable: false };
    let address = fake.allocate(kind, 2 << 20);
    assert_eq!(fake.allocate(kind, 4 << 20), address.offset(2 << 20));
    fake.gap();
    let border = (2 << 20) - 100;
    fake.poke(address.offset(border), &[1; 100]);
    fake.poke(address.offset(2 << 20), &[2; 100]);
    let mapping = map(&gdr, address.offset(4096), (5 << 20) - 4096);
    let mut seen = [0; 200];
    mapping.read(border as usize - 4096, &mut seen).unwrap();
    assert_eq!((&seen[..100], &seen[100..]), (&[1; 100][..], &[2; 100][..]));
    assert_eq!(fake.references(), 2);
    drop(mapping);
    assert_eq!(fake.references(), 0);
    // No memory follows the second one.
    let error = pin(&gdr, address, (6 << 20) + 1).unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error}");
    assert_eq!(fake.references(), 0);
}

#[test]
fn pins_address_rounded_to_page() {
    let (fake, gdr) = setup();
    let first = fake.allocate(AllocationKind::Malloc, 512);
    let address = fake.allocate(AllocationKind::Malloc, 512);
    fake.free(first);
    fake.poke(address, &[7; 512]);
    let mapping = map(&gdr, first, 65536);
    let mut seen = [0; 512];
    mapping.read((address.get() - first.get()) as usize, &mut seen).unwrap();
    assert_eq!(seen, [7; 512]);
}

#[test]
fn free_while_mapped() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 8 << 20);
    fake.poke(address, &[9; 64]);
    let pin = pin(&gdr, address, 8 << 20).unwrap();
    let mapping = pin.map(MapRequest::Default).unwrap();
    fake.free(address);
    assert_eq!(mapping.load::<u64>(0).unwrap(), 0x0909_0909_0909_0909);
    assert!(!pin.revoked().unwrap());
    assert_eq!(fake.references(), 1);
}

#[test]
fn free_between_pin_and_map() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 8 << 20);
    fake.poke(address, &[9; 64]);
    let pin = pin(&gdr, address, 8 << 20).unwrap();
    fake.free(address);
    let mapping = pin.map(MapRequest::Default).unwrap();
    assert_eq!(mapping.load::<u64>(0).unwrap(), 0x0909_0909_0909_0909);
}

#[test]
fn address_reuse_between_pin_and_map() {
    let (fake, gdr) = setup();
    let kind = AllocationKind::Create { exportable: false };
    let address = fake.allocate(kind, 8 << 20);
    fake.poke(address, &[9; 64]);
    let pin = pin(&gdr, address, 8 << 20).unwrap();
    fake.free(address);
    fake.allocate_at(address, kind, 8 << 20);
    fake.poke(address, &[7; 64]);
    let mapping = pin.map(MapRequest::Default).unwrap();
    assert_eq!(mapping.load::<u64>(0).unwrap(), 0x0909_0909_0909_0909);
    // SAFETY: as in `pin`.
    let fresh = unsafe { gdr.pin_raw(address, 8 << 20, PinFlags::default()) }.unwrap();
    let fresh = fresh.map(MapRequest::Default).unwrap();
    assert_eq!(fresh.load::<u64>(0).unwrap(), 0x0707_0707_0707_0707);
}

#[test]
fn one_mapping_with_new_file_each() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    let pin = pin(&gdr, address, 65536).unwrap();
    let mapping = pin.map(MapRequest::Default).unwrap();
    let error = pin.map(MapRequest::Default).unwrap_err();
    assert_eq!(error.errno(), libc::EAGAIN);
    drop(mapping);
    // The fake rejects a file that was used before.
    for _ in 0..10 {
        pin.map(MapRequest::Default).unwrap();
    }
    let error = pin.map(MapRequest::Cached).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::Invalid, libc::EINVAL));
    assert!(matches!(
        error,
        Error::MappingType { offered: MappingType::WriteCombining | MappingType::Device, .. }
    ));
}

#[test]
fn rm_errors_have_text_and_leak_nothing() {
    let cases = [
        ("client", 0x1B, libc::EACCES, "/dev/nvidiaN is not open"),
        ("device", 0x22, libc::EIO, "the GPU is not attached"),
        ("duplicate", 0x1B, libc::EACCES, "under MPS it belongs to the server"),
        ("duplicate", 0x57, libc::EINVAL, "the allocation was freed"),
        ("duplicate", 0x23, libc::EACCES, "after fork"),
        ("surface", 0x3A, libc::EINVAL, "does not know this driver's ABI"),
        ("map", 0x51, libc::ENOMEM, "BAR1 is used up"),
        ("map", 0x56, libc::EINVAL, "confidential computing, MIG"),
        ("map", 0x63, libc::EAGAIN, "a bug in this library"),
        ("map", 0x0F, libc::EIO, "the GPU is lost"),
        ("map", 0x36, libc::EINVAL, "belongs to no device"),
        ("map", 0x7777, libc::EIO, "NV status 0x7777"),
    ];
    for (call, status, errno, words) in cases {
        // After the trials, so that the user's buffer is rejected.
        let (fake, gdr) = setup();
        let address = fake.allocate(AllocationKind::Malloc, 65536);
        if !["client", "device"].contains(&call) {
            drop(pin(&gdr, address, 65536).unwrap());
        }
        let files = super::fake::open_files();
        fake.state().errors.insert(call, Status(status));
        let error =
            pin(&gdr, address, 65536).and_then(|pin| pin.map(MapRequest::Default)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words), "{call} {status:#x}: {text}");
        assert_eq!(error.errno(), errno, "{call} {status:#x}: {text}");
        assert_eq!(fake.references(), 0, "{call} {status:#x}");
        drop(error);
        // Files can only be counted if each test has its own process.
        if std::env::var_os("NEXTEST").is_some() && !["client", "device"].contains(&call) {
            assert_eq!(super::fake::open_files(), files, "{call} {status:#x}");
        }
    }
}

#[test]
fn unmaps_wrong_memory() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    fake.poke(address, &[0x11; 65536]);
    drop(pin(&gdr, address, 65536).unwrap());
    fake.state().wrong = true;
    fake.state().log.clear();
    let error = pin(&gdr, address, 65536).unwrap().map(MapRequest::Default).unwrap_err();
    let Error::Verification { expected, found, .. } = error else { panic!("{error}") };
    assert_eq!((expected, found), ([0x11; 8], [0; 8]));
    assert_eq!(fake.state().log.iter().rev().take(2).collect::<Vec<_>>(), ["free", "unmap"]);
    assert_eq!(fake.references(), 0);
}

#[test]
fn failed_trial_is_final() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    fake.state().wrong = true;
    let first = pin(&gdr, address, 65536).unwrap_err().to_string();
    assert!(first.contains("failed the trial") && first.contains("shows other memory"), "{first}");
    fake.state().wrong = false;
    fake.state().log.clear();
    let second = pin(&gdr, address, 65536).unwrap_err();
    assert_eq!((second.to_string(), second.errno()), (first, libc::EINVAL));
    assert!(fake.state().log.is_empty());
    // Other methods still work.
    let exportable = fake.allocate(AllocationKind::Create { exportable: true }, 65536);
    pin(&gdr, exportable, 65536).unwrap();
}

#[test]
fn rejects_unknown_handle_layout() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    fake.state().other_layout = true;
    let error = pin(&gdr, address, 65536).unwrap_err().to_string();
    assert!(error.contains("does not know this CUDA's layout of IPC handles"), "{error}");
    assert!(!fake.state().log.contains(&"duplicate".to_owned()));
}

#[test]
fn rejects_export_of_other_gpu() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Create { exportable: true }, 65536);
    fake.state().export_instance = Some(0);
    let error = pin(&gdr, address, 65536).unwrap_err().to_string();
    assert!(error.contains("belongs to another GPU than CUDA reports"), "{error}");
    assert!(!fake.state().log.contains(&"import".to_owned()));
}

#[test]
fn maps_export_with_object_of_fabric() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Create { exportable: true }, 65536);
    fake.state().fabric = true;
    pin(&gdr, address, 65536).unwrap();
}

#[test]
fn detects_lost_gpu_in_mmap() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    let pin = pin(&gdr, address, 65536).unwrap();
    fake.state().lost = true;
    let error = pin.map(MapRequest::Default).unwrap_err();
    assert!(matches!(error, Error::GpuLost { .. }), "{error}");
    assert_eq!(fake.state().log.last().map(String::as_str), Some("unmap"));
}

#[test]
fn small_bar1_is_an_error() {
    let fake = Fake::default();
    fake.state().bar1 = Some(256 << 20);
    let gdr = Gdr::over(Arc::new(fake.backend()));
    let address = fake.allocate(AllocationKind::Malloc, 200 << 20);
    let held = map(&gdr, address, 200 << 20);
    let second = pin(&gdr, address, 50 << 20).unwrap();
    let error = second.map(MapRequest::Default).unwrap_err();
    assert_eq!(error.errno(), libc::ENOMEM);
    assert!(error.to_string().contains("do not fit the GPU's BAR1"), "{error}");
    drop(held);
    second.map(MapRequest::Default).unwrap();
}

#[test]
fn rejects_other_kinds() {
    let (fake, gdr) = setup();
    let managed = fake
        .allocate(AllocationKind::Other("managed memory, which moves between GPU and host"), 65536);
    let pool = fake.allocate(AllocationKind::Pool { exportable: false }, 65536);
    for (address, words) in [(managed, "managed memory"), (pool, "a pool that cannot be exported")]
    {
        let error = pin(&gdr, address, 65536).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.errno(), libc::EINVAL);
    }
    let nowhere = pin(&gdr, DevicePtr::new(0x1234), 100).unwrap_err();
    assert!(matches!(nowhere, Error::Address { .. }));
    assert!(pin(&gdr, managed, 0).is_err());
    assert!(pin(&gdr, managed, usize::MAX).is_err());
}

#[test]
fn eight_threads_share_memory() {
    let (fake, gdr) = setup();
    let kind = AllocationKind::Create { exportable: false };
    let address = fake.allocate(kind, 2 << 20);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let gdr = &gdr;
            scope.spawn(move || {
                for round in 0..20_u64 {
                    let pin = pin(gdr, address.offset(thread * 65536), 65536).unwrap();
                    let mut mapping = pin.map(MapRequest::Default).unwrap();
                    mapping.store(8 * 100, thread << 32 | round).unwrap();
                    assert_eq!(mapping.load::<u64>(8 * 100).unwrap(), thread << 32 | round);
                }
            });
        }
    });
    assert_eq!(fake.references(), 0);
}

/// True if this process has a mapping at the address.
fn is_mapped(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().any(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let bound = |text| usize::from_str_radix(text, 16).unwrap();
        (bound(start)..bound(end)).contains(&address)
    })
}

#[test]
fn fork_excludes_mapping() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    let pin = pin(&gdr, address, 65536).unwrap();
    let mapping = pin.map(MapRequest::Default).unwrap();
    let address = mapping.as_ptr().addr().get();
    assert!(is_mapped(address));
    let calls = fake.state().log.len();
    // SAFETY: the child makes its checks and calls _exit; no other thread holds the fake's lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inherited = is_mapped(address);
        let refused = pin.info().is_err() && pin.revoked().is_err();
        drop((mapping, pin));
        let quiet = fake.state().log.len() == calls;
        // SAFETY: ends the child.
        unsafe {
            libc::_exit(i32::from(inherited) | i32::from(!refused) << 1 | i32::from(!quiet) << 2)
        };
    }
    let status = wait(child);
    assert_eq!(status, 0, "exit code and signal of the child");
    assert_eq!(mapping.load::<u8>(0).unwrap(), 0);
}

#[test]
fn child_opens_own_client() {
    let (fake, gdr) = setup();
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    drop(pin(&gdr, address, 65536).unwrap());
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        fake.state().log.clear();
        let works = pin(&gdr, address, 65536).and_then(|pin| pin.map(MapRequest::Default)).is_ok();
        let fresh = fake.state().log.first().is_some_and(|call| call == "client");
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!works) | i32::from(!fresh) << 1) };
    }
    let status = wait(child);
    assert_eq!(status, 0);
}

/// Another thread of the parent is creating the client at the fork.
#[test]
fn child_ignores_parents_locks() {
    let fake = Fake::default();
    let backend = fake.backend();
    let shared = Arc::clone(&backend.shared);
    let gdr = Gdr::over(Arc::new(backend));
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    drop(pin(&gdr, address, 65536).unwrap());
    let held = shared.state.get().lock().unwrap();
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: kills a child that hangs.
        unsafe { libc::alarm(60) };
        let works = pin(&gdr, address, 65536).and_then(|pin| pin.map(MapRequest::Default)).is_ok();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!works)) };
    }
    let status = wait(child);
    assert_eq!(status, 0);
    drop(held);
    drop(pin(&gdr, address, 65536).unwrap());
}

#[test]
fn never_frees_cudas_objects() {
    let (fake, gdr) = setup();
    for kind in KINDS {
        let address = fake.allocate(kind, 65536);
        drop(map(&gdr, address, 65536));
    }
    let foreign = fake.state().objects_of(CUDA);
    drop(gdr);
    assert_eq!(fake.state().objects_of(CUDA), foreign);
}
