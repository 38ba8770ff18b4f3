//! The software around GPUDirect: MPI, tools, libraries, environment. Files alone tell: nothing is started.

mod environment;
mod mpi;
mod net_plugin;
mod perftest;
mod toolkit;

use super::{Check, Source};
use crate::model::Severity;
use environment::environment;
use mpi::mpi;
use net_plugin::net_plugin;
use perftest::perftest;
use toolkit::toolkit;

/// The checks of this family, in the order of a report.
pub const CHECKS: &[Check] = &[
    Check {
        id: "mpi.cuda-aware",
        rule: "The MPI and UCX that the loader picks, and the UCX of Python packages, were built for CUDA, and find gdrcopy \
            where they know it. Which GPU a rank takes, and whether it has a CUDA context before MPI_Init, shows in the \
            running program alone: it is explained here and not judged.",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages, plug-ins beside libmpi and libucp, words in libmpi",
        severity: Severity::Info,
        why: "An MPI without CUDA takes a GPU pointer for a host one, and the program ends in a segmentation fault; a \
            UCX without gdr_copy stages small messages. CUDA-aware MPI began with Open MPI 1.7 and MVAPICH2 1.8. Each \
            process chooses its GPU by its local rank before MPI_Init, and some libraries want a CUDA context by then. \
            MVAPICH2 wants MV2_USE_CUDA=1; MV2_CUDA_BLOCK_SIZE sets its pipeline's pieces, MV2_CUDA_IPC=1 lets \
            processes of a node share GPU memory, MV2_USE_SHARED_MEM and MV2_SMP_SEND_BUF_SIZE its host path.",
        remedy: "Use an MPI and a UCX that were configured --with-cuda (and UCX --with-gdrcopy): those of the HPC SDK, \
            HPC-X, or built so. Ask: ompi_info --parsable -l 9 --all | grep mpi_built_with_cuda_support:value; \
            ucx_info -d | grep cuda.",
        references: &[
            "https://www.open-mpi.org/faq/?category=runcuda",
            "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/cuda.html",
            "https://openucx.readthedocs.io/en/master/faq.html",
        ],
        reads: &[Source::Software],
        judge: mpi,
    },
    Check {
        id: "tools.perftest",
        rule: "ib_write_bw was built for CUDA, and how to use it on this machine's best pair.",
        sources: "words in ib_write_bw",
        severity: Severity::Info,
        why: "perftest measures a NIC on GPU memory with --use_cuda. Distributions build it without: then the option \
            is unknown, and what it measures is host memory. With --use_cuda, ib_send_bw may end in a segmentation \
            fault where a received message is scattered into its completion and copied from there by the CPU \
            (MLX5_SCATTER_TO_CQE=0 prevents that, says perftest's README); \
            ib_write_bw is the safe choice.",
        remedy: "Build perftest with CUDA_H_PATH=/usr/local/cuda/include/cuda.h ./configure, or use the one of \
            DOCA-OFED.",
        references: &[
            "https://github.com/linux-rdma/perftest",
            "https://github.com/linux-rdma/perftest/issues/326",
            "https://github.com/linux-rdma/perftest/issues/336",
            "https://gasnet-bugs.lbl.gov/bugzilla/show_bug.cgi?id=4151",
        ],
        reads: &[Source::Software],
        judge: perftest,
    },
    Check {
        id: "sw.net-plugin",
        rule: "The NCCL that the loader picks, and each that a Python package brings, knows the memory path to GPU memory that is \
            open, and the network plug-in; the plug-in finds the libfabric that it needs.",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, Python packages, words in libnccl-net.so and libfabric.so.1",
        severity: Severity::Info,
        why: "NCCL before 2.13.4 knows nvidia-peermem alone. A plug-in that offers only interfaces newer than NCCL, or older \
            than it still knows, or that needs a later libfabric, is passed over in silence, and NCCL falls back to its own \
            InfiniBand or to sockets.",
        remedy: "Update NCCL, or use the plug-in made for it, with the libfabric it was built with.",
        references: &[
            "https://github.com/NVIDIA/nccl",
            "https://github.com/aws/aws-ofi-nccl",
            "https://github.com/ofiwg/libfabric/blob/main/libfabric.map.in",
        ],
        reads: &[Source::Software],
        judge: net_plugin,
    },
    Check {
        id: "sw.toolkit",
        rule: "One driver library is to be found, of the loaded driver's version.",
        sources: "LD_LIBRARY_PATH, /etc/ld.so.cache, /sys/module/nvidia/version",
        severity: Severity::Info,
        why: "The first libcuda.so.1 that the loader finds is used. One of another driver is refused by the kernel \
            module, and a stub answers error 34 to every call. A toolkit of Conda beside a driver of the distribution \
            works, and surprises where both bring a library of one name.",
        remedy: "Take the directory of the other library out of LD_LIBRARY_PATH, or remove the package that brings it.",
        references: &["https://docs.nvidia.com/deploy/cuda-compatibility/"],
        reads: &[Source::Software],
        judge: toolkit,
    },
    Check {
        id: "env.contradiction",
        rule: "No variable of this process's environment switches off what the machine can do, or relies on what it \
            cannot.",
        sources: "/proc/self/environ",
        severity: Severity::Info,
        why: "Variables that somebody once set against a fault stay in job scripts and images, and keep the machine \
            from what it could do.",
        remedy: "Unset the variable, or set it only where it is needed.",
        references: &[
            "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
            "https://docs.nvidia.com/nvshmem/api/gen/env.html",
            "https://openucx.readthedocs.io/en/master/faq.html",
        ],
        reads: &[Source::Software],
        judge: environment,
    },
];
