//! Errors of a verbs device and its port.

use verbs::{PortState, Rejections};

use crate::hca::Endpoint;

/// Why an operation on a verbs device failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A verbs call failed.
    #[error("cannot {operation}: {source}")]
    Verbs {
        /// The failed operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: verbs::Error,
    },
    /// The port is not up.
    #[error(
        "port {device}:{port} is {state:?}, not Active: check the link with `ibv_devinfo -d {device}`"
    )]
    PortDown {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// Its state.
        state: PortState,
    },
    /// The port has no GID at this index, or none at all.
    #[error("port {device}:{port} has no GID{}: `ibv_devinfo -v` lists its GIDs", index.map(|index| format!(" at index {index}")).unwrap_or_default())]
    NoGid {
        /// The device.
        device: String,
        /// The port.
        port: u8,
        /// The requested index.
        index: Option<u8>,
    },
    /// Not an mlx5 device.
    #[error(
        "{device} is not an mlx5 device, so a GPU cannot drive its queues: use the proxy, which supports any device"
    )]
    NotMlx5 {
        /// The device.
        device: String,
    },
    /// No memory path lets the NIC use queues in this GPU memory.
    #[error(
        "the NIC cannot use queues in this GPU memory: {rejections}; dma-buf needs Linux 6.1 and rdma-core 43, \
         peermem needs `modprobe nvidia_peermem`; or place the queues in host memory"
    )]
    GpuQueues {
        /// Each memory path and why it failed.
        rejections: Rejections,
    },
    /// The provider created a queue of an unsupported size or layout.
    #[error("{device} created {what} of {count} entries of {bytes} bytes; {need}")]
    Shape {
        /// The device.
        device: String,
        /// The queue.
        what: &'static str,
        /// Number of entries.
        count: u32,
        /// Bytes per entry.
        bytes: u32,
        /// The requirement.
        need: String,
    },
    /// The GPU's driver does not map the NIC's doorbell register.
    #[error(
        "the GPU cannot ring the NIC's doorbell, because its driver does not map the register: {source}; run `gdr doctor \
         --live --only rdma.uar-map`, or use the proxy, which needs no register"
    )]
    Register {
        /// The driver's error.
        #[source]
        source: gpu::Error,
    },
    /// The NIC has no queue pairs without a doorbell record.
    #[error("{device} has no queue pairs without a doorbell record: {why}")]
    NoRecordlessQueues {
        /// The device.
        device: String,
        /// The reason.
        why: String,
    },
    /// No memory path lets the NIC access this GPU memory.
    #[error(
        "the NIC cannot access this GPU memory: {rejections}; register host memory and copy instead"
    )]
    NoMemoryPath {
        /// Each memory path and why it failed.
        rejections: Rejections,
    },
    /// The remote endpoint is of another kind of HCA, or lacks what this port needs.
    #[error("{remote} has no {lacks}: both sides must be verbs devices with the same link layer")]
    Address {
        /// The remote endpoint.
        remote: Endpoint,
        /// The missing part.
        lacks: &'static str,
    },
    /// The queue pair is already connected, or failed.
    #[error("queue pair {qpn:#x} is already connected or has failed: create another one")]
    Spent {
        /// Its QPN.
        qpn: u32,
    },
}

/// Wraps the error of `operation`.
pub(in crate::hca) fn failed(operation: &'static str) -> impl FnOnce(verbs::Error) -> Error {
    move |source| Error::Verbs { operation, source }
}
