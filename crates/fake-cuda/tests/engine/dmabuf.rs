//! Device memory is a memfd, and so are its dma-bufs. The expected errors are those of driver
//! 580.159 on an H200.

use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use serde_json::{Value, json};

use crate::driver::on;

const PAGE: usize = 4096;
const BLOCK: usize = 2 << 20;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`, `CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE`.
const DMA_BUF: u32 = 1;
const PCIE: u64 = 1;

/// Two GPUs; the second supports neither dma-buf export nor GPUDirect RDMA.
fn machine(more: &Value) -> Value {
    let mut machine = json!({"gpus": [{"attributes": {"116": 1, "124": 1}}, {}]});
    for (key, value) in more.as_object().expect("an object") {
        machine[key] = value.clone();
    }
    machine
}

#[test]
fn dma_buf_is_the_same_memory() {
    on("dmabuf::dma_buf_is_the_same_memory", &machine(&json!({})), |cuda| {
        cuda.start(1);
        let memory = cuda.allocate(3 * PAGE).expect("memory");
        let file = cuda.export(memory, 3 * PAGE, DMA_BUF, 0).expect("a file");
        assert_eq!(cuda.upload(memory + 5000, b"by the GPU"), 0);
        let mut seen = [0; 12];
        file.read_exact_at(&mut seen, 4999).expect("bytes");
        assert_eq!(&seen, b"\0by the GPU\0");
        file.write_all_at(b"by others", 9000).expect("room");
        assert_eq!(cuda.download(memory + 8999, 11), Ok(b"\0by others\0".to_vec()));
        // Another allocation is another file.
        let other = cuda.allocate(3 * PAGE).expect("memory");
        assert_eq!(cuda.download(other + 9000, 9), Ok(vec![0; 9]));

        // Child processes do not inherit it.
        // SAFETY: the file is open, and is only asked about.
        let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags, libc::FD_CLOEXEC);
        // It outlives the allocation.
        assert_eq!(cuda.free(memory), 0);
        file.read_exact_at(&mut seen[..9], 9000).expect("bytes");
        assert_eq!(&seen[..9], b"by others");
    });
}

#[test]
fn device_memory_is_named_after_gpu() {
    let test = "dmabuf::device_memory_is_named_after_gpu";
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
            line.split_whitespace().nth(5).unwrap_or_default().to_owned()
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
        assert!(!maps.contains("fake-cuda-gpu1"), "it is freed");
    });
}

#[test]
fn dma_buf_range_checks() {
    let test = "dmabuf::dma_buf_range_checks";
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
            // Beyond the allocation, up to the end of its 2 MiB.
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
        assert_eq!(code(cuda.pinned(PAGE).addr() as u64, PAGE), Err(1), "host memory");
        assert_eq!(cuda.export(memory, PAGE, 2, 0).map(drop), Err(1), "unknown handle type");
        assert_eq!(cuda.export(memory, PAGE, DMA_BUF, 2).map(drop), Err(1), "unknown flag");
    });
}

#[test]
fn unsupported_pcie_flag() {
    let refuses = machine(&json!({"dmabuf_pcie": 801}));
    on("dmabuf::unsupported_pcie_flag", &refuses, |cuda| {
        cuda.start(1);
        let memory = cuda.allocate(PAGE).expect("memory");
        assert_eq!(cuda.export(memory, PAGE, DMA_BUF, PCIE).map(drop), Err(801));
        assert_eq!(cuda.export(memory, PAGE, DMA_BUF, 0).map(drop), Ok(()));
    });
}
