//! Correct operation: data arrives, kernels compute, events order work.

use fakes::{Driver, cuda};
use libloading::os::unix::Library;
use serde_json::{Value, json};

use crate::driver::on;

fn two() -> Value {
    json!({
        "driver_version": 13_000,
        "gpu": {"memory": 1 << 30},
        "gpus": [{"bdf": "0000:03:00.0"}, {"bdf": "0000:05:00.0"}],
        "pair": {"can_access": true},
    })
}

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

#[test]
fn memory_and_range_checks() {
    on("work::memory_and_range_checks", &two(), |cuda| {
        let contexts = cuda.start(2);
        assert_eq!(cuda.device(), Ok(0));
        let first = cuda.allocate(10_000).expect("memory");
        let second = cuda.allocate(10_000).expect("memory");
        assert!(first % 65_536 == 0 && second.abs_diff(first) >= 65_536);
        assert_eq!(cuda.info(), ((1 << 30) - 20_000, 1 << 30));
        assert_eq!(cuda.upload(first + 9_997, b"end"), 0);
        assert_eq!(cuda.copy(second, first + 9_996, 4), 0);
        assert_eq!(cuda.download(second, 4), Ok(b"\0end".to_vec()));
        assert_eq!(cuda.fill(second, 0x0102_0304, 2), 0);
        assert_eq!(cuda.download(second + 3, 3), Ok(vec![1, 4, 3]));

        // Outside an allocation, across its end, and unallocated.
        assert_eq!(cuda.upload(first + 9_998, b"end"), 1);
        assert_eq!(cuda.copy(second, first + 9_999, 2), 1);
        assert_eq!(cuda.download(64, 1), Err(1));
        assert_eq!(cuda.fill(second + 2, 0, 1), 1, "not a multiple of 4");
        assert_eq!(cuda.allocate(1 << 30), Err(2), "more than the free memory");
        assert_eq!(cuda.allocate(usize::MAX), Err(2));
        assert_eq!(cuda.allocate(0), Err(1));
        assert_eq!(cuda.free(first + 1), 1);
        assert_eq!((cuda.free(first), cuda.free(first)), (0, 1));
        assert_eq!(cuda.current(contexts[1]), 0);
        assert_eq!(
            (cuda.device(), cuda.info().0),
            (Ok(1), 1 << 30),
            "separate memory of the other GPU"
        );
        assert_eq!(cuda.current(0), 0);
        assert_eq!(cuda.allocate(1), Err(201), "no context");
        assert_eq!(cuda.current(contexts[0]), 0);
        assert_eq!(cuda.release(0), 0);
        assert_eq!(cuda.free(second), 1, "freed with the context");
    });
}

#[test]
fn pinned_and_registered_memory() {
    on("work::pinned_and_registered_memory", &two(), |cuda| {
        cuda.start(1);
        let pinned = cuda.pinned(4096);
        assert_eq!(cuda.device_pointer(pinned), Ok(pinned.addr() as u64));
        let mut own = vec![0_u8; 8192];
        let start = own.as_mut_ptr();
        assert_eq!(cuda.device_pointer(start), Err(1));
        assert_eq!((cuda.register(&mut own), cuda.register(&mut own[100..200])), (0, 712));
        assert_eq!(cuda.device_pointer(start), Ok(start.addr() as u64));
        // A kernel writes to host memory.
        assert_eq!(cuda.launch("fill_pattern", &[pinned.addr() as u64, 2, 0, 0], 1, 0), 0);
        assert_eq!(cuda.synchronize(0), 0);
        // SAFETY: allocated above, and the work is done.
        let word = unsafe { pinned.cast::<u32>().read() };
        // Word 0 of pattern 0, computed with Python's integers (crates/gpu/src/pattern.rs).
        assert_eq!(word, 0xdc1b_77ae);
        assert_eq!((cuda.unregister(&mut own), cuda.unregister(&mut own)), (0, 713));
        assert_eq!(cuda.launch("fill_pattern", &[start.addr() as u64, 2, 0, 0], 1, 0), 0);
        assert_eq!(cuda.synchronize(0), 700);
    });
}

