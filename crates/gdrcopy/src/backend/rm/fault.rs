//! Text for RM errors: meaning of a status at a step, and the fix.

use gdr_sys::rm::Status;
use gpu::DevicePtr;

use super::calls::RmError;
use crate::Error;

/// Step of a mapping at which a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Client,
    Cards,
    Register,
    Instance,
    Device,
    Duplicate,
    Import,
    Surface,
    Map,
}

impl Step {
    fn operation(self) -> &'static str {
        match self {
            Self::Client => "create a resource manager client",
            Self::Cards => "list the GPUs",
            Self::Register => "register a file of the GPU's node",
            Self::Instance => "find the GPU's instance",
            Self::Device => "create a device object for the GPU",
            Self::Duplicate => "duplicate CUDA's memory object",
            Self::Import => "import the exported memory",
            Self::Surface => "query the memory object",
            Self::Map => "map the memory",
        }
    }

    fn advice(self, status: Status) -> &'static str {
        match (self, status) {
            (Self::Duplicate, Status::INSUFFICIENT_PERMISSIONS) => {
                "the memory belongs to another process or client; under MPS it belongs to the server"
            }
            (_, Status::INSUFFICIENT_PERMISSIONS) => {
                "the GPU's node /dev/nvidiaN is not open to this process"
            }
            (Self::Device, Status::INVALID_CLASS | Status::INVALID_ARGUMENT) => {
                "the GPU is not attached, or its node is another GPU's"
            }
            (Self::Map, Status::INVALID_ARGUMENT) => "the node opened is another GPU's",
            (_, Status::INVALID_CLIENT) => "the client was used after fork or through another file",
            (_, Status::INVALID_OBJECT_PARENT) => "the memory belongs to no device",
            (_, Status::INVALID_PARAMETERS_SIZE) => UNKNOWN_ABI,
            (_, Status::NO_MEMORY | Status::INSUFFICIENT_RESOURCES) => {
                "the GPU's BAR1 is used up; nvidia-smi -q shows it"
            }
            (_, Status::NOT_SUPPORTED) => {
                "the CPU cannot map this memory: confidential computing, MIG, fabric or protected memory, or a sandbox"
            }
            (
                _,
                Status::OBJECT_NOT_FOUND | Status::INVALID_OBJECT_HANDLE | Status::RESOURCE_LOST,
            ) => "the allocation was freed",
            (_, Status::STATE_IN_USE) => {
                "a file of the node was used twice, which is a bug in this library"
            }
            (_, Status::IN_USE) => "the memory is already mapped with other attributes",
            _ => "",
        }
    }
}

/// Memory that cannot be mapped.
pub(crate) fn memory_error(address: DevicePtr, why: &str) -> Error {
    Error::Memory { address, why: why.to_owned() }
}

const UNKNOWN_ABI: &str = "this library does not know this driver's ABI; please report its version";

pub(crate) fn error(step: Step, error: RmError) -> Error {
    match error {
        RmError::Status(Status::GPU_IS_LOST) => {
            Error::GpuLost { sign: "the resource manager reports it" }
        }
        RmError::Status(status) => {
            Error::Rm { operation: step.operation(), status, advice: step.advice(status) }
        }
        RmError::System(source) => {
            // RM's ioctls themselves fail only for a number or size that the driver does not know.
            let unknown = source.raw_os_error() == Some(libc::EINVAL);
            let operation = step.operation();
            Error::System {
                operation: if unknown {
                    format!("{operation} ({UNKNOWN_ABI})")
                } else {
                    operation.to_owned()
                },
                source,
            }
        }
    }
}
