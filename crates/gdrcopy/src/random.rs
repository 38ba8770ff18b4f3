//! Random contents for our own memory, so that two places never match by chance.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use gdr_sys::process::Process;

/// Random bytes.
pub(crate) fn bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(word().to_ne_bytes().get(..chunk.len()).unwrap_or_default());
    }
    bytes
}

/// Next word of this thread's sequence (xorshift64*, Vigna 2016). A forked child starts a new
/// sequence instead of repeating its parent's.
pub(crate) fn word() -> u64 {
    thread_local! {
        static STATE: Cell<Option<(Process, u64)>> = const { Cell::new(None) };
    }
    let process = Process::current();
    STATE.with(|state| {
        let mut word = match state.get() {
            Some((owner, word)) if owner == process => word,
            _ => seed(process),
        };
        word ^= word >> 12;
        word ^= word << 25;
        word ^= word >> 27;
        state.set(Some((process, word)));
        word.wrapping_mul(0x2545_F491_4F6C_DD1D)
    })
}

/// Seed from the standard library's hash map keys, which a child inherits: the process number
/// differs from its ancestors', process id and time from its siblings'.
fn seed(process: Process) -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(process.number());
    hasher.write_u32(std::process::id());
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    hasher.write_u128(time.as_nanos());
    // The sequence must not start at 0.
    hasher.finish() | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_differ() {
        let bytes = bytes(1 << 20);
        let mut pages: Vec<&[u8]> = bytes.chunks(64).collect();
        pages.sort_unstable();
        pages.dedup();
        assert_eq!(pages.len(), (1 << 20) / 64);
        assert_eq!(super::bytes(3).len(), 3);
    }

    #[test]
    fn forked_child_has_new_sequence() {
        word();
        let mut ends = [0; 2];
        // SAFETY: there is room for both ends.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: the child computes, writes and ends by _exit.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let theirs = word().to_ne_bytes();
            // SAFETY: eight bytes of this function's; then the child ends.
            unsafe {
                libc::write(ends[1], theirs.as_ptr().cast(), 8);
                libc::_exit(0);
            }
        }
        let ours = word();
        let mut theirs = [0; 8];
        // SAFETY: there is room for the bytes and the status.
        unsafe {
            assert_eq!(libc::read(ends[0], theirs.as_mut_ptr().cast(), 8), 8);
            assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
            libc::close(ends[0]);
            libc::close(ends[1]);
        }
        assert_ne!(u64::from_ne_bytes(theirs), ours);
    }
}
