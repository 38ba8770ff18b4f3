//! Trial: map memory of each GPU for the CPU, write and read it, through crate `gdrcopy`.

use std::error::Error;

use gdrcopy::{BackendKind, Gdr, MapRequest, Outcome, PinFlags};
use gpu::{Allocation, Device, DeviceMemory, Gpu, Kind, Pattern, pointer};

use crate::model::{
    BackendChoice, BackendOutcome, DmaBufTrial, GpuMapping, MappingOutcome, MappingTrial,
};

const BYTES: usize = 64 << 10;

pub fn try_each() -> MappingOutcome {
    match gpu::devices() {
        Ok(devices) if devices.is_empty() => {
            MappingOutcome::Failed { reason: "CUDA counts no GPU".to_owned() }
        }
        Ok(devices) => MappingOutcome::Tried(devices.iter().map(try_one).collect()),
        Err(error) => match (&error, error.kind()) {
            (gpu::Error::Library(_), Kind::Absent) => {
                MappingOutcome::Absent { reason: gpu::sentence(&error) }
            }
            _ => MappingOutcome::Failed { reason: gpu::sentence(&error) },
        },
    }
}

fn try_one(device: &Device) -> GpuMapping {
    let mut dma_buf = None;
    let (trial, backends) = match trial(device.ordinal, &mut dma_buf) {
        Ok(tried) => tried,
        Err(error) => {
            let reason = gpu::sentence(error.as_ref());
            let busy = |error: &gpu::Error| matches!(error.kind(), Kind::Busy | Kind::OutOfMemory);
            // CUDA's errors before the mapping; gdrcopy's have another type.
            let trial = if error.downcast_ref::<gpu::Error>().is_some_and(busy) {
                MappingTrial::NotTried { reason }
            } else {
                MappingTrial::Refused { reason }
            };
            (trial, backends(&Gdr::explain()))
        }
    };
    GpuMapping {
        bdf: device.pci.and_then(|pci| pci.to_string().parse().ok()),
        ordinal: device.ordinal,
        trial,
        backends,
        dma_buf,
    }
}

type TrialResult = (MappingTrial, Vec<BackendChoice>);

/// Sets `dma_buf` even if the rest fails.
fn trial(ordinal: u32, dma_buf: &mut Option<DmaBufTrial>) -> Result<TrialResult, Box<dyn Error>> {
    let gpu = Gpu::open(ordinal)?;
    let memory = gpu.allocate(Allocation::Malloc, BYTES)?;
    *dma_buf = Some(export(&memory));
    let found = backends(&Gdr::explain_with(&memory));
    let gdr = Gdr::open()?;
    let backend = gdr.backend().to_string();
    let mut mapping = gdr.pin(&memory, 0..BYTES, PinFlags::default())?.map(MapRequest::Default)?;
    let stream = gpu.stream()?;
    let mut bytes = vec![0; BYTES];
    // Written by the CPU and read by the GPU's copy engine, then the other way round.
    let (written, second) = (Pattern::new(1), Pattern::new(2));
    written.fill(&mut bytes, 0);
    mapping.write(0, &bytes)?;
    let mut read_by_gpu = vec![0; BYTES];
    stream.read(&memory, 0, &mut read_by_gpu)?;
    second.fill(&mut bytes, 0);
    stream.write(&memory, 0, &bytes)?;
    let mut found_back = vec![0; BYTES];
    mapping.read(0, &mut found_back)?;
    let wrong =
        [(written, &read_by_gpu, "written by the CPU"), (second, &found_back, "read by the CPU")];
    let wrong = wrong.into_iter().find_map(|(pattern, found, path)| {
        let at = pattern.first_difference(found, 0)?;
        let mut expected = vec![0; BYTES];
        pattern.fill(&mut expected, 0);
        let address = memory.address().offset(at as u64);
        let (expected, found) = (expected.get(at)?, found.get(at)?);
        Some(format!("{address} is {found:#04x} and should be {expected:#04x} ({path})"))
    });
    let trial = match wrong {
        Some(reason) => MappingTrial::Wrong { backend, reason },
        None => MappingTrial::Verified {
            mapping: mapping.mapping_type().to_string(),
            bytes: BYTES as u64,
            backend,
        },
    };
    Ok((trial, found))
}

/// Exports memory as dma-buf and closes the descriptor.
fn export(memory: &DeviceMemory) -> DmaBufTrial {
    match pointer::dmabuf(memory.address(), BYTES, pointer::DmaBufMapping::Default) {
        Ok(_) => DmaBufTrial::Exported,
        Err(error) => DmaBufTrial::Refused { reason: gpu::sentence(&error) },
    }
}

fn backends(found: &[gdrcopy::Explanation]) -> Vec<BackendChoice> {
    let real = found.iter().filter(|found| found.backend != BackendKind::Sim);
    real.map(|found| BackendChoice {
        backend: found.backend.name().to_owned(),
        outcome: match found.outcome {
            Outcome::Chosen => BackendOutcome::Chosen,
            Outcome::Usable => BackendOutcome::Usable,
            Outcome::Refused => BackendOutcome::Refused,
        },
        why: found.why.clone(),
    })
    .collect()
}
