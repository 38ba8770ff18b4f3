//! The GPU that a child probes.

use gpu::{Gpu, Schedule};
use serde::{Deserialize, Serialize};

use super::verdict::Subject;
use crate::model::{Bdf, ProbedGpu};

/// Hint for a GPU that refuses a context.
const COMPUTE_MODE: &str = "; in exclusive compute mode one process alone may use it, in prohibited mode none: nvidia-smi \
                            --query-gpu=compute_mode,mig.mode.current --format=csv";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its name in results, as in `GPU0 (0000:3b:00.0)`.
    pub subject: String,
    /// CUDA's ordinal; `None` for a simulated GPU.
    pub ordinal: Option<u32>,
    pub bdf: Option<Bdf>,
    /// The NUMA node it is on.
    pub home: Option<u32>,
    /// Peak rate of its PCIe link, bytes/s.
    pub link: Option<u64>,
}

impl Target {
    pub fn open(&self) -> Result<Gpu, gpu::Error> {
        self.open_with(Schedule::Auto)
    }

    pub fn open_with(&self, schedule: Schedule) -> Result<Gpu, gpu::Error> {
        match self.ordinal {
            Some(ordinal) => Gpu::open_with(ordinal, schedule),
            None => Ok(Gpu::sim()),
        }
    }

    /// Why a GPU cannot be opened, with a hint.
    pub fn open_error(error: &gpu::Error) -> String {
        let mut why = gpu::sentence(error);
        if matches!(error.kind(), gpu::Kind::Busy | gpu::Kind::Invalid) {
            why.push_str(COMPUTE_MODE);
        }
        why
    }

    /// The backend of driver copies: `cuda` or `cuda-sim`.
    pub fn cuda(&self) -> &'static str {
        match self.ordinal {
            Some(_) => "cuda",
            None => "cuda-sim",
        }
    }

    /// The subject of its results.
    pub fn about(&self, backend: &str, numa: Option<u32>) -> Subject {
        Subject { subject: self.subject.clone(), backend: backend.to_owned(), numa }
    }

    /// Its entry in the report, without a mapping.
    pub fn probed(&self, name: &str) -> ProbedGpu {
        ProbedGpu {
            subject: self.subject.clone(),
            bdf: self.bdf,
            name: name.to_owned(),
            backend: None,
            mapping: None,
            write_kernel: None,
            read_kernel: None,
            numa: self.home,
            link: self.link,
            backends: Vec::new(),
        }
    }
}

#[cfg(test)]
impl Target {
    pub fn simulated() -> Self {
        Self {
            subject: "GPU0 (simulated)".to_owned(),
            ordinal: None,
            bdf: None,
            home: None,
            link: None,
        }
    }
}
