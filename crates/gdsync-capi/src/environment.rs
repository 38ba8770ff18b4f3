//! The environment variables of libgdsync, read once.

use std::os::unix::ffi::OsStrExt as _;

use process::SetOnce;

/// What they say. A variable that is not set, or is 0, changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
}

/// Who is behind queue pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Hca {
    /// Whoever fits the device.
    #[default]
    Fitting,
    /// `proxy`: a thread, with any device.
    Proxy,
    /// `mlx5`: the card itself.
    Mlx5,
}

/// This process's.
pub(crate) fn environment() -> &'static Environment {
    static ENVIRONMENT: SetOnce<Environment> = SetOnce::new();
    ENVIRONMENT.get_or_set(|| {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| is_number_but_0(value.as_bytes()));
        Environment {
            debug: is_set("GDS_ENABLE_DEBUG"),
            no_write64: is_set("GDS_DISABLE_WRITE64"),
            no_wait_nor: is_set("GDS_DISABLE_WAIT_NOR"),
            no_remote_flush: is_set("GDS_DISABLE_REMOTE_FLUSH"),
            no_write_memory: is_set("GDS_DISABLE_WRITEMEMORY"),
            dump: is_set("GDS_ENABLE_DUMP_MEMOPS"),
            hca: match std::env::var("GDS_HCA").as_deref() {
                Ok("proxy") => Hca::Proxy,
                Ok("mlx5") => Hca::Mlx5,
                _ => Hca::Fitting,
            },
        }
    })
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
    use super::is_number_but_0;

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
