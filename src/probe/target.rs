//! A GPU that a child works on.

use gpu::Gpu;
use serde::{Deserialize, Serialize};

use super::verdict::Subject;
use crate::model::{Bdf, ProbedGpu};

/// Said of a GPU that refuses a context.
const COMPUTE_MODE: &str = "; in exclusive compute mode one process alone may use it, in prohibited mode none: nvidia-smi \
                            --query-gpu=compute_mode,mig.mode.current --format=csv";

/// A GPU to work on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// How the results name it.
    pub subject: String,
    /// CUDA's number for it; none for a simulated one.
    pub ordinal: Option<u32>,
    pub bdf: Option<Bdf>,
    /// The NUMA node it is on.
    pub home: Option<u32>,
    /// What its link carries, bytes a second.
    pub link: Option<u64>,
}

impl Target {
    pub fn open(&self) -> Result<Gpu, gpu::Error> {
        match self.ordinal {
            Some(ordinal) => Gpu::open(ordinal),
            None => Ok(Gpu::sim()),
        }
    }

    /// Why one cannot be opened, with what may lie behind it.
    pub fn refused(error: &gpu::Error) -> String {
        let mut why = gpu::sentence(error);
        if matches!(error.kind(), gpu::Kind::Busy | gpu::Kind::Invalid) {
            why.push_str(COMPUTE_MODE);
        }
        why
    }

    /// What does a copy by the driver: `cuda`, or its simulation.
    pub fn cuda(&self) -> &'static str {
        if self.ordinal.is_some() {
            "cuda"
        } else {
            "cuda-sim"
        }
    }

    /// Results of it, before anything is known.
    pub fn about(&self, backend: &str, numa: Option<u32>) -> Subject {
        Subject {
            subject: self.subject.clone(),
            backend: backend.to_owned(),
            numa,
        }
    }

    /// What a report says of it, with nothing said of a mapping.
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