#[test]
fn kernels() {
    on("work::kernels", &two(), |cuda| {
        cuda.start(1);
        let memory = cuda.allocate(4096).expect("memory");
        let key = 0x1234_5678_9abc_def0_u64.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        assert_eq!(cuda.launch("fill_pattern", &[memory, 512, key, 999], 2, 0), 0);
        // As above, word 1000 of that seed's pattern.
        assert_eq!(cuda.download(memory + 4, 4), Ok(0x3faf_5197_u32.to_le_bytes().to_vec()));
        let result = cuda.allocate(16).expect("memory");
        let check = |first: u64| {
            assert_eq!(cuda.upload(result, &[[0; 8], [0xff; 8]].concat()), 0);
            assert_eq!(cuda.launch("check_pattern", &[memory, 512, key, first, result], 2, 0), 0);
            let found = cuda.download(result, 16).expect("the result");
            let words: Vec<u64> = found
                .chunks(8)
                .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")))
                .collect();
            (words[0], words[1])
        };
        assert_eq!(check(999), (0, u64::MAX));
        assert_eq!(cuda.fill(memory + 400, 7, 3), 0);
        assert_eq!(check(999), (3, 100));

        let copy = cuda.allocate(4096).expect("memory");
        assert_eq!(cuda.launch("copy_words", &[copy, memory + 16, 4], 1, 0), 0);
        assert_eq!(cuda.download(copy, 64), cuda.download(memory + 16, 64));
        assert_eq!(cuda.download(copy + 64, 4), Ok(vec![0; 4]), "nothing beyond");

        // A cycle of three places: 0 → 64 → 8 → 0, and one whose link leaves the list, to 8 if
        // not detected.
        for (at, to) in [(0, 64), (64, 8), (8, 0), (16, 4096 + 8)] {
            assert_eq!(cuda.upload(copy + at, &u64::to_le_bytes(to)), 0);
        }
        let chase = |start: u64, hops: u64, block: u64| {
            assert_eq!(cuda.fill(result, 0, 2), 0);
            let parameters = [copy, start, hops, block, result, 4096 - 8];
            assert_eq!(cuda.launch("chase", &parameters, 2, 0), 0);
            u64::from_le_bytes(
                cuda.download(result, 8).expect("the result").try_into().expect("eight"),
            )
        };
        assert_eq!(chase(0, 5, 1), 8);
        assert_eq!(chase(64, 0, 0), 64);
        assert_eq!(chase(0, 5, 2), 0, "block index too large");
        for hops in [1, 2, 5] {
            assert_eq!(chase(16, hops, 0), u64::MAX);
        }
        assert_eq!(cuda.launch("hold", &[result, SECOND], 1, 0), 0);
        assert_eq!(cuda.synchronize(0), 0);

        let module = cuda.module(&["ping", "unheard_of"]).expect("a module");
        assert!(cuda.function(module, "ping").is_ok());
        assert_eq!(cuda.function(module, "ping_pong"), Err(500), "missing in the PTX text");
        assert_eq!(cuda.function(module, "unheard_of"), Err(500), "unknown kernel");
    });
}

#[test]
fn peer_access() {
    let mut machine = two();
    machine["pairs"] = json!([{"from": 1, "to": 0, "can_access": false}]);
    on("work::peer_access", &machine, |cuda| {
        let contexts = cuda.start(2);
        let here = cuda.allocate(64).expect("memory");
        assert_eq!(cuda.current(contexts[1]), 0);
        let there = cuda.allocate(64).expect("memory");
        assert_eq!(cuda.upload(there, b"there"), 0);
        assert_eq!(cuda.enable(contexts[0]), 217, "not in this direction");

        assert_eq!(cuda.current(contexts[0]), 0);
        assert_eq!(
            cuda.peer_copy((here, contexts[0]), (there, contexts[1]), 5),
            0,
            "without access"
        );
        assert_eq!(cuda.download(here, 5), Ok(b"there".to_vec()));
        assert_eq!(
            cuda.peer_copy((here, contexts[1]), (there, contexts[1]), 5),
            1,
            "not of this GPU"
        );
        assert_eq!(cuda.disable(contexts[1]), 705);
        assert_eq!((cuda.enable(contexts[1]), cuda.enable(contexts[1])), (0, 704));
        assert_eq!(cuda.enable(contexts[0]), 201, "itself");
        assert_eq!(cuda.launch("copy_words", &[there + 16, here, 1], 1, 0), 0);
        assert_eq!(cuda.download(there + 16, 5), Ok(b"there".to_vec()));
        assert_eq!((cuda.disable(contexts[1]), cuda.disable(contexts[1])), (0, 705));
        assert_eq!(cuda.launch("copy_words", &[there, here, 1], 1, 0), 0);
        assert_eq!(cuda.synchronize(0), 700);
        assert_eq!(cuda.allocate(64), Err(700), "from now on");
        assert_eq!(cuda.current(contexts[1]), 0, "but of this GPU");
        assert!(cuda.allocate(64).is_ok());
    });
}

#[test]
fn old_driver_lacks_newer_functions() {
    let library = cuda::build(Driver::Old).expect("the simulated library");
    // SAFETY: our own library, whose constructors do nothing.
    let library = unsafe { Library::new(library.join("libcuda.so.1")) }.expect("the library");
    // SAFETY: nothing is called.
    let has = |name: &str| unsafe { library.get::<extern "C" fn()>(name) }.is_ok();
    for (name, is_there) in [
        ("cuMemcpyPeerAsync", true),
        ("cuCtxEnablePeerAccess", true),
        ("cuEventElapsedTime", true),
        ("cuEventElapsedTime_v2", false),
        ("cuThreadExchangeStreamCaptureMode", false),
        ("cuMemGetHandleForAddressRange", false),
    ] {
        assert_eq!(has(name), is_there, "{name}");
    }
}
