//! Chooses kernels: the named one, else the measured one, else the default of this CPU.

use std::env;
use std::ffi::{OsStr, OsString};

use super::kernel::{Kernel, kernel};
use super::pool::MOST_THREADS;
use super::{arch, tune};

/// Invalid `GDR_COPY_KERNEL` or `GDR_COPY_THREADS`, or a kernel that the CPU does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Unknown kernel name.
    #[error("invalid GDR_COPY_KERNEL: {value:?}; must be one of {known}")]
    UnknownKernel {
        /// Value of the variable.
        value: OsString,
        /// Valid names, separated by commas.
        known: String,
    },
    /// The CPU does not support the kernel's instructions.
    #[error(
        "this CPU cannot run the copy kernel {name}; name another in GDR_COPY_KERNEL, or unset it"
    )]
    KernelUnsupported {
        /// Kernel name.
        name: &'static str,
    },
    /// Invalid number of threads.
    #[error("invalid GDR_COPY_THREADS: {value:?}; must be 1 to {MOST_THREADS}")]
    Threads {
        /// Value of the variable.
        value: OsString,
    },
}

/// Kernels for both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) write: &'static Kernel,
    pub(super) read: &'static Kernel,
}

/// Kernels for write-combining mappings, and the maximum number of threads per copy.
pub(super) fn from_environment() -> Result<(Choice, usize), Error> {
    let threads = threads(env::var_os("GDR_COPY_THREADS").as_deref())?;
    Ok((
        named()?.or_else(tune::known).unwrap_or_else(unmeasured),
        threads,
    ))
}

/// Kernel named by `GDR_COPY_KERNEL`.
pub(super) fn named() -> Result<Option<Choice>, Error> {
    parse(env::var_os("GDR_COPY_KERNEL").as_deref())
}

/// Default kernels, neither measured nor named.
pub(super) fn unmeasured() -> Choice {
    let (writes, reads) = arch::preferred();
    let first = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| kernel(name));
        found
            .find(|kernel| kernel.supported())
            .unwrap_or(plainest())
    };
    Choice {
        write: first(writes),
        read: first(reads),
    }
}

/// Kernel that is correct on every CPU and every mapping.
pub(super) fn plainest() -> &'static Kernel {
    &arch::KERNELS[0]
}

fn parse(value: Option<&OsStr>) -> Result<Option<Choice>, Error> {
    // Shells export empty variables.
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let Some(kernel) = value.to_str().and_then(kernel) else {
        let known: Vec<_> = arch::KERNELS.iter().map(Kernel::name).collect();
        return Err(Error::UnknownKernel {
            value: value.to_owned(),
            known: known.join(", "),
        });
    };
    if !kernel.supported() {
        return Err(Error::KernelUnsupported { name: kernel.name });
    }
    Ok(Some(Choice {
        write: kernel,
        read: kernel,
    }))
}

fn threads(value: Option<&OsStr>) -> Result<usize, Error> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(MOST_THREADS);
    };
    let number = value.to_str().and_then(|text| text.parse().ok());
    number
        .filter(|threads| (1..=MOST_THREADS).contains(threads))
        .ok_or_else(|| Error::Threads {
            value: value.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_kernel_name() {
        assert!(parse(None).expect("no name").is_none());
        assert!(parse(Some(OsStr::new(""))).expect("no name").is_none());
        let choice = parse(Some(OsStr::new("portable")))
            .expect("a name")
            .expect("a choice");
        assert_eq!(
            (choice.write.name(), choice.read.name()),
            ("portable", "portable")
        );
    }

    #[test]
    fn unknown_name_lists_valid_names() {
        let error = parse(Some(OsStr::new("Portable")))
            .expect_err("names are lower case")
            .to_string();
        assert!(
            error.contains("\"Portable\"") && error.contains("one of portable"),
            "{error}"
        );
    }

    #[test]
    fn rejects_unsupported_kernel() {
        for kernel in arch::KERNELS {
            let parsed = parse(Some(OsStr::new(kernel.name)));
            assert_eq!(parsed.is_ok(), kernel.supported(), "{}", kernel.name);
        }
    }

    #[test]
    fn parses_thread_count() {
        let of = |text: &str| threads(Some(OsStr::new(text)));
        assert_eq!(
            (threads(None), of(""), of("1"), of("16")),
            (Ok(16), Ok(16), Ok(1), Ok(16))
        );
        for wrong in ["0", "17", "-1", "two", "1 "] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn default_kernels_run_here() {
        let Choice { write, read } = unmeasured();
        assert!(write.supported() && read.supported() && !write.named_only() && !read.named_only());
    }
}
