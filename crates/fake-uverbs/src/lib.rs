//! A fake of `/dev/infiniband/uverbs0`: answers libibverbs and libmlx5 as the kernel does, so that Debian's own provider runs in a
//! process without a NIC and writes real WQEs, doorbell records and doorbells to ordinary memory.
//!
//! Preloaded with `LD_PRELOAD`, it overrides the C library functions through which both libraries reach the kernel (`calls`);
//! calls that do not concern the node pass through. The node (`node`) is a memfd: commands written to it are executed (`command`,
//! `device`, `nic::objects`), and its pages are the NIC's doorbell registers. libibverbs finds the device in a sysfs tree that the
//! test creates and names in `SYSFS_PATH`.
//!
//! `ioctl` fails with ENOTTY, as in a kernel without that protocol, so libibverbs uses only `write` (rdma-core,
//! `libibverbs/cmd_fallback.c`). Unknown commands fail with EOPNOTSUPP. `FAKE_UVERBS_DEVX=1` enables the DEVX part of the ioctl
//! protocol (`ioctl`).
//!
//! Module `nic` executes work requests if the environment enables it (`switches`):
//!
//! | variable | meaning |
//! |---|---|
//! | `FAKE_UVERBS_NIC=1` | the NIC executes; otherwise objects are only stored, and the test drives queues and registers |
//! | `FAKE_UVERBS_FAIL=P:N:S:V` | request N of queue pair P, both counted from 0 in the process, fails with syndrome S and vendor's syndrome V |
//! | `FAKE_UVERBS_DROP=P:N` | that request executes but never completes |
//! | `FAKE_UVERBS_PORT_DOWN=1,2` | these ports are down: requests get no answer |
//! | `FAKE_UVERBS_PEERS=DIRECTORY` | the InfiniBand ports of all processes with this directory reach each other; each has a LID of its own |
//! | `FAKE_UVERBS_WAIT=MS` | limit of waits for an answer and for a receive; by default that of the queue pair, but at most 300 ms, and 1.5 s with peers, so that tests stay fast |
//! | `FAKE_UVERBS_DENY=dynamic` | mapping register pages for thread domains fails with EPERM; `all`: every page |
//! | `FAKE_UVERBS_DEVX=1` | the kernel has DEVX; `old`: DEVX without UMEM from dma-bufs |
//! | `FAKE_UVERBS_RECORDLESS=1` | the firmware makes queue pairs whose send queue has no doorbell record |
//! | `FAKE_UVERBS_DEVX_REFUSE=O:S:Y` | the firmware rejects command O with status S and syndrome Y, all hexadecimal |
//! | `FAKE_UVERBS_DMABUF=P:D` | UMEM from a dma-buf fails with error number P if the fake CUDA exported it with the PCIe mapping, else with D; 0: it works |
//! | `FAKE_UVERBS_TRACE=1` | logs each command to standard error |
//!
//! The NIC executes RC, UC and UD between queue pairs and memory of the process; without `FAKE_UVERBS_PEERS` a port reaches only itself.
//! Completion channels are its only events.
//!
//! Layouts are those of Linux `include/uapi/rdma/ib_user_verbs.h` and `mlx5-abi.h`; the code names each structure.

mod bytes;
mod calls;
mod command;
mod device;
mod ioctl;
mod nic;
mod node;
mod switches;

/// Writes a line to standard error.
fn log(text: &str) {
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("fake-uverbs: {text}\n").as_bytes(),
    );
}
