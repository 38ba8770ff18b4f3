//! Finds the memory object of a `cuMemCreate` allocation by a path from its CUDA handle through
//! CUDA's structures.
//!
//! Memory that is not exportable has no documented way out, but CUDA stores the object's number
//! near the structure of its handle. The path is searched once on our own allocations, whose
//! contents prove each candidate ([`super::trust`]); a user's handle is then followed along that
//! path only. Reads use `process_vm_readv`, which returns an error for an unmapped address instead
//! of faulting, and never touches device registers.

/// Bytes searched at each pointer.
const REACH: usize = 0x400;
/// Smaller values are not pointers.
const LOWEST_POINTER: u64 = 0x1_0000;
/// Larger values are kernel addresses.
const HIGHEST_POINTER: u64 = 0x0000_7FFF_FFFF_FFFF;

/// Offsets of the pointers to follow from the handle, and offset of the object's number at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Path {
    // Compared first: fewer hops sort first.
    hops: Vec<u32>,
    last: u32,
}

impl Path {
    /// Number at the end of the path.
    pub(crate) fn follow(&self, root: u64) -> Option<u32> {
        let mut at = root;
        for &hop in &self.hops {
            at = u64::from_ne_bytes(peek(at.checked_add(u64::from(hop))?)?);
            if !is_pointer(at) {
                return None;
            }
        }
        Some(u32::from_ne_bytes(peek(at.checked_add(u64::from(self.last))?)?))
    }
}

/// Numbers of hops to try, in order. At least one: unrelated heap data may follow the handle's own
/// structure.
pub(crate) const DEPTHS: std::ops::RangeInclusive<usize> = 1..=2;

/// Paths that lead to the same numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    /// One for each root, all different.
    pub(crate) numbers: Vec<u32>,
    /// Nearest first.
    pub(crate) paths: Vec<Path>,
}

/// Paths of exactly `depth` hops that end in a different number for every root, each accepted by
/// `plausible`; numbers with the most paths first.
pub(crate) fn search(roots: &[u64], depth: usize, plausible: &dyn Fn(u32) -> bool) -> Vec<Trace> {
    let Some((&first, others)) = roots.split_first() else {
        return Vec::new();
    };
    let mut traces: Vec<Trace> = Vec::new();
    explore(first, depth, &mut Vec::new(), &mut |path, number| {
        if !plausible(number) {
            return;
        }
        let mut numbers = vec![number];
        for &root in others {
            match path.follow(root) {
                Some(number) if plausible(number) && !numbers.contains(&number) => {
                    numbers.push(number)
                }
                _ => return,
            }
        }
        match traces.iter_mut().find(|trace| trace.numbers == numbers) {
            Some(trace) => trace.paths.push(path),
            None => traces.push(Trace { numbers, paths: vec![path] }),
        }
    });
    for trace in &mut traces {
        trace.paths.sort();
    }
    traces.sort_by_key(|trace| std::cmp::Reverse(trace.paths.len()));
    traces
}

/// Numbers at the ends of the paths from `root`, most paths first. Proven paths should agree; RM
/// identifies a wrong number by its object's properties.
pub(crate) fn candidates(paths: &[Path], root: u64) -> Vec<u32> {
    let mut votes: Vec<(u32, usize)> = Vec::new();
    for number in paths.iter().filter_map(|path| path.follow(root)).filter(|&number| number != 0) {
        match votes.iter_mut().find(|(voted, _)| *voted == number) {
            Some((_, count)) => *count += 1,
            None => votes.push((number, 1)),
        }
    }
    votes.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    votes.into_iter().map(|(number, _)| number).collect()
}

fn explore(at: u64, depth: usize, hops: &mut Vec<u32>, visit: &mut dyn FnMut(Path, u32)) {
    let window = window(at);
    if depth == 0 {
        for (index, word) in window.chunks_exact(4).enumerate() {
            let number = word.try_into().map_or(0, u32::from_ne_bytes);
            let path = Path { hops: hops.clone(), last: index as u32 * 4 };
            visit(path, number);
        }
        return;
    }
    for (index, word) in window.chunks_exact(8).enumerate() {
        let pointer = word.try_into().map_or(0, u64::from_ne_bytes);
        if is_pointer(pointer) {
            hops.push(index as u32 * 8);
            explore(pointer, depth - 1, hops, visit);
            hops.pop();
        }
    }
}

