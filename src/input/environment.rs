//! The environment of child processes of this binary.
//!
//! A child that loads vendor libraries inherits all variables. It has the rights of the caller, who can start any
//! program with them, and must see what the caller's programs see: `LD_LIBRARY_PATH`, `CUDA_*`, `NVIDIA_*`, `IBV_*`,
//! `RDMAV_*`, `MLX5_*`, `HOME` (CUDA's cache), `GDR_*` (gdrcopy's backend). Under sudo, sudo's configuration has
//! filtered them.
//!
//! If gdr has a setuid bit or file capabilities, the child gets none: the loader then ignores variables that name
//! libraries, but `CUDA_INJECTION64_PATH` and `RDMAV_DRIVERS` name some too.

use std::process::Command;
use std::sync::LazyLock;

/// `AT_SECURE` in the auxiliary vector (getauxval(3)).
const AT_SECURE: usize = 23;

/// True if this process has rights that its caller lacks.
static ELEVATED: LazyLock<bool> =
    LazyLock::new(|| std::fs::read("/proc/self/auxv").is_ok_and(|vector| is_secure(&vector)));

/// Sets the environment of a child of this binary.
pub fn pass_environment(command: &mut Command) {
    pass(command, *ELEVATED);
}

fn pass(command: &mut Command, is_elevated: bool) {
    if is_elevated {
        command.env_clear().env("LC_ALL", "C");
    }
}

/// Searches the auxiliary vector, pairs of type and value.
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
    fn reads_at_secure() {
        let vector = |pairs: &[(usize, usize)]| -> Vec<u8> {
            let words = pairs.iter().flat_map(|(kind, value)| [*kind, *value]);
            words.flat_map(usize::to_ne_bytes).collect()
        };
        assert!(is_secure(&vector(&[(3, 64), (23, 1), (0, 0)])));
        assert!(!is_secure(&vector(&[(3, 23), (23, 0), (0, 0)])));
        assert!(!is_secure(&std::fs::read("/proc/self/auxv").expect("a vector")));
    }

    #[test]
    fn elevated_child_gets_no_environment() {
        for (is_elevated, expected) in
            [(true, "LC_ALL=C\n"), (false, "X=1\nCUDA_INJECTION64_PATH=/x\n")]
        {
            let mut command = Command::new("/usr/bin/env");
            // From the caller.
            command.env_clear().env("X", "1").env("CUDA_INJECTION64_PATH", "/x");
            pass(&mut command, is_elevated);
            let output = command.output().expect("env runs").stdout;
            let mut lines: Vec<&str> =
                std::str::from_utf8(&output).expect("text").lines().collect();
            let mut expected: Vec<&str> = expected.lines().collect();
            lines.sort_unstable();
            expected.sort_unstable();
            assert_eq!(lines, expected);
        }
    }
}
