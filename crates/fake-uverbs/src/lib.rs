//! A test double of `/dev/infiniband/uverbs0`: what the kernel answers libibverbs and libmlx5, so that Debian's own provider
//! runs in a process without a card and writes real work queue entries, doorbell records and doorbells into plain memory.
//!
//! It is preloaded (`LD_PRELOAD`) and stands before the functions of the C library by which those two reach the kernel
//! (`calls`); calls that are not about the node go to the kernel as they are. The node (`node`) is a memory file: it answers
//! commands written to it (`command`, `device`, `objects`) and its pages are the card's doorbell registers. The sysfs
//! tree, where libibverbs finds the device, is a directory that the test lays out and names by `SYSFS_PATH`.
//!
//! `ioctl` is answered ENOTTY, as by a kernel that has no such protocol, so that libibverbs speaks the older one of `write`
//! alone (rdma-core, `libibverbs/cmd_fallback.c`). A command that is not known here fails with EOPNOTSUPP; `FAKE_UVERBS_TRACE=1` has each
//! command told on standard error.
//!
//! Layouts are those of Linux' `include/uapi/rdma/ib_user_verbs.h` and `mlx5-abi.h`; each place names its structure.
//!
//! With `FAKE_UVERBS_DEVX=1` the newer protocol, of `ioctl`, is spoken as far as DEVX goes (`ioctl`), where its other variables are told.

mod bytes;
mod calls;
mod command;
mod device;
mod ioctl;
mod node;
mod objects;
