//! Device memory is a file in memory, and what a dma-buf of it is. Which ranges are refused, and how, was seen on an H200 with
//! driver 580.159.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use serde_json::{Value, json};

use crate::driver::on;

const PAGE: usize = 4096;
const BLOCK: usize = 2 << 20;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`, `CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE`.
const DMA_BUF: u32 = 1;
const PCIE: u64 = 1;

/// Two GPUs; of the second the driver exports no memory, and GPUDirect RDMA does not reach it.
fn machine(more: &Value) -> Value {
    let mut machine = json!({"gpus": [{"attributes": {"116": 1, "124": 1}}, {}]});
    for (key, value) in more.as_object().expect("an object") {
        machine[key] = value.clone();
    }
    machine
}

#[test]
fn a_dma_buf_is_the_same_memory() {
    on(
        "dmabuf::a_dma_buf_is_the_same_memory",
        &machine(&json!({})),
        |cuda| {
            cuda.start(1);
            let memory = cuda.allocate(3 * PAGE).expect("memory");
            let file = cuda.export(memory, 3 * PAGE, DMA_BUF, 0).expect("a file");
            assert_eq!(cuda.upload(memory + 5000, b"by the GPU"), 0);
            let mut seen = [0; 12];
            file.read_exact_at(&mut seen, 4999).expect("bytes");
            assert_eq!(&seen, b"\0by the GPU\0");
            file.write_all_at(b"by others", 9000).expect("room");
            assert_eq!(
                cuda.download(memory + 8999, 11),
                Ok(b"\0by others\0".to_vec())
            );
            // Another allocation is another file.
            let other = cuda.allocate(3 * PAGE).expect("memory");
            assert_eq!(cuda.download(other + 9000, 9), Ok(vec![0; 9]));

            // It is not handed to programs that this one starts.
            // SAFETY: the file is open, and is only asked about.
            let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
            assert_eq!(flags, libc::FD_CLOEXEC);
            // And it outlives the allocation.
            assert_eq!(cuda.free(memory), 0);
            file.read_exact_at(&mut seen[..9], 9000).expect("bytes");
            assert_eq!(&seen[..9], b"by others");
        },
    );
}

#[test]
fn each_gpus_memory_has_its_name_and_pinned_memory_none() {
    let test = "dmabuf::each_gpus_memory_has_its_name_and_pinned_memory_none";
    on(test, &machine(&json!({})), |cuda| {
        let contexts = cuda.start(2);
        let name = |address: u64| {
            let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
            let is_it = |line: &&str| {
                let (start, end) = line
                    .split_once(' ')
                    .and_then(|words| words.0.split_once('-'))
                    .expect("a range");
                let number = |digits| u64::from_str_radix(digits, 16).expect("digits");
                (number(start)..number(end)).contains(&address)
            };
            let line = maps.lines().find(is_it).expect("it is mapped");
            line.split_whitespace()
                .nth(5)
                .unwrap_or_default()
                .to_owned()
        };
        let first = cuda.allocate(100).expect("memory");
        assert_eq!(cuda.current(contexts[1]), 0);
        let second = cuda.allocate(5 << 20).expect("memory");
        assert_eq!(name(first), "/memfd:fake-cuda-gpu0");
        assert_eq!(name(second), "/memfd:fake-cuda-gpu1");
        assert_eq!(name(second + (5 << 20) - 1), "/memfd:fake-cuda-gpu1");
        assert_eq!(name(cuda.pinned(PAGE).addr() as u64), "");
        assert_eq!(cuda.free(second), 0);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        assert!(!maps.contains("fake-cuda-gpu1"), "it is given back");
    });
}

#[test]
fn a_dma_buf_is_of_whole_pages_that_are_there() {
    let test = "dmabuf::a_dma_buf_is_of_whole_pages_that_are_there";
    on(test, &machine(&json!({})), |cuda| {
        cuda.start(1);
        let memory = cuda.allocate(2 * BLOCK).expect("memory");
        let small = cuda.allocate(100).expect("memory");
        let code = |address: u64, bytes: usize| cuda.export(address, bytes, DMA_BUF, 0).map(drop);
        for (address, bytes, expected) in [
            (memory, 2 * BLOCK, Ok(())),
            (memory + 4096, PAGE, Ok(())),
            (memory + 512, PAGE, Err(1)),
            (memory, 5000, Err(1)),
            (memory + 512, 512, Err(1)),
            (memory, 0, Err(1)),
            (memory, 4 * BLOCK, Err(1)),
            (memory + 4096, 2 * BLOCK, Err(1)),
            (memory, 1 << 45, Err(1)),
            (memory, usize::MAX - 4095, Err(1)),
            (0, PAGE, Err(1)),
            // Pages that an allocation does not fill, to the end of the 2 MiB that they are in.
            (small, 100, Err(1)),
            (small, PAGE, Ok(())),
            (small, BLOCK, Ok(())),
            (small, BLOCK + PAGE, Err(1)),
        ] {
            assert_eq!(
                code(address, bytes),
                expected,
                "{bytes} bytes at {:#x}",
                address & 0xfff_ffff
            );
        }
        assert_eq!(
            code(cuda.pinned(PAGE).addr() as u64, PAGE),
            Err(1),
            "host memory"
        );
        assert_eq!(
            cuda.export(memory, PAGE, 2, 0).map(drop),
            Err(1),
            "no such kind"
        );
        assert_eq!(
            cuda.export(memory, PAGE, DMA_BUF, 2).map(drop),
            Err(1),
            "no such flag"
        );
    });
}

#[test]
fn what_a_driver_does_not_export_it_says() {
    let test = "dmabuf::what_a_driver_does_not_export_it_says";
    on(test, &machine(&json!({})), |cuda| {
        let contexts = cuda.start(2);
        let first = cuda.allocate(PAGE).expect("memory");
        assert_eq!(cuda.export(first, PAGE, DMA_BUF, PCIE).map(drop), Ok(()));
        assert_eq!(cuda.pointer_attribute(15, first), Ok(1));
        assert_eq!(cuda.current(contexts[1]), 0);
        let second = cuda.allocate(PAGE).expect("memory");
        assert_eq!(cuda.export(second, PAGE, DMA_BUF, 0).map(drop), Err(801));
        assert_eq!(cuda.pointer_attribute(15, second), Ok(0));
        // It is the memory's GPU that matters.
        assert_eq!(cuda.export(first, PAGE, DMA_BUF, 0).map(drop), Ok(()));
        assert_eq!(cuda.pointer_attribute(15, 64), Err(1), "of nobody's memory");
    });
}

#[test]
fn a_driver_may_not_know_the_mapping_over_pcie() {
    let old = machine(&json!({"dmabuf_pcie": false}));
    on(
        "dmabuf::a_driver_may_not_know_the_mapping_over_pcie",
        &old,
        |cuda| {
            cuda.start(1);
            let memory = cuda.allocate(PAGE).expect("memory");
            assert_eq!(cuda.export(memory, PAGE, DMA_BUF, PCIE).map(drop), Err(1));
            assert_eq!(cuda.export(memory, PAGE, DMA_BUF, 0).map(drop), Ok(()));
        },
    );
}

#[test]
fn a_driver_may_refuse_the_mapping_over_pcie() {
    let refuses = machine(&json!({"dmabuf_pcie": 801}));
    on(
        "dmabuf::a_driver_may_refuse_the_mapping_over_pcie",
        &refuses,
        |cuda| {
            cuda.start(1);
            let memory = cuda.allocate(PAGE).expect("memory");
            assert_eq!(cuda.export(memory, PAGE, DMA_BUF, PCIE).map(drop), Err(801));
            assert_eq!(cuda.export(memory, PAGE, DMA_BUF, 0).map(drop), Ok(()));
        },
    );
}
