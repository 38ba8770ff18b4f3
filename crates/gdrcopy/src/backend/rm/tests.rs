//! The backend against a resource manager that holds it to the rules.

use std::sync::Arc;

use gdr_sys::rm::Status;
use gpu::DevicePtr;

use super::fake::{CUDA, Fake};
use super::owner::AllocationKind;
use crate::{Error, Gdr, Kind, MapRequest, MappingType, Pin, PinFlags};

const SORTS: [AllocationKind; 3] = [
    AllocationKind::Malloc,
    AllocationKind::Create { exportable: true },
    AllocationKind::Create { exportable: false },
];

fn gdr(fake: &Fake) -> Gdr {
    Gdr::over(Arc::new(fake.backend()))
}

fn pin(gdr: &Gdr, address: DevicePtr, length: usize) -> Result<Pin, Error> {
    // SAFETY: the fake's memory is files; what is mapped of them stays.
    unsafe { gdr.pin_raw(address, length, PinFlags::default()) }
}

#[test]
fn what_the_gpu_writes_the_cpu_reads_and_the_other_way_round() {
    for kind in SORTS {
        let fake = Fake::default();
        let gdr = gdr(&fake);
        // A neighbour, so that the second one lies within a block.
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
        assert_eq!(
            mapping.as_ptr().as_ptr().addr() % 4096,
            (address.get() as usize + 100) % 4096
        );
        assert!(info.mapped && info.mapping_type == mapping.mapping_type());
        drop(mapping);
        assert!(!pin.info().unwrap().mapped);
    }
}

#[test]
fn the_addresses_go_first_then_the_mapping_then_the_reference() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 4096);
    drop(pin(&gdr, address, 4096).unwrap());
    fake.world().log.clear();
    // The fake's `unmap` fails the test where the addresses are still there.
    let mapping = pin(&gdr, address, 4096)
        .unwrap()
        .map(MapRequest::Default)
        .unwrap();
    drop(mapping);
    assert_eq!(
        fake.world().log,
        ["duplicate", "surface", "map", "place", "unmap", "free"]
    );
    assert_eq!(fake.references(), 0);
}

#[test]
fn a_range_over_several_allocations_is_one_mapping() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let kind = AllocationKind::Create { exportable: false };
    let address = fake.allocate(kind, 2 << 20);
    assert_eq!(fake.allocate(kind, 4 << 20), address.offset(2 << 20));
    fake.gap();
    let border = (2 << 20) - 100;
    fake.poke(address.offset(border), &[1; 100]);
    fake.poke(address.offset(2 << 20), &[2; 100]);
    let mapping = pin(&gdr, address.offset(4096), (5 << 20) - 4096)
        .unwrap()
        .map(MapRequest::Default)
        .unwrap();
    let mut seen = [0; 200];
    mapping.read(border as usize - 4096, &mut seen).unwrap();
    assert_eq!((&seen[..100], &seen[100..]), (&[1; 100][..], &[2; 100][..]));
    assert_eq!(fake.references(), 2);
    drop(mapping);
    assert_eq!(fake.references(), 0);
    // Beyond the second one there is nothing.
    let error = pin(&gdr, address, (6 << 20) + 1).unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error}");
    assert_eq!(fake.references(), 0);
}

#[test]
fn an_address_rounded_down_to_its_page_pins_the_page() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let first = fake.allocate(AllocationKind::Malloc, 512);
    let address = fake.allocate(AllocationKind::Malloc, 512);
    fake.free(first);
    fake.poke(address, &[7; 512]);
    let mapping = pin(&gdr, first, 65536)
        .unwrap()
        .map(MapRequest::Default)
        .unwrap();
    let mut seen = [0; 512];
    mapping
        .read((address.get() - first.get()) as usize, &mut seen)
        .unwrap();
    assert_eq!(seen, [7; 512]);
}

#[test]
fn memory_that_is_freed_while_mapped_stays() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
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
fn memory_that_is_freed_between_pin_and_map_is_mapped_as_it_was() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 8 << 20);
    fake.poke(address, &[9; 64]);
    let pin = pin(&gdr, address, 8 << 20).unwrap();
    fake.free(address);
    let mapping = pin.map(MapRequest::Default).unwrap();
    assert_eq!(mapping.load::<u64>(0).unwrap(), 0x0909_0909_0909_0909);
}

