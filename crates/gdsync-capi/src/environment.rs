//! The environment variables of libgdsync, read once.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use process::SetOnce;

/// What they say. A variable that is not set, or is 0, changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Environment {
    /// `GDS_ENABLE_DEBUG`: debug messages.
    pub(crate) debug: bool,
    /// `GDS_DISABLE_WRITE64`: words of 64 bits are written in halves.
    pub(crate) no_write64: bool,
    /// `GDS_DISABLE_WAIT_NOR`: no waits by NOR. Unlike libgdsync, which has them off unless this is 0, for a completion queue that
    /// was not initialised for them.
    pub(crate) no_wait_nor: bool,
    /// `GDS_DISABLE_REMOTE_FLUSH`: waits do not flush, whatever they are asked for.
    pub(crate) no_remote_flush: bool,
    /// `GDS_DISABLE_WRITEMEMORY`: nothing comes of it, since no public CUDA has the operation that it turns off; memory is
    /// written in words.
    pub(crate) no_write_memory: bool,
    /// `GDS_HCA`: who is behind queue pairs; of this library alone.
    pub(crate) hca: Hca,
    /// `GDS_ENABLE_DUMP_MEMOPS`: each batch that is put into a stream is told.
    pub(crate) dump: bool,
    /// `GDS_CPU_WAIT_TIMEOUT_MS`: how long the CPU waits for a word in `gds_post_descriptors`, in milliseconds; of this library alone.
    pub(crate) cpu_wait_timeout: Duration,
}

/// Longer than ranks of one job are apart in any step that is still of use.
const CPU_WAIT_TIMEOUT: Duration = Duration::from_secs(600);

/// Who is behind queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Hca {
    /// Whoever fits the device.
    #[default]
    Fitting,
    /// `proxy`: a thread, with any device.
    Proxy,
    /// `mlx5`: the NIC itself.
    Mlx5,
}

pub(crate) fn environment() -> &'static Environment {
    static ENVIRONMENT: SetOnce<Environment> = SetOnce::new();
    ENVIRONMENT.get_or_set(|| {
        let is_set = |name: &str| {
            std::env::var_os(name).is_some_and(|value| is_number_but_0(value.as_bytes()))
        };
        Environment {
            debug: is_set("GDS_ENABLE_DEBUG"),
            no_write64: is_set("GDS_DISABLE_WRITE64"),
            no_wait_nor: is_set("GDS_DISABLE_WAIT_NOR"),
            no_remote_flush: is_set("GDS_DISABLE_REMOTE_FLUSH"),
            no_write_memory: is_set("GDS_DISABLE_WRITEMEMORY"),
            dump: is_set("GDS_ENABLE_DUMP_MEMOPS"),
            cpu_wait_timeout: timeout(std::env::var_os("GDS_CPU_WAIT_TIMEOUT_MS").as_deref()),
            hca: match std::env::var("GDS_HCA").as_deref() {
                Ok("proxy") => Hca::Proxy,
                Ok("mlx5") => Hca::Mlx5,
                _ => Hca::Fitting,
            },
        }
    })
}

/// So many milliseconds; the default where it is no number, or 0.
fn timeout(text: Option<&OsStr>) -> Duration {
    let number = text
        .and_then(OsStr::to_str)
        .and_then(|text| text.trim().parse().ok());
    // An `Instant` is that long from now, also in a thousand years.
    let number = number.filter(|&number| (1..=u64::from(u32::MAX)).contains(&number));
    number.map_or(CPU_WAIT_TIMEOUT, Duration::from_millis)
}

/// Whether C's `atoi` makes something else than 0 of it.
fn is_number_but_0(text: &[u8]) -> bool {
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
    fn a_timeout_is_a_number_of_milliseconds_and_ten_minutes_otherwise() {
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
    fn variables_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("1", true),
            (" 10x", true),
            ("-2", true),
            ("0", false),
            ("00x1", false),
            ("", false),
            ("yes", false),
        ] {
            assert_eq!(is_number_but_0(text.as_bytes()), expected, "{text:?}");
        }
    }
}
