//! Visible GPUs and their order, from `CUDA_VISIBLE_DEVICES`.

use std::sync::LazyLock;

use crate::device;
use crate::machine::MACHINE;

/// GPUs by ordinal, as indices in the machine file.
pub static VISIBLE: LazyLock<Vec<usize>> = LazyLock::new(|| match named() {
    Some(list) => seen(&list),
    None => (0..MACHINE.count()).collect(),
});

/// True if the variable hides all GPUs: `cuInit` then fails.
pub fn hides_all() -> bool {
    named().is_some() && VISIBLE.is_empty()
}

fn named() -> Option<String> {
    let list = std::env::var_os("CUDA_VISIBLE_DEVICES")?;
    Some(list.to_string_lossy().into_owned())
}

/// Numbers or UUID prefixes, separated by commas; the first invalid or repeated one ends the list.
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

/// GPU of a number, or of a unique UUID prefix.
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
