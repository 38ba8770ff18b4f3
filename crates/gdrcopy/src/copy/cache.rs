//! Result file in the user's cache directory. A damaged, foreign or unwritable file is ignored.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::arch;
use super::choice::Choice;
use super::kernel::{Kernel, kernel, kernels};
use crate::random;

/// `$XDG_CACHE_HOME/gdr/copy-kernels`, by default under `~/.cache`. A relative directory is ignored
/// (XDG Base Directory Specification).
pub(super) fn path() -> Option<PathBuf> {
    let absolute = |variable| {
        env::var_os(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("gdr/copy-kernels"))
}

/// Key of the measurement: the first line of the file.
fn conditions() -> String {
    let names: Vec<_> = kernels()
        .iter()
        .filter(|kernel| kernel.supported())
        .map(Kernel::name)
        .collect();
    format!(
        "gdr {} on {} with {}",
        env!("CARGO_PKG_VERSION"),
        arch::cpu_model(),
        names.join(",")
    )
}

pub(super) fn remember(path: &Path, choice: Choice) {
    let text = format!(
        "{}\nwrite {}\nread {}\n",
        conditions(),
        choice.write.name,
        choice.read.name
    );
    // Atomic: written to a temporary file, then renamed. Errors are ignored: the next process
    // measures again. Processes of different PID namespaces may share an id.
    let beside = path.with_extension(format!(
        "new.{}.{:016x}",
        std::process::id(),
        random::word()
    ));
    let written = path
        .parent()
        .map(fs::create_dir_all)
        .is_some_and(|made| made.is_ok())
        && fs::write(&beside, text).is_ok()
        && fs::rename(&beside, path).is_ok();
    if !written {
        let _ = fs::remove_file(&beside);
    }
}

pub(super) fn recall(path: &Path) -> Option<Choice> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    if lines.next()? != conditions() {
        return None;
    }
    let mut named = |direction| {
        let name = lines.next()?.strip_prefix(direction)?.strip_prefix(' ')?;
        kernel(name).filter(|kernel| kernel.supported() && !kernel.named_only)
    };
    Some(Choice {
        write: named("write")?,
        read: named("read")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::choice;

    #[test]
    fn round_trip() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/gdr/copy-kernels");
        let portable = choice::plainest();
        remember(
            &path,
            Choice {
                write: choice::unmeasured().write,
                read: portable,
            },
        );
        let recalled = recall(&path).expect("a stored choice");
        assert_eq!(
            (recalled.write.name, recalled.read.name),
            (choice::unmeasured().write.name, "portable")
        );
        let files = fs::read_dir(path.parent().expect("a parent"))
            .expect("a directory")
            .count();
        assert_eq!(files, 1, "no temporary file left");
    }

    #[test]
    fn ignores_damaged_or_foreign_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("copy-kernels");
        assert!(recall(&path).is_none());
        let good = format!("{}\nwrite portable\nread portable\n", conditions());
        for bad in [
            String::new(),
            good.replace("gdr ", "gdr 99."),
            good.replace("write portable", "write memcpy"),
            good.replace("\nread portable\n", "\n"),
            good.replace("read ", "read"),
            good.replace("portable\n", "ls64\n"),
        ] {
            fs::write(&path, &bad).expect("a file");
            assert!(recall(&path).is_none(), "{bad:?}");
        }
        fs::write(&path, [0xff_u8; 64]).expect("a file");
        assert!(recall(&path).is_none());
        fs::write(&path, good).expect("a file");
        assert!(recall(&path).is_some());
    }

    #[test]
    fn ignores_unwritable_directory() {
        remember(Path::new("/proc/gdr/copy-kernels"), choice::unmeasured());
    }
}