#[test]
fn memory_whose_address_is_other_memory_by_now_is_mapped_as_it_was() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
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
fn one_mapping_at_a_time_each_through_a_fresh_file() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    let pin = pin(&gdr, address, 65536).unwrap();
    let mapping = pin.map(MapRequest::Default).unwrap();
    let error = pin.map(MapRequest::Default).unwrap_err();
    assert_eq!(error.errno(), libc::EAGAIN);
    drop(mapping);
    // The fake refuses a file that was prepared before.
    for _ in 0..10 {
        pin.map(MapRequest::Default).unwrap();
    }
    let error = pin.map(MapRequest::Cached).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (Kind::Invalid, libc::EINVAL));
    assert!(matches!(
        error,
        Error::MappingType {
            offered: MappingType::WriteCombining | MappingType::Device,
            ..
        }
    ));
}

#[test]
fn each_refusal_is_told_in_words_and_leaves_nothing() {
    let cases = [
        ("client", 0x1B, libc::EACCES, "/dev/nvidiaN is not open"),
        ("device", 0x22, libc::EIO, "the GPU is not attached"),
        (
            "duplicate",
            0x1B,
            libc::EACCES,
            "under MPS it is the server's",
        ),
        ("duplicate", 0x57, libc::EINVAL, "the allocation was freed"),
        ("duplicate", 0x23, libc::EACCES, "after fork"),
        (
            "surface",
            0x3A,
            libc::EINVAL,
            "an ABI this library does not know",
        ),
        ("map", 0x51, libc::ENOMEM, "BAR1 is used up"),
        ("map", 0x56, libc::EINVAL, "confidential computing, MIG"),
        ("map", 0x63, libc::EAGAIN, "a mistake of this library"),
        ("map", 0x0F, libc::EIO, "the GPU is lost"),
        ("map", 0x36, libc::EINVAL, "belongs to no device"),
        ("map", 0x7777, libc::EIO, "NV status 0x7777"),
    ];
    for (call, status, errno, words) in cases {
        // After the trials, so that the user's own buffer is refused.
        let fake = Fake::default();
        let gdr = gdr(&fake);
        let address = fake.allocate(AllocationKind::Malloc, 65536);
        if !["client", "device"].contains(&call) {
            drop(pin(&gdr, address, 65536).unwrap());
        }
        let files = super::fake::open_files();
        fake.world().errors.insert(call, Status(status));
        let error = pin(&gdr, address, 65536)
            .and_then(|pin| pin.map(MapRequest::Default))
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains(words), "{call} {status:#x}: {text}");
        assert_eq!(error.errno(), errno, "{call} {status:#x}: {text}");
        assert_eq!(fake.references(), 0, "{call} {status:#x}");
        drop(error);
        // Files are counted where each test has a process of its own.
        if std::env::var_os("NEXTEST").is_some() && !["client", "device"].contains(&call) {
            assert_eq!(super::fake::open_files(), files, "{call} {status:#x}");
        }
    }
}

#[test]
fn a_mapping_that_shows_other_memory_is_refused_and_taken_down() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    fake.poke(address, &[0x11; 65536]);
    drop(pin(&gdr, address, 65536).unwrap());
    fake.world().wrong = true;
    fake.world().log.clear();
    let error = pin(&gdr, address, 65536)
        .unwrap()
        .map(MapRequest::Default)
        .unwrap_err();
    let Error::Verification {
        expected, found, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((expected, found), ([0x11; 8], [0; 8]));
    assert_eq!(
        fake.world().log.iter().rev().take(2).collect::<Vec<_>>(),
        ["free", "unmap"]
    );
    assert_eq!(fake.references(), 0);
}

#[test]
fn a_way_that_fails_the_trial_is_off_and_not_tried_again() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    fake.world().wrong = true;
    let first = pin(&gdr, address, 65536).unwrap_err().to_string();
    assert!(
        first.contains("did not pass the trial") && first.contains("shows other memory"),
        "{first}"
    );
    fake.world().wrong = false;
    fake.world().log.clear();
    let second = pin(&gdr, address, 65536).unwrap_err();
    assert_eq!((second.to_string(), second.errno()), (first, libc::EINVAL));
    assert!(fake.world().log.is_empty());
    // The other ways are not concerned.
    let exportable = fake.allocate(AllocationKind::Create { exportable: true }, 65536);
    pin(&gdr, exportable, 65536).unwrap();
}

#[test]
fn another_layout_of_cudas_handles_is_not_guessed_at() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    fake.world().other_layout = true;
    let error = pin(&gdr, address, 65536).unwrap_err().to_string();
    assert!(
        error.contains("laid out in a way this library does not know"),
        "{error}"
    );
    assert!(!fake.world().log.contains(&"duplicate".to_owned()));
}

