//! The directories that a version of kmod reads, and the version of a library.

pub const NEWEST: u32 = 34;

/// The directories of modprobe.d: a file hides those of the same name in later directories.
///
/// From libkmod's `default_config_paths`; 29 added `/usr/local/lib`, 32 the distribution's own directory
/// (`/usr/lib` by default).
pub fn directories(version: u32) -> &'static [&'static str] {
    match version {
        ..29 => &["/etc/modprobe.d", "/run/modprobe.d", "/lib/modprobe.d"],
        29..32 => {
            &["/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/lib/modprobe.d"]
        }
        32.. => &[
            "/etc/modprobe.d",
            "/run/modprobe.d",
            "/usr/local/lib/modprobe.d",
            "/usr/lib/modprobe.d",
            "/lib/modprobe.d",
        ],
    }
}

/// The kmod version of a library's file name: `libkmod.so.2.4.0` is 30.
///
/// From `LIBKMOD_AGE` and `LIBKMOD_REVISION` of kmod's releases: 27 has 3.5, 28 3.6, 29 3.7, 30 4.0,
/// 31 4.1, 32 4.2, 33 5.0, 34 5.1.
pub fn version_of_library(file: &str) -> Option<u32> {
    let mut numbers = file.strip_prefix("libkmod.so.2.")?.split('.').map(str::parse::<u32>);
    match (numbers.next()?.ok()?, numbers.next()?.ok()?) {
        (..3, _) => Some(22),
        (3, revision) => Some((revision + 22).min(29)),
        (4, revision) => Some((revision + 30).min(32)),
        (5, revision) => Some((revision + 33).min(NEWEST)),
        (6.., _) => Some(NEWEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_name_gives_version() {
        for (file, version) in [
            ("libkmod.so.2.3.5", Some(27)),
            ("libkmod.so.2.3.7", Some(29)),
            ("libkmod.so.2.4.0", Some(30)),
            ("libkmod.so.2.4.2", Some(32)),
            ("libkmod.so.2.5.0", Some(33)),
            ("libkmod.so.2.5.1", Some(34)),
            ("libkmod.so.2.9.0", Some(34)),
            ("libkmod.so.2", None),
            ("libkmod.so.2.x.y", None),
        ] {
            assert_eq!(version_of_library(file), version, "{file}");
        }
    }

    #[test]
    fn later_versions_read_more_directories() {
        assert_eq!(directories(28).len(), 3);
        assert_eq!(directories(29)[2], "/usr/local/lib/modprobe.d");
        assert_eq!(directories(31).len(), 4);
        assert_eq!(directories(32)[3], "/usr/lib/modprobe.d");
    }
}
