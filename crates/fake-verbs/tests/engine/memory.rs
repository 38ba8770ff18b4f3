//! Which memory can be registered, and where its bytes go.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use ibverbs_sys::*;
use serde_json::json;

use crate::driver::*;
use crate::end::*;
use ibv_wr_opcode::*;

const PAGE: usize = 4096;

/// New pages with this protection.
fn pages(count: usize, rights: c_int) -> *mut c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping replaces nothing.
    let start = unsafe { libc::mmap(null_mut(), count * PAGE, rights, flags, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start
}

/// A memfd of this name and size.
fn file(name: &std::ffi::CStr, bytes: usize) -> c_int {
    // SAFETY: a valid name.
    let file = unsafe { libc::memfd_create(name.as_ptr(), 0) };
    let bytes = bytes.try_into().expect("a size");
    // SAFETY: the file was just made.
    assert_eq!(unsafe { libc::ftruncate(file, bytes) }, 0);
    file
}

fn shared(file: c_int, bytes: usize) -> *mut c_void {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping replaces nothing.
    let start = unsafe { libc::mmap(null_mut(), bytes, rights, libc::MAP_SHARED, file, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start
}

#[test]
fn checks_mapping_and_access_rights() {
    on(
        "memory::checks_mapping_and_access_rights",
        &two(&json!({})),
        |verbs| {
            let pd = verbs.pd(verbs.open(0)).expect("a domain");
            let all = pages(3, libc::PROT_READ | libc::PROT_WRITE);
            let ok = |start: *mut c_void, bytes: usize, access: u32| {
                verbs.register(pd, start, bytes, access).map(|mr| {
                    // SAFETY: a live registration.
                    let made = unsafe { *mr };
                    assert_eq!((made.addr, made.length, made.pd), (start, bytes, pd));
                    assert_eq!(verbs.deregister(mr), 0);
                })
            };
            assert_eq!(ok(all, 3 * PAGE, ALL), Ok(()));
            // Unmap the middle page.
            let middle = all.wrapping_byte_add(PAGE);
            // SAFETY: nothing uses the page.
            assert_eq!(unsafe { libc::munmap(middle, PAGE) }, 0);
            assert_eq!(ok(all, PAGE, ALL), Ok(()));
            for (start, bytes) in [
                (all, PAGE + 1),
                (middle, 1),
                (all, 3 * PAGE),
                (middle.wrapping_byte_add(PAGE - 1), 2),
            ] {
                assert_eq!(ok(start, bytes, ALL), Err(libc::EFAULT));
            }
            assert_eq!(ok(null_mut(), 64, ALL), Err(libc::EFAULT));
            let sealed = pages(1, libc::PROT_READ);
            assert_eq!(
                (
                    ok(sealed, PAGE, 1),
                    ok(sealed, PAGE, 0),
                    ok(sealed, PAGE, 4)
                ),
                (Err(libc::EFAULT), Ok(()), Ok(()))
            );
            assert_eq!(ok(pages(1, libc::PROT_NONE), PAGE, 0), Err(libc::EFAULT));

            assert_eq!(
                (ok(all, 0, ALL), ok(all, usize::MAX, ALL)),
                (Err(libc::EINVAL), Err(libc::EINVAL))
            );
            // Remote write and atomic need local write.
            assert_eq!(
                (ok(all, 8, 2), ok(all, 8, 8), ok(all, 8, 4)),
                (Err(libc::EINVAL), Err(libc::EINVAL), Ok(()))
            );
            assert_eq!(
                (ok(all, 8, 1 << 10), ok(all, 8, 1 << 20)),
                (Err(libc::EINVAL), Ok(()))
            );
            assert_eq!(verbs.register(null_mut(), all, 8, 0), Err(libc::EINVAL));
            assert_eq!(verbs.deregister(null_mut()), libc::EINVAL);
        },
    );
}

#[test]
fn memlock_limit() {
    on(
        "memory::memlock_limit",
        &two(&json!({"memlock": 3 * PAGE})),
        |verbs| {
            let pd = verbs.pd(verbs.open(0)).expect("a domain");
            let all = pages(4, libc::PROT_READ | libc::PROT_WRITE);
            // Two bytes on two pages.
            let two = verbs
                .register(pd, all.wrapping_byte_add(PAGE - 1), 2, ALL)
                .expect("memory");
            assert_eq!(verbs.register(pd, all, PAGE + 1, ALL), Err(libc::ENOMEM));
            let one = verbs.register(pd, all, PAGE, ALL).expect("memory");
            assert_eq!(verbs.register(pd, all, 1, ALL), Err(libc::ENOMEM));
            assert_eq!((verbs.deregister(two), verbs.deregister(one)), (0, 0));
            assert!(verbs.register(pd, all, 3 * PAGE, ALL).is_ok());
        },
    );
}

#[test]
fn registers_mappable_file_as_dma_buf() {
    let corrupt = json!({"corrupt": {"as": "drop", "opcode": "read", "memory": "device"}});
    on(
        "memory::registers_mappable_file_as_dma_buf",
        &two(&corrupt),
        |verbs| {
            let (here, there) = pair(verbs, RC);
            let buffer = file(c"buffer", 4 * PAGE);
            let offset = PAGE as u64 + 100;
            let mr = verbs
                .register_file(there.pd, (buffer, offset, PAGE), 0x7000_0064)
                .expect("memory");
            // SAFETY: a live registration.
            let rkey = unsafe { (*mr).rkey };
            here.write(0, b"in the file");
            let mut write = request(1, IBV_WR_RDMA_WRITE, &[(0, 11)]);
            write.remote = (0x7000_0064 + 7, rkey);
            assert_eq!(here.post(&write), 0);
            assert_eq!(here.completions(), [(1, 0)]);
            let mut found = [0_u8; 13];
            let into = (offset + 6).try_into().expect("an offset");
            // SAFETY: the buffer has 13 bytes.
            let count = unsafe { libc::pread(buffer, found.as_mut_ptr().cast(), 13, into) };
            assert_eq!((count, &found), (13, b"\0in the file\0"));
            // A dma-buf counts as device memory.
            let mut read = request(2, IBV_WR_RDMA_READ, &[(100, 11)]);
            read.remote = write.remote;
            assert_eq!(here.post(&read), 0);
            assert_eq!(
                (here.completions(), here.read(100, 11)),
                (vec![(2, 0)], vec![0; 11])
            );
            // Closing the file keeps the registration.
            // SAFETY: opened by this test.
            assert_eq!(unsafe { libc::close(buffer) }, 0);
            assert_eq!(here.post(&write), 0);
            assert_eq!(
                (here.completions(), verbs.deregister(mr)),
                (vec![(1, 0)], 0)
            );

            let pd = there.pd;
            let buffer = file(c"buffer", PAGE);
            assert_eq!(
                verbs.register_file(pd, (-1, 0, 0), 0),
                Err(libc::EBADF),
                "the probe of support"
            );
            assert_eq!(verbs.register_file(pd, (-1, 0, PAGE), 0), Err(libc::EBADF));
            assert_eq!(
                verbs.register_file(pd, (4711, 0, PAGE), 0),
                Err(libc::EBADF)
            );
            assert_eq!(
                verbs.register_file(pd, (buffer, 0, PAGE + 1), 0),
                Err(libc::EINVAL),
                "too short"
            );
            assert_eq!(
                verbs.register_file(pd, (buffer, 100, 8), 99),
                Err(libc::EINVAL),
                "other offset in the page"
            );
            assert_eq!(
                verbs.register_file(pd, (buffer, 0, 0), 0),
                Err(libc::EINVAL)
            );
            let null = std::fs::File::open("/dev/null").expect("a file");
            let null = std::os::fd::AsRawFd::as_raw_fd(&null);
            assert_eq!(
                verbs.register_file(pd, (null, 0, PAGE), 0),
                Err(libc::EINVAL),
                "no dma-buf"
            );
        },
    );
}

#[test]
fn device_memory_by_mapping_name() {
    let mut machine =
        two(&json!({"peermem": false, "device_memory": "memfd:some-gpu", "memlock": PAGE}));
    machine["verbs"]["devices"][1]["peermem"] = json!(true);
    on("memory::device_memory_by_mapping_name", &machine, |verbs| {
        let (host, device) = (file(c"some-cpu", 2 * PAGE), file(c"some-gpu", 2 * PAGE));
        let (host, device) = (shared(host, 2 * PAGE), shared(device, 2 * PAGE));
        let [without, with] = [0, 1].map(|device| verbs.pd(verbs.open(device)).expect("a domain"));
        assert_eq!(
            verbs.register(without, device, 2 * PAGE, ALL),
            Err(libc::EFAULT)
        );
        assert_eq!(
            verbs.register(without, device.wrapping_byte_add(PAGE), 8, ALL),
            Err(libc::EFAULT)
        );
        let mr = verbs.register(without, host, PAGE, ALL).expect("memory");
        assert_eq!(verbs.register(with, host, PAGE, ALL), Err(libc::ENOMEM));
        assert!(
            verbs.register(with, device, 2 * PAGE, ALL).is_ok(),
            "device memory does not count"
        );
        assert_eq!(verbs.deregister(mr), 0);
    });
}

#[test]
fn ignores_file_position() {
    on("memory::ignores_file_position", &two(&json!({})), |verbs| {
        let pd = verbs.pd(verbs.open(0)).expect("a domain");
        let mut file = tempfile::tempfile().expect("a file");
        // Writing moves the position to the end.
        std::io::Write::write_all(&mut file, &[1; 2 * PAGE]).expect("room");
        assert!(
            verbs
                .register_file(pd, (std::os::fd::AsRawFd::as_raw_fd(&file), 0, 2 * PAGE), 0)
                .is_ok()
        );
    });
}