#[test]
fn exported_memory_of_another_gpu_is_refused() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Create { exportable: true }, 65536);
    fake.world().export_instance = Some(0);
    let error = pin(&gdr, address, 65536).unwrap_err().to_string();
    assert!(
        error.contains("belongs to another GPU than CUDA says"),
        "{error}"
    );
    assert!(!fake.world().log.contains(&"import".to_owned()));
}

#[test]
fn a_lost_gpu_is_seen_when_mapping_gives_no_address() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    let pin = pin(&gdr, address, 65536).unwrap();
    fake.world().lost = true;
    let error = pin.map(MapRequest::Default).unwrap_err();
    assert!(matches!(error, Error::GpuLost { .. }), "{error}");
    assert_eq!(fake.world().log.last().map(String::as_str), Some("unmap"));
}

#[test]
fn a_small_bar1_is_not_filled() {
    let fake = Fake::default();
    fake.world().bar1 = Some(256 << 20);
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 200 << 20);
    let held = pin(&gdr, address, 200 << 20)
        .unwrap()
        .map(MapRequest::Default)
        .unwrap();
    let second = pin(&gdr, address, 50 << 20).unwrap();
    let error = second.map(MapRequest::Default).unwrap_err();
    assert_eq!(error.errno(), libc::ENOMEM);
    assert!(
        error.to_string().contains("do not fit the GPU's BAR1"),
        "{error}"
    );
    drop(held);
    second.map(MapRequest::Default).unwrap();
}

#[test]
fn memory_of_other_sorts_is_refused_in_words() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let managed = fake.allocate(
        AllocationKind::Other("managed memory, which moves between GPU and host"),
        65536,
    );
    let pool = fake.allocate(AllocationKind::Pool { exportable: false }, 65536);
    for (address, words) in [
        (managed, "managed memory"),
        (pool, "a pool that cannot be exported"),
    ] {
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
fn eight_threads_pin_and_map_the_same_memory() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
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

#[test]
fn a_forked_child_has_no_mapping_and_frees_nothing() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    let pin = pin(&gdr, address, 65536).unwrap();
    let mapping = pin.map(MapRequest::Default).unwrap();
    let calls = fake.world().log.len();
    // SAFETY: the child makes its checks and ends by _exit; no other thread of this test holds the
    // fake's lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let inherited = std::fs::read_to_string("/proc/self/maps")
            .unwrap()
            .contains("memfd:memory");
        let refused = pin.info().is_err() && pin.revoked().is_err();
        drop((mapping, pin));
        let quiet = fake.world().log.len() == calls;
        // SAFETY: ends the child.
        unsafe {
            libc::_exit(i32::from(inherited) | i32::from(!refused) << 1 | i32::from(!quiet) << 2)
        };
    }
    let mut status = 0;
    // SAFETY: `status` lives through the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "exit code and signal of the child");
    assert_eq!(mapping.load::<u8>(0).unwrap(), 0);
}

#[test]
fn a_child_that_opens_after_the_fork_has_a_client_of_its_own() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    let address = fake.allocate(AllocationKind::Malloc, 65536);
    drop(pin(&gdr, address, 65536).unwrap());
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        fake.world().log.clear();
        let works = pin(&gdr, address, 65536)
            .and_then(|pin| pin.map(MapRequest::Default))
            .is_ok();
        let fresh = fake
            .world()
            .log
            .first()
            .is_some_and(|call| call == "client");
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!works) | i32::from(!fresh) << 1) };
    }
    let mut status = 0;
    // SAFETY: `status` lives through the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

/// Another thread of the parent is about to make the client at the fork.
#[test]
fn a_child_waits_for_no_lock_of_its_parent() {
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
        // SAFETY: ends a child that waits, by a signal.
        unsafe { libc::alarm(60) };
        let works = pin(&gdr, address, 65536)
            .and_then(|pin| pin.map(MapRequest::Default))
            .is_ok();
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(!works)) };
    }
    let mut status = 0;
    // SAFETY: `status` lives through the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    drop(held);
    drop(pin(&gdr, address, 65536).unwrap());
}

#[test]
fn cudas_own_objects_are_never_freed() {
    let fake = Fake::default();
    let gdr = gdr(&fake);
    for kind in SORTS {
        let address = fake.allocate(kind, 65536);
        drop(
            pin(&gdr, address, 65536)
                .unwrap()
                .map(MapRequest::Default)
                .unwrap(),
        );
    }
    let theirs = fake.world().objects_of(CUDA);
    drop(gdr);
    assert_eq!(fake.world().objects_of(CUDA), theirs);
}
