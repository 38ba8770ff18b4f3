//! The environment variables of libgdsync, read once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use gdr_sys::process::SetOnce;

/// Their values. An unset variable, or 0, selects the default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Environment {
    /// `GDS_ENABLE_DEBUG`: debug messages.
    pub(crate) debug: bool,
    /// `GDS_DISABLE_WRITE64` or `GDS_SIMULATE_WRITE64`: writes 64-bit words in halves. The second one asks for a memory write of eight
    /// bytes, and memory is written in 32-bit words.
    pub(crate) no_write64: bool,
    /// `GDS_DISABLE_WAIT_NOR`: disables waits by NOR. In libgdsync they are off unless this is 0, because it does not initialise its
    /// completion queues for them.
    pub(crate) no_wait_nor: bool,
    /// `GDS_DISABLE_REMOTE_FLUSH`: disables flushes of waits.
    pub(crate) no_remote_flush: bool,
    /// `GDS_DISABLE_MEMBAR`: posts no barriers. CUDA's writes imply one. libgdsync reads no such setting, although it declares it.
    pub(crate) no_barrier: bool,
    /// `GDS_ENABLE_WAIT_CHECKER`: logs the progress of waits by NOR.
    pub(crate) checks_waits: bool,
    /// `GDS_HCA`: the backend of queue pairs; not in libgdsync.
    pub(crate) hca: Hca,
    /// `GDS_ENABLE_DUMP_MEMOPS`: logs every batch posted to a stream.
    pub(crate) dump: bool,
    /// `GDS_CPU_WAIT_TIMEOUT_MS`: timeout of a wait in `gds_post_descriptors`, in milliseconds; not in libgdsync.
    pub(crate) cpu_wait_timeout: Duration,
}

/// Ranks of one job are rarely this far apart.
const CPU_WAIT_TIMEOUT: Duration = Duration::from_secs(600);

/// The backend of queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Hca {
    /// By device: mlx5 for mlx5 NICs, otherwise the proxy.
    #[default]
    Auto,
    /// `proxy`: a thread, for any device.
    Proxy,
    /// `mlx5`: the GPU rings the NIC's doorbells.
    Mlx5,
}

pub(crate) fn environment() -> &'static Environment {
    static ENVIRONMENT: SetOnce<Environment> = SetOnce::new();
    ENVIRONMENT.get_or_set(|| {
        let is_set =
            |name: &str| std::env::var_os(name).is_some_and(|value| is_nonzero(value.as_bytes()));
        Environment {
            debug: is_set("GDS_ENABLE_DEBUG"),
            no_write64: is_set("GDS_DISABLE_WRITE64") || is_set("GDS_SIMULATE_WRITE64"),
            no_wait_nor: is_set("GDS_DISABLE_WAIT_NOR"),
            no_remote_flush: is_set("GDS_DISABLE_REMOTE_FLUSH"),
            no_barrier: is_set("GDS_DISABLE_MEMBAR"),
            checks_waits: is_set("GDS_ENABLE_WAIT_CHECKER"),
            dump: is_set("GDS_ENABLE_DUMP_MEMOPS"),
            cpu_wait_timeout: timeout(std::env::var_os("GDS_CPU_WAIT_TIMEOUT_MS").as_deref()),
            hca: match std::env::var("GDS_HCA").as_deref() {
                Ok("proxy") => Hca::Proxy,
                Ok("mlx5") => Hca::Mlx5,
                _ => Hca::Auto,
            },
        }
    })
}

/// Variables of libgdsync without effect here: name, whether a number other than 0 asks for something, and why there is no effect.
const OBSOLETE: [(&str, bool, &str); 3] = [
    (
        "GDS_ENABLE_FLUSHER",
        true,
        "waits flush the NIC's writes themselves, on GPUs that do not order them",
    ),
    (
        "GDS_DISABLE_WRITEMEMORY",
        true,
        "CUDA has no public operation for memory writes: memory is always written in words",
    ),
    (
        "GDS_DISABLE_WEAK_CONSISTENCY",
        false,
        "CUDA has no public flag for relaxed order: batches are always in order",
    ),
];

/// Names and reasons of the variables that ask for something that no longer applies.
pub(crate) fn obsolete() -> impl Iterator<Item = (&'static str, &'static str)> {
    let asked = |(name, when, why)| {
        let value = std::env::var_os(name)?;
        (is_nonzero(value.as_bytes()) == when).then_some((name, why))
    };
    OBSOLETE.into_iter().filter_map(asked)
}

/// Parses milliseconds; the default for 0 or invalid text.
fn timeout(text: Option<&OsStr>) -> Duration {
    let number = text.and_then(OsStr::to_str).and_then(|text| text.trim().parse().ok());
    // Limited, so that adding it to an `Instant` does not overflow.
    let number = number.filter(|&number| (1..=u64::from(u32::MAX)).contains(&number));
    number.map_or(CPU_WAIT_TIMEOUT, Duration::from_millis)
}

/// True if C's `atoi` returns a value other than 0.
fn is_nonzero(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let digits = match text {
        [b'-' | b'+', rest @ ..] => rest,
        rest => rest,
    };
    let mut digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    digits.any(|digit| *digit != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_timeout() {
        for (text, milliseconds) in [
            (Some("1"), 1),
            (Some(" 2500 "), 2500),
            (Some("4294967295"), 4_294_967_295),
            (Some("4294967296"), 600_000),
            (Some("0"), 600_000),
            (Some("-1"), 600_000),
            (Some("ten"), 600_000),
            (Some(""), 600_000),
            (None, 600_000),
        ] {
            let found = timeout(text.map(OsStr::new));
            assert_eq!(found, Duration::from_millis(milliseconds), "{text:?}");
        }
    }

    #[test]
    fn parses_numbers_like_atoi() {
        for (text, expected) in [
            ("1", true),
            (" 10x", true),
            ("-2", true),
            ("0", false),
            ("00x1", false),
            ("", false),
            ("yes", false),
        ] {
            assert_eq!(is_nonzero(text.as_bytes()), expected, "{text:?}");
        }
    }
}
