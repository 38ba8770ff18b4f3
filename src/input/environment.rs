//! What of the environment reaches a child of this binary.
//!
//! A child that loads vendor libraries gets all of it. It runs with the rights of whoever started gdr, who can start any program with
//! these variables; and it answers what a program of this user gets: `LD_LIBRARY_PATH` (which libraries), `CUDA_*` and `NVIDIA_*` (which
//! GPUs, which driver, MPS), `IBV_*`, `RDMAV_*` and `MLX5_*` (which providers), `HOME` (CUDA's cache), `GDR_*` (gdrcopy's backend). Under
//! sudo it is sudo's configuration that says which variables gdr itself gets.
//!
//! That does not hold where the file of gdr gives rights to whoever runs it, by a setuid bit or file capabilities. The loader then
//! drops what names libraries, but `CUDA_INJECTION64_PATH` and `RDMAV_DRIVERS` do so, too: such a child gets nothing.

use std::process::Command;
use std::sync::LazyLock;

/// `AT_SECURE` in the auxiliary vector (getauxval(3)).
const AT_SECURE: usize = 23;

/// Whether the kernel gave this process rights that its caller does not have.
static ELEVATED: LazyLock<bool> =
    LazyLock::new(|| std::fs::read("/proc/self/auxv").is_ok_and(|vector| is_secure(&vector)));

/// Gives a child of this binary the environment it may have.
pub fn pass_environment(command: &mut Command) {
    pass(command, *ELEVATED);
}

fn pass(command: &mut Command, is_elevated: bool) {
    if is_elevated {
        command.env_clear().env("LC_ALL", "C");
    }
}

/// Pairs of a type and a value, in words of the machine.
fn is_secure(vector: &[u8]) -> bool {
    const WORD: usize = size_of::<usize>();
    let word = |bytes: &[u8]| bytes.try_into().map(usize::from_ne_bytes).unwrap_or(0);
    let mut pairs = vector.chunks_exact(2 * WORD);
    pairs.any(|pair| word(&pair[..WORD]) == AT_SECURE && word(&pair[WORD..]) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_whether_rights_were_gained() {
        let vector = |pairs: &[(usize, usize)]| -> Vec<u8> {
            let words = pairs.iter().flat_map(|(kind, value)| [*kind, *value]);
            words.flat_map(usize::to_ne_bytes).collect()
        };
        assert!(is_secure(&vector(&[(3, 64), (23, 1), (0, 0)])));
        assert!(!is_secure(&vector(&[(3, 23), (23, 0), (0, 0)])));
        assert!(!is_secure(
            &std::fs::read("/proc/self/auxv").expect("a vector")
        ));
    }

    #[test]
    fn with_such_rights_a_child_gets_nothing_of_the_caller() {
        for (is_elevated, wanted) in [
            (true, "LC_ALL=C\n"),
            (false, "X=1\nCUDA_INJECTION64_PATH=/x\n"),
        ] {
            let mut command = Command::new("/usr/bin/env");
            // As they come from the caller.
            command
                .env_clear()
                .env("X", "1")
                .env("CUDA_INJECTION64_PATH", "/x");
            pass(&mut command, is_elevated);
            let said = command.output().expect("env runs").stdout;
            let mut lines: Vec<&str> = std::str::from_utf8(&said).expect("text").lines().collect();
            let mut wanted: Vec<&str> = wanted.lines().collect();
            lines.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(lines, wanted);
        }
    }
}
