//! Software that uses GPUDirect: MPI, tools, libraries, environment. Judged from files; no program is run.

mod environment;
mod known_bad;
mod libraries;
mod mpi;
mod net_plugin;
mod perftest;
mod toolkit;
mod transports;

use super::{Check, Source};
use crate::model::Severity;
use environment::environment;
use known_bad::known_bad;
use libraries::libraries;
use mpi::mpi;
use net_plugin::net_plugin;
use perftest::perftest;
use toolkit::toolkit;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "mpi.cuda-aware",
        rule: "The MPI and UCX that the loader picks, and the UCX of Python packages, are built \
            with CUDA, and find gdrcopy if they support it. Only the running program shows which \
            GPU a rank uses, and whether it has a CUDA context before MPI_Init: this is \
            explained here, not judged.",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages, plugins beside libmpi and \
            libucp, strings in libmpi",
        severity: Severity::Info,
        why: "An MPI without CUDA treats a GPU pointer as a host pointer, and the program ends in \
            a segmentation fault; a UCX without gdr_copy stages small messages. CUDA-aware MPI \
            began with Open MPI 1.7 and MVAPICH2 1.8. Each process selects its GPU by its local \
            rank before MPI_Init, and some libraries need a CUDA context by then. MVAPICH2 needs \
            MV2_USE_CUDA=1; MV2_CUDA_BLOCK_SIZE sets the block size of its pipeline, \
            MV2_CUDA_IPC=1 lets processes of a node share GPU memory, MV2_USE_SHARED_MEM and \
            MV2_SMP_SEND_BUF_SIZE control its host path.",
        remedy: "Use an MPI and a UCX configured --with-cuda (and UCX --with-gdrcopy): from the HPC \
            SDK, HPC-X, or your own build. To check: ompi_info --parsable -l 9 --all | grep \
            mpi_built_with_cuda_support:value; ucx_info -d | grep cuda.",
        references: &[
            "https://www.open-mpi.org/faq/?category=runcuda",
            "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/cuda.html",
            "https://openucx.readthedocs.io/en/master/faq.html",
        ],
        explained_by: &[],
        reads: &[Source::Software],
        judge: mpi,
    },
    Check {
        id: "tools.perftest",
        rule: "ib_write_bw is built with CUDA, and how to use it on this machine's best pair.",
        sources: "strings in ib_write_bw",
        severity: Severity::Info,
        why: "perftest measures a NIC on GPU memory with --use_cuda. Distributions build it \
            without CUDA: then the option is unknown, and perftest measures host memory. With \
            --use_cuda, ib_send_bw may end in a segmentation fault if the NIC scatters a \
            received message into its completion, from which the CPU copies it; ib_write_bw is \
            the safe choice.",
        remedy: "Build perftest where the CUDA toolkit is installed: since 25.07 ./configure finds \
            cuda.h itself; before, pass CUDA_H_PATH=/usr/local/cuda/include/cuda.h.",
        references: &[
            "https://github.com/linux-rdma/perftest",
            "https://github.com/linux-rdma/perftest/issues/326",
            "https://github.com/linux-rdma/perftest/issues/336",
            "https://gasnet-bugs.lbl.gov/bugzilla/show_bug.cgi?id=4151",
        ],
        explained_by: &[],
        reads: &[Source::Software],
        judge: perftest,
    },
    Check {
        id: "sw.net-plugin",
        rule: "The NCCL that the loader picks, and each NCCL in a Python package, supports the \
            memory path to GPU memory that works here, and the network plugin; the plugin finds \
            the libfabric that it needs.",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages, strings in libnccl-net.so and \
            libfabric.so.1",
        severity: Severity::Info,
        why: "NCCL before 2.13.4 supports only nvidia-peermem. NCCL silently ignores a plugin \
            whose interfaces are all newer or older than those that it supports, or that needs a \
            newer libfabric, and falls back to its own InfiniBand transport or to sockets.",
        remedy: "Update NCCL, or use the plugin made for it, with the libfabric that the plugin was \
            built with.",
        references: &[
            "https://github.com/NVIDIA/nccl/blob/v2.30.7-1/src/plugin/net.cc",
            "https://github.com/aws/aws-ofi-nccl",
            "https://github.com/ofiwg/libfabric/blob/v2.6.0/libfabric.map.in",
        ],
        explained_by: &[],
        reads: &[Source::Software],
        judge: net_plugin,
    },
    Check {
        id: "sw.known-bad",
        rule: "No component has a version with a known fault that matters on this machine: the NVIDIA driver, NCCL, aws-ofi-nccl, UCX, \
            Amazon's module efa, gdrdrv, MLNX_OFED. Other checks have the versions that depend on more: platform.kernel, \
            param.grdma-topo, sw.net-plugin, gin.nvshmem, rdma.firmware.",
        sources: "/sys/module/{nvidia,gdrdrv,efa,mlx5_core}/version, LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages, strings in \
            libnccl-net.so and libucp.so.0; the table profiles/versions.toml",
        severity: Severity::Info,
        why: "A release may corrupt data, hang, or turn GPUDirect off on some machines, and a later one does not. The table has each range \
            of versions with its condition, its effect and where it is written.",
        remedy: "Install the version that the finding names, or a later one.",
        references: &[
            "https://github.com/NVIDIA/nccl/releases",
            "https://docs.nvidia.com/deeplearning/nccl/release-notes/index.html",
            "https://github.com/aws/aws-ofi-nccl/releases",
            "https://github.com/openucx/ucx/blob/v1.22.0/NEWS",
            "https://github.com/amzn/amzn-drivers/blob/efa_linux_3.1.0/kernel/linux/efa/RELEASENOTES.md",
            "https://github.com/NVIDIA/gdrcopy/blob/v2.6/CHANGELOG.md",
            "https://docs.nvidia.com/networking/display/MLNXOFEDv543030/Bug+Fixes+in+This+Version",
        ],
        explained_by: &[],
        reads: &[Source::Software, Source::NvLinks],
        judge: known_bad,
    },
    Check {
        id: "sw.libraries",
        rule: "The vendor libraries that gdr loads answer in time, end no process, and answer what can be true.",
        sources: "NVML, libcuda, libibverbs, each read by a process of its own",
        severity: Severity::Warn,
        why: "A library that crashes, hangs or kills processes does so in every program that loads \
            it. A stub or a library of another driver may answer success and zeros. What gdr \
            would learn from it is unknown, and the checks that need it say so.",
        remedy: "Install the libraries of the loaded driver and of rdma-core; ldconfig -p and \
            LD_LIBRARY_PATH show which files are loaded.",
        references: &["https://docs.nvidia.com/deploy/cuda-compatibility/"],
        explained_by: &[],
        reads: &[Source::Nvml, Source::Cuda, Source::Verbs],
        judge: libraries,
    },
    Check {
        id: "sw.toolkit",
        rule: "The loader finds one driver library, of the loaded driver's version.",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, /sys/module/nvidia/version",
        severity: Severity::Info,
        why: "Programs use the first libcuda.so.1 that the loader finds. The kernel module rejects \
            a libcuda of another driver, and a stub returns error 34 from every call. A CUDA \
            toolkit from Conda beside a driver of the distribution works, unless both install a \
            library of the same name.",
        remedy: "Remove the directory of the other library from LD_LIBRARY_PATH, or remove the \
            package that installs it.",
        references: &["https://docs.nvidia.com/deploy/cuda-compatibility/"],
        explained_by: &["gpu.driver"],
        reads: &[Source::Software, Source::Cuda],
        judge: toolkit,
    },
    Check {
        id: "env.contradiction",
        rule: "No environment variable of this process turns off what the machine supports, or \
            relies on what it does not support.",
        sources: "/proc/self/environ",
        severity: Severity::Info,
        why: "Variables that were once set to work around a fault stay in job scripts and images, \
            and keep programs from using the machine's features.",
        remedy: "Unset the variable, or set it only where it is needed.",
        references: &[
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
            "https://docs.nvidia.com/nvshmem/api/gen/env.html",
            "https://openucx.readthedocs.io/en/master/faq.html",
            "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/cuda.html",
            "https://mvapich.cse.ohio-state.edu/userguide/gdr/",
            "https://docs.nvidia.com/cuda/cuda-features-archive/",
            "https://github.com/pytorch/pytorch/issues/153688",
        ],
        explained_by: &[],
        reads: &[Source::Software],
        judge: environment,
    },
];
