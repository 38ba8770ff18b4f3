//! Paths whose absence makes another machine, because their existence is the fact.

use super::lossy::How;
use super::machines::{Answer, Form, Loss};

pub fn is_another_machine(_form: Form, loss: &Loss) -> bool {
    match loss {
        Loss::Path(path, _) if path == ENVIRONMENT => true,
        Loss::Path(path, How::Forgotten) if matches(NAMESPACES, path) => true,
        Loss::Path(path, How::Absent) => ABSENT.iter().any(|(pattern, _)| matches(pattern, path)),
        Loss::Answer(pointer, Answer::Removed) => {
            NOT_ASKED.iter().any(|(pattern, _)| matches(pattern, pointer))
        }
        _ => false,
    }
}

/// What the variables of gdr's own process set holds for that process: if they are unknown, sw.environment is.
const ENVIRONMENT: &str = "/proc/self/environ";

/// A root directory has no process: without its namespaces the files of the machine count.
const NAMESPACES: &str = "/proc/self/ns/*";

/// Paths whose existence is the fact, and reasons; `*` stands for a part of a name.
const ABSENT: &[(&str, &str)] = &[
    ("/sys/class/infiniband", "the RDMA core is not loaded"),
    ("/sys/class/infiniband/*", "there is one RDMA device less"),
    ("/sys/bus/pci/devices/*", "there is one PCI function less"),
    ("/sys/module/nvidia_peermem", "the module is not loaded, so its faults do not matter"),
    ("/proc/driver/nvidia/gpus/*", "the driver does not manage this GPU"),
];

/// Parts of answers that say something by their absence.
const NOT_ASKED: &[(&str, &str)] = &[
    ("/network/answered/interfaces/*/priorities/known/pfc/*", "a priority less has flow control"),
    ("/nvml/answered/read/unreachable/*", "NVML names no such GPU"),
    (
        "/cuda/answered/read/gpus/*/fabric_handles",
        "a CUDA that does not know the attribute: it has no such memory",
    ),
    ("/cuda/answered/read/gpus/*/dma_buf", "a CUDA that does not know the attribute"),
    (
        "/nvml/answered/read/gpus/*/fabric_registration",
        "an NVML that does not know the registration",
    ),
    (
        "/nvml/answered/read/gpus/*/fabric_registration/known/health",
        "an NVML that does not know the health",
    ),
    ("/network/answered/growth/rises/*", "no counter of this port rose"),
    ("/network/answered/growth/rises/*/*", "this counter did not rise"),
    ("/network", "counters were not read twice"),
    ("/network/answered/growth", "counters were not read twice"),
];

fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (pattern.split('/'), path.split('/'));
    pattern.clone().count() == path.clone().count()
        && pattern.zip(path).all(|(pattern, name)| match pattern.split_once('*') {
            Some((start, end)) => {
                name.len() >= start.len() + end.len()
                    && name.starts_with(start)
                    && name.ends_with(end)
            }
            None => pattern == name,
        })
}
