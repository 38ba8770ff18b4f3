//! Which memory path registers GPU memory for queues (UMEM), with the machine's libmlx5 on a fake uverbs node.

use std::ops::Range;
use std::process::Command;

use fakes::{Driver, cuda, uverbs};
use gpu::{Allocation, DeviceMemory, Gpu};
use verbs::devx::Devx;
use verbs::{Chosen, MemoryPath, MemoryPathError, MemoryPathStep as Step, PathFacts};

use crate::machine::machine;
use MemoryPath::{DataDirect, Dmabuf, DmabufPcie, Peermem};

/// Set in the child process: the errors with the PCIe mapping and with the default one.
const ERRORS: &str = "FAKE_UVERBS_DMABUF";

const BYTES: usize = 64 << 10;
const ALL: Range<usize> = 0..BYTES;

#[test]
#[ignore = "needs libmlx5"]
fn memory_path_of_queues() {
    if let Ok(errors) = std::env::var(ERRORS) {
        let (pcie, default) = errors.split_once(':').expect("two numbers");
        let [pcie, default] = [pcie, default].map(|number| number.parse().expect("a number"));
        return check(pcie, default);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("machine.json");
    std::fs::write(&file, machine().to_string()).expect("a file");
    let cuda = cuda::build(Driver::Current).expect("the simulated CUDA");
    let node = uverbs::node(directory.path()).expect("a node");
    for pcie in [0, 524, 95, 22] {
        for default in [0, 524, 95, 22] {
            let output = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "queue_memory::memory_path_of_queues"])
                .args(["--include-ignored", "--nocapture"])
                .envs(node.clone())
                .env("LD_LIBRARY_PATH", &cuda)
                .env("FAKE_CUDA", &file)
                .env("FAKE_UVERBS_DEVX", "1")
                .env(ERRORS, format!("{pcie}:{default}"))
                .output()
                .expect("it starts");
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert!(
                output.status.success() && text.contains("1 passed"),
                "{pcie}:{default}: {text}"
            );
        }
    }
}

fn check(pcie: i32, default: i32) {
    let gpu = Gpu::open(0).expect("a GPU");
    let memory = gpu.allocate(Allocation::Malloc, BYTES).expect("memory");
    let devx = Devx::open("mlx5_0").expect("a NIC");
    let facts = PathFacts { c2c: Some(true), below_one_bridge: Some(true), data_direct: false };
    let tried = Chosen::first(&facts.memory_paths(), |memory_path| {
        devx.device_memory(memory_path, &memory, ALL)
    });
    let chosen = tried.expect("a memory path");
    assert_eq!(chosen.result.len(), BYTES);
    // The fake node registers any memory of the process by its address.
    let (expected, failing) = match (pcie, default) {
        (0, _) => (DmabufPcie, vec![]),
        (pcie, 0) => (Dmabuf, vec![(DmabufPcie, pcie)]),
        (pcie, default) => (Peermem, vec![(DmabufPcie, pcie), (Dmabuf, default)]),
    };
    let step = |errno| {
        if errno == 524 { Step::Attach } else { Step::Registration }
    };
    let failed = chosen.rejections.0.iter().map(|rejection| {
        let error = &rejection.error;
        (rejection.memory_path, error.step(), error.errno())
    });
    let failing = failing.into_iter();
    let failing = failing.map(|(path, errno)| (path, step(errno), Some(errno)));
    assert_eq!(chosen.memory_path, expected);
    assert!(failed.eq(failing), "{}", chosen.rejections);
    by_facts_of_machine(&devx, &memory, default);
}

/// The GPU has no NVLink-C2C, so only the default mapping is tried.
fn by_facts_of_machine(devx: &Devx, memory: &DeviceMemory, default: i32) {
    let chosen = devx.gpu_memory(memory, ALL).expect("a memory path");
    let expected = if default == 0 { Dmabuf } else { Peermem };
    assert_eq!(chosen.memory_path, expected);
    assert_eq!(chosen.rejections.0.len(), usize::from(default != 0));
    let refused = devx.device_memory(DataDirect, memory, ALL);
    assert!(matches!(refused, Err(MemoryPathError::NoQueueMemory)));
}
