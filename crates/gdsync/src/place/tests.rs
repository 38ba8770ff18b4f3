//! Host and GPU places, accessed by the CPU and by streams.

use std::time::Duration;

use gdrcopy::BackendKind;
use gpu::{Compare, MemOp};

use super::*;

fn allocator() -> Allocator {
    Allocator::new(Gpu::sim(), Gdr::open_with(BackendKind::Sim).ok())
}

/// Locations to test. Miri cannot map files, and simulated GPU memory is a file.
pub(crate) fn locations() -> &'static [MemoryLocation] {
    if cfg!(miri) { &[MemoryLocation::Host] } else { &[MemoryLocation::Host, MemoryLocation::Gpu] }
}

#[test]
fn cpu_and_stream_access_same_bytes() {
    let allocator = allocator();
    let stream = allocator.gpu().stream().unwrap();
    for &location in locations() {
        let place = allocator.place(location, 4096).unwrap();
        assert_eq!(place.is_device(), location == MemoryLocation::Gpu);
        let part = place.part(64, 64).unwrap();
        assert_eq!(part.address(), place.address() + 64);
        let batch = [
            MemOp::Wait32 {
                at: part.word(8, 4).unwrap(),
                value: 3,
                compare: Compare::Geq,
                flush: false,
            },
            MemOp::Write32 { at: part.word(0, 4).unwrap(), value: 0x0102_0304 },
            MemOp::Write64 { at: part.word(16, 8).unwrap(), value: 0x1112_1314_1516_1718 },
        ];
        stream.batch(&batch).unwrap();
        place.store_u32(72, 3).unwrap();
        stream.synchronize_within(Duration::from_secs(60)).unwrap();
        assert_eq!(place.load_u32(64).unwrap(), 0x0102_0304);
        assert_eq!(part.load_u64(16).unwrap(), 0x1112_1314_1516_1718);
        let mut bytes = [0; 2];
        part.write(40, &[7, 8]).unwrap();
        place.read(104, &mut bytes).unwrap();
        assert_eq!(bytes, [7, 8]);
        part.store_u64(56, 9).unwrap();
        assert_eq!(place.load_u64(120).unwrap(), 9);
    }
}

#[test]
fn rejects_ranges_outside_a_part() {
    for &location in locations() {
        let place = allocator().place(location, 4096).unwrap();
        let part = place.part(64, 64).unwrap();
        assert!(place.part(4090, 7).is_err() && place.part(usize::MAX, 2).is_err());
        assert!(
            part.load_u32(61).is_err() && part.load_u32(64).is_err() && part.load_u32(2).is_err()
        );
        assert!(part.store_u64(60, 0).is_err() && part.store_u64(4, 0).is_err());
        assert!(part.write(64, &[1]).is_err() && part.read(60, &mut [0; 5]).is_err());
        assert!(part.word(64, 4).is_err() && part.word(62, 4).is_err());
        assert!(part.word(60, 8).is_err() && part.word(4, 8).is_err());
        assert!(part.write(64, &[]).is_ok());
    }
}

#[test]
fn gpu_memory_needs_gdrcopy() {
    let allocator = Allocator::new(Gpu::sim(), None);
    assert!(matches!(allocator.place(MemoryLocation::Gpu, 64), Err(Error::NoMapping)));
    assert!(allocator.place(MemoryLocation::Host, 64).is_ok());
}

#[test]
fn reuses_unshared_pages() {
    let pages = Pages::default();
    let allocator = Allocator::own_pages(Gpu::sim(), None, &pages);
    let place = allocator.place(MemoryLocation::Host, 100).unwrap();
    let part = place.part(8, 4).unwrap();
    place.store_u32(8, 7).unwrap();
    let address = place.address();
    drop(place);
    // `part` still holds the memory.
    let other = allocator.place(MemoryLocation::Host, 100).unwrap();
    assert_ne!(other.address(), address);
    assert_eq!(part.load_u32(0).unwrap(), 7);
    drop(part);
    // A place of another size cannot reuse it.
    assert_ne!(allocator.place(MemoryLocation::Host, 200).unwrap().address(), address);
    let again = allocator.place(MemoryLocation::Host, 100).unwrap();
    assert_eq!((again.address(), again.load_u32(8).unwrap()), (address, 0));
    assert!(allocator.gdr().is_none());
}
