//! libcuda through crate `gpu`, in gdr's own words. It makes no context.

use gpu::Kind;

use crate::model::{Cuda, CudaGpu, CudaOutcome, Fact, Why};

/// Reads libcuda in this process.
pub fn read() -> CudaOutcome {
    match gpu::devices() {
        Ok(devices) => CudaOutcome::Read(Box::new(Cuda {
            driver_version: gpu::driver_version().map_or(Fact::Unknown(Why::Broken), Fact::Known),
            gpus: devices
                .iter()
                .map(|device| CudaGpu {
                    ordinal: device.ordinal,
                    bdf: device.pci.and_then(|pci| pci.to_string().parse().ok()),
                })
                .collect(),
        })),
        Err(error) => match (&error, error.kind()) {
            (gpu::Error::Library(_), Kind::Absent) => CudaOutcome::Absent {
                reason: gpu::sentence(&error),
            },
            _ => CudaOutcome::Failed {
                code: None,
                reason: gpu::sentence(&error),
            },
        },
    }
}
