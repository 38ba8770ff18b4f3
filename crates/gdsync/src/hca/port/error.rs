//! What can go wrong with a verbs device and its port.

use verbs::{MemoryPathError, PortState};

use crate::hca::Endpoint;

/// Why a verbs device cannot do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The verbs device, or its library.
    #[error("cannot {operation}: {source}")]
    Verbs {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        #[source]
        source: verbs::Error,
    },
    /// The port is not up.
    #[error(
        "port {device}:{port} is {state:?} and must be Active: look at the link with `ibv_devinfo -d {device}`"
    )]
    PortDown {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// Its state.
        state: PortState,
    },
    /// The port has no GID there, or none at all.
    #[error("port {device}:{port} has no GID{}: `ibv_devinfo -v` shows those it has", index.map(|index| format!(" at index {index}")).unwrap_or_default())]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The index that was asked for.
        index: Option<u8>,
    },
    /// Another make of NIC.
    #[error(
        "{device} is no mlx5 device, whose queues a GPU drives: take the proxy, which drives any"
    )]
    NotMlx5 {
        /// The device.
        device: String,
    },
    /// GPU memory that the NIC takes no queues in by any memory path.
    #[error(
        "the NIC takes no queues in this GPU memory: by a dma-buf {dmabuf}; by a peer memory client (nvidia-peermem) {peermem}; \
         the first needs Linux 6.1 and rdma-core 43, the second `modprobe nvidia_peermem`; or keep the queues in host memory"
    )]
    GpuQueues {
        /// Why not by a dma-buf.
        dmabuf: MemoryPathError,
        /// Why not by its address.
        peermem: MemoryPathError,
    },
    /// The provider made a queue of another size or shape than can be driven.
    #[error("{device} made {what} of {count} entries of {bytes} bytes; {need}")]
    Shape {
        /// The device.
        device: String,
        /// What of it.
        what: &'static str,
        /// Entries.
        count: u32,
        /// Bytes of each.
        bytes: u32,
        /// What it must be.
        need: String,
    },
    /// The GPU is not given the NIC's doorbell register.
    #[error(
        "the GPU cannot ring the NIC's doorbell, since its driver does not map the register: {source}; `gdr doctor --live --only \
         rdma.uar-map` says what to do; a proxy needs no register"
    )]
    Register {
        /// What the driver said.
        #[source]
        source: gpu::Error,
    },
    /// GPU memory that the NIC reaches by no memory path.
    #[error(
        "the NIC does not reach this GPU memory: by a dma-buf {dmabuf}; by a peer memory client (nvidia-peermem) {peermem}; \
         register host memory, and copy between them"
    )]
    NoMemoryPath {
        /// Why not by a dma-buf.
        dmabuf: MemoryPathError,
        /// Why not by its address.
        peermem: MemoryPathError,
    },
    /// A remote side of another kind of HCA, or one whose address lacks what this port needs.
    #[error("{remote} says no {lacks}: both sides must be verbs devices, on links of one kind")]
    Address {
        /// The remote side.
        remote: Endpoint,
        /// What it lacks.
        lacks: &'static str,
    },
    /// A queue pair that is connected already, or failed.
    #[error("queue pair {qpn:#x} is connected already or has failed: make another")]
    Spent {
        /// Its number.
        qpn: u32,
    },
}

/// `operation` failed.
pub(in crate::hca) fn failed(operation: &'static str) -> impl FnOnce(verbs::Error) -> Error {
    move |source| Error::Verbs { operation, source }
}
