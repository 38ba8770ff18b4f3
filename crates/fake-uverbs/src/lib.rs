//! A test double of `/dev/infiniband/uverbs0`: what the kernel answers libibverbs and libmlx5, so that Debian's own provider
//! runs in a process without a NIC and writes real work queue entries, doorbell records and doorbells into plain memory.
//!
//! It is preloaded (`LD_PRELOAD`) and stands before the functions of the C library by which those two reach the kernel
//! (`calls`); calls that are not about the node go to the kernel as they are. The node (`node`) is a memory file: it answers
//! commands written to it (`command`, `device`, `nic::world`) and its pages are the NIC's doorbell registers. The sysfs
//! tree, where libibverbs finds the device, is a directory that the test lays out and names by `SYSFS_PATH`.
//!
//! `ioctl` is answered ENOTTY, as by a kernel that has no such protocol, so that libibverbs speaks the older one of `write`
//! alone (rdma-core, `libibverbs/cmd_fallback.c`). A command that is not known here fails with EOPNOTSUPP. With `FAKE_UVERBS_DEVX=1` the
//! newer protocol is spoken as far as DEVX goes (`ioctl`).
//!
//! Behind the node is a `card`, which executes where the environment says so (`switches`):
//!
//! | variable | meaning |
//! |---|---|
//! | `FAKE_UVERBS_CARD=1` | the NIC executes; else objects are remembered, and queues and registers are the test's |
//! | `FAKE_UVERBS_FAIL=P:N:S:V` | the n-th request of the p-th queue pair of the process, both from 0, fails with syndrome S and vendor's syndrome V |
//! | `FAKE_UVERBS_DROP=P:N` | that request is executed and never completed |
//! | `FAKE_UVERBS_FAIL_RECEIVE`, `FAKE_UVERBS_DROP_RECEIVE` | the same of receives |
//! | `FAKE_UVERBS_PORT_DOWN=1,2` | these ports are down: nobody answers |
//! | `FAKE_UVERBS_DENY=dynamic` | pages of doorbell registers for thread domains are refused (EPERM); `all`: every page |
//! | `FAKE_UVERBS_DEVX=1` | the kernel has DEVX; `old`: one that takes no dma-bufs for it |
//! | `FAKE_UVERBS_DEVX_REFUSE=O:S:Y` | the firmware refuses the command O with status S and syndrome Y, all hexadecimal |
//! | `FAKE_UVERBS_TRACE=1` | each command is told on standard error |
//!
//! The NIC executes RC, UC and UD between queue pairs of the process, over memory of the process; a port leads to itself alone. It tells of
//! completions through completion channels, and of nothing else.
//!
//! Layouts are those of Linux' `include/uapi/rdma/ib_user_verbs.h` and `mlx5-abi.h`; each place names its structure.

mod bytes;
mod calls;
mod command;
mod device;
mod ioctl;
mod nic;
mod node;
mod switches;

/// Tells something on standard error.
fn say(words: &str) {
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("fake-uverbs: {words}\n").as_bytes(),
    );
}
