//! Lists GPUs and RDMA devices, in a child because that loads vendor libraries.

use std::path::Path;
use std::time::Duration;

use gpu::Gpu;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::events::{Event, Listed, Reporter};
use super::failure::StepError;
use super::task::Task;
use super::verdict::Subject;
use crate::model::{Bdf, ProbeResult};
use crate::output::shell_word;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListGpus {
    /// Number of simulated GPUs to list instead; 0 for the real ones.
    pub sim: u32,
    pub timeout: Duration,
    /// The probe fails without a GPU.
    pub required: bool,
}

impl Task for ListGpus {
    const NAME: &'static str = "list";

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn stays(&self) -> bool {
        self.sim == 0
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        if self.sim > 0 {
            let gpus: Vec<Gpu> = (0..self.sim).map(|_| Gpu::sim()).collect();
            let listed = gpus.iter().map(|gpu| listed(gpu.device(), true)).collect();
            return Ok(reporter.send(&Event::Listed(listed))?);
        }
        reporter.doing("libcuda.so.1 to start (cuInit)")?;
        let why = match gpu::devices() {
            Ok(devices) if devices.is_empty() => {
                format!("CUDA shows no GPU here{}; see gdr doctor", hidden())
            }
            Ok(devices) => {
                let listed = devices.iter().map(|device| listed(device, false)).collect();
                return Ok(reporter.send(&Event::Listed(listed))?);
            }
            Err(error) => format!(
                "there is no GPU to probe: {}{}; see gdr doctor; --sim needs no GPU",
                gpu::sentence(&error),
                match error.failure().and_then(gpu::Failure::result).map(|result| result.0) {
                    Some(NO_DEVICE) => hidden(),
                    Some(OPERATING_SYSTEM) => few_files(),
                    _ => String::new(),
                }
            ),
        };
        if self.required {
            reporter.result(Subject::machine("cuda").impossible("gpu", None, true, why))?
        } else {
            reporter.note(why)?
        }
        Ok(())
    }
}

/// Results of cuInit (cuda.h).
const NO_DEVICE: u32 = 100;
const OPERATING_SYSTEM: u32 = 304;

/// The variable that may hide all GPUs.
fn hidden() -> String {
    match std::env::var("CUDA_VISIBLE_DEVICES") {
        Ok(value) if value.is_empty() => {
            ": CUDA_VISIBLE_DEVICES is empty, which hides every GPU: unset it".to_owned()
        }
        Ok(value) => format!(
            ": CUDA_VISIBLE_DEVICES={} hides every GPU if its first one does not exist: unset it",
            shell_word(&value)
        ),
        Err(_) => String::new(),
    }
}

/// The limit of open files that may keep CUDA from starting.
fn few_files() -> String {
    const ENOUGH: u64 = 256;
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < ENOUGH => {
            format!(
                ": this process may open only {limit} files: raise the limit with ulimit -n 1024"
            )
        }
        _ => String::new(),
    }
}

fn listed(device: &gpu::Device, simulated: bool) -> Listed {
    Listed {
        ordinal: device.ordinal,
        name: device.name.clone(),
        uuid: device.uuid.clone(),
        bdf: device.pci.and_then(|pci| pci.to_string().parse::<Bdf>().ok()),
        simulated,
    }
}

/// The kernel makes it when ib_core is loaded.
const RDMA_CLASS: &str = "/sys/class/infiniband";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ListRdmaDevices {
    pub timeout: Duration,
}

impl Task for ListRdmaDevices {
    const NAME: &'static str = "nics";

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn run(&self, reporter: &mut Reporter<'_>) -> Result<(), StepError> {
        reporter.doing("libibverbs.so.1 to list the RDMA devices")?;
        let names = verbs::device_names();
        // Libraries answer differently where the kernel has no device, or are not installed there.
        let none = match &names {
            Ok(names) => names.is_empty(),
            Err(error) => error.is_absent() || matches!(error, verbs::Error::List { .. }),
        };
        if none && matches!(Path::new(RDMA_CLASS).try_exists(), Ok(false)) {
            return Err(StepError::NoRdmaDevice(RDMA_CLASS));
        }
        Ok(reporter.send(&Event::Nics(names?))?)
    }

    fn failed(&self, error: &StepError) -> Option<ProbeResult> {
        Some(Subject::machine("verbs").impossible("rdma", None, true, error.advised()))
    }
}