fn is_pointer(value: u64) -> bool {
    (LOWEST_POINTER..=HIGHEST_POINTER).contains(&value) && value.is_multiple_of(8)
}

/// Readable bytes from `at`, at most [`REACH`].
fn window(at: u64) -> Vec<u8> {
    let mut bytes = vec![0; REACH];
    let read = read_own(at, &mut bytes);
    bytes.truncate(read);
    bytes
}

fn peek<const N: usize>(at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    (read_own(at, &mut bytes) == N).then_some(bytes)
}

/// Reads this process's memory; returns the number of bytes read.
fn read_own(at: u64, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(at as usize), iov_len: to.len() };
    // SAFETY: the kernel writes at most `to.len()` bytes into `to`, which is borrowed for the call;
    // the other side is only read by the kernel, which returns EFAULT for unmapped addresses.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(read).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in CUDA 13.0: the handle's structure has a pointer at 0x60 to another, which has the
    /// number at 0x38 and 0x130. Both fill the searched range, so that the search meets no heap
    /// data.
    struct Structure {
        root: Box<[u64; REACH / 8]>,
        inner: Box<[u32; REACH / 4]>,
    }

    fn structure(number: u32, noise: u32) -> Structure {
        let mut inner = Box::new([noise; REACH / 4]);
        inner[0x38 / 4] = number;
        inner[0x130 / 4] = number;
        let mut root = Box::new([0; REACH / 8]);
        root[0x60 / 8] = std::ptr::from_mut(&mut *inner).expose_provenance() as u64;
        root[0x20 / 8] = 1;
        Structure { root, inner }
    }

    fn address(structure: &Structure) -> u64 {
        std::ptr::from_ref(&*structure.root).expose_provenance() as u64
    }

    fn path(hop: u32, last: u32) -> Path {
        Path { hops: vec![hop], last }
    }

    const PLAUSIBLE: &dyn Fn(u32) -> bool = &|number| number >> 20 == 0x5c0;

    #[test]
    fn finds_and_follows_common_path() {
        let known =
            [structure(0x5c00_0096, 7), structure(0x5c00_0098, 8), structure(0x5c00_009a, 9)];
        let roots = known.each_ref().map(address);
        let traces = search(&roots, 1, PLAUSIBLE);
        let Trace { numbers, paths } = &traces[0];
        assert_eq!(*numbers, [0x5c00_0096, 0x5c00_0098, 0x5c00_009a]);
        assert!(paths.contains(&path(0x60, 0x38)) && paths.contains(&path(0x60, 0x130)));
        let user = structure(0x5c01_0002, 0);
        assert_eq!(candidates(paths, address(&user)), [0x5c01_0002]);
    }

    #[test]
    fn ignores_constant_number() {
        let known = [structure(0x5c00_0096, 0x5c00_0001), structure(0x5c00_0098, 0x5c00_0001)];
        let roots = known.each_ref().map(address);
        let traces = search(&roots, 1, PLAUSIBLE);
        assert!(traces.iter().any(|trace| trace.numbers == [0x5c00_0096, 0x5c00_0098]));
        assert!(!traces.iter().any(|trace| trace.numbers.contains(&0x5c00_0001)));
    }

    #[test]
    fn orders_numbers_by_path_count() {
        let mut user = structure(0x5c00_0096, 0);
        let (first, second, accident) = (path(0x60, 0x38), path(0x60, 0x130), path(0x60, 0x180));
        user.inner[0x180 / 4] = 0x5c00_0042;
        let root = address(&user);
        let all = [accident.clone(), first.clone(), second];
        assert_eq!(candidates(&all, root), [0x5c00_0096, 0x5c00_0042]);
        assert_eq!(candidates(&[accident, first], root), [0x5c00_0042, 0x5c00_0096]);
        assert_eq!(candidates(&[path(0x60, 0x184)], root), []);
        assert_eq!(candidates(&[], root), []);
    }

    #[test]
    fn stops_at_unmapped_pointer() {
        let path = path(0, 0);
        assert_eq!(path.follow(0x10), None);
        assert_eq!(path.follow(u64::MAX - 3), None);
        assert_eq!(search(&[0x10], 1, PLAUSIBLE), Vec::new());
        let mut broken = structure(0x5c00_0096, 0);
        broken.root[0x60 / 8] = 0x7000_0000_0000;
        let path = Path { hops: vec![0x60], last: 0x38 };
        assert_eq!(path.follow(address(&broken)), None);
    }
}
