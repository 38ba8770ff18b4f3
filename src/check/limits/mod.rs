//! What this process and its control group may use.

mod map_count;
mod memlock;
mod rdma_cgroup;
mod shm;

use super::Check;
use crate::model::Severity;
use map_count::map_count;
use memlock::memlock;
use rdma_cgroup::rdma_cgroup;
use shm::shm;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "limits.memlock",
        rule: "This process may lock as much memory as RDMA needs.",
        sources: "/proc/self/limits, /proc/self/status, /proc/self/uid_map; limits.d, system.conf, units of slurmd, \
            containerd, docker, crio, kubelet",
        severity: Severity::Warn,
        why: "Registered memory is pinned and counts against this limit unless the process has CAP_IPC_LOCK. \
            Beyond the limit registration fails with ENOMEM (Cannot allocate memory), or with EPERM if the limit is 0.",
        remedy: "Raise it: ulimit -l unlimited, limits.d, LimitMEMLOCK= of the service that starts the program, --ulimit \
            memlock=-1 of the container.",
        references: &[
            "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
            "https://github.com/torvalds/linux/blob/v6.12/drivers/infiniband/core/umem.c",
            "https://github.com/systemd/systemd/commit/852b62507b22c0a986032a2c9fa9cc464a5b7bd2",
        ],
        explained_by: &[],
        reads: &[],
        judge: memlock,
    },
    Check {
        id: "limits.rdma-cgroup",
        rule: "The RDMA controller of this process's control group has handles and objects left.",
        sources: "/proc/self/cgroup, rdma.max and rdma.current of it and of those above",
        severity: Severity::Info,
        why: "The RDMA controller limits how many devices a group may open and how many objects, such as queues and memory regions, \
            it may create. Beyond that ibv_open_device, ibv_create_qp and ibv_reg_mr fail, whatever the memlock limit \
            is.",
        remedy: "Raise rdma.max of the group (Slurm, Kubernetes or systemd set it), or end the processes that use the resources.",
        references: &["https://docs.kernel.org/admin-guide/cgroup-v2.html#rdma"],
        explained_by: &[],
        reads: &[],
        judge: rdma_cgroup,
    },
    Check {
        id: "limits.map-count",
        rule: "A process may have as many mappings as the kernel's own default.",
        sources: "/proc/sys/vm/max_map_count",
        severity: Severity::Info,
        why: "Each GPU buffer that the CPU maps, and each region of an allocator, is a mapping. Beyond the limit mmap \
            fails with ENOMEM (Cannot allocate memory), however much memory is free.",
        remedy: "sysctl vm.max_map_count=262144, or more where a program maps many small buffers.",
        references: &["https://docs.kernel.org/admin-guide/sysctl/vm.html#max-map-count"],
        explained_by: &[],
        reads: &[],
        judge: map_count,
    },
    Check {
        id: "limits.shm",
        rule: "/dev/shm holds at least 1 GiB.",
        sources: "/proc/self/mountinfo",
        severity: Severity::Warn,
        why: "NCCL, MPI and the data loaders of PyTorch exchange data of processes on one machine in /dev/shm. Where it is full, NCCL \
            ends with No space left on device, and a data loader with Bus error. Docker and Kubernetes give a container 64 MiB.",
        remedy: "docker run --shm-size=1g or more, or --ipc=host; in Kubernetes an emptyDir with medium: Memory at /dev/shm; on a host \
            mount -o remount,size=50% /dev/shm.",
        references: &[
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
            "https://docs.docker.com/reference/cli/docker/container/run/",
            "https://docs.kernel.org/filesystems/tmpfs.html",
        ],
        explained_by: &[],
        reads: &[],
        judge: shm,
    },
];
