//! Which GPUs a program sees, and in which order: what `CUDA_VISIBLE_DEVICES` makes of the machine's.

use std::sync::LazyLock;

use crate::device;
use crate::machine::MACHINE;

/// The GPUs by ordinal, each by its place in the machine file.
pub static VISIBLE: LazyLock<Vec<usize>> = LazyLock::new(|| match named() {
    Some(list) => seen(&list),
    None => (0..MACHINE.count()).collect(),
});

/// Whether the variable leaves no GPU at all: `cuInit` refuses then.
pub fn hides_all() -> bool {
    named().is_some() && VISIBLE.is_empty()
}

fn named() -> Option<String> {
    let list = std::env::var_os("CUDA_VISIBLE_DEVICES")?;
    Some(list.to_string_lossy().into_owned())
}

/// Numbers or beginnings of UUIDs between commas; the first that is no GPU, or is one again, ends the list.
fn seen(list: &str) -> Vec<usize> {
    let mut seen = Vec::new();
    for name in list.split(',') {
        match gpu(name.trim()).filter(|gpu| !seen.contains(gpu)) {
            Some(gpu) => seen.push(gpu),
            None => break,
        }
    }
    seen
}

/// The GPU of a number, or of the beginning of a UUID that only one has.
fn gpu(name: &str) -> Option<usize> {
    let count = MACHINE.count();
    if let Ok(number) = name.parse::<usize>() {
        return (number < count).then_some(number);
    }
    if !name.starts_with("GPU-") {
        return None;
    }
    let mut found = (0..count).filter(|gpu| device::uuid_text(*gpu).starts_with(name));
    found.next().filter(|_| found.next().is_none())
}
