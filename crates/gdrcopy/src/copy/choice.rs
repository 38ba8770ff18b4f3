//! Which kernels copy: the one the user names, else what was measured on this machine, else what
//! CPUs like this one favour.

use std::env;
use std::ffi::{OsStr, OsString};

use super::kernel::{Kernel, kernel};
use super::pool::MOST_THREADS;
use super::{arch, tune};

/// What `GDR_COPY_KERNEL` and `GDR_COPY_THREADS` can have wrong, and what a CPU can lack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No kernel has that name.
    #[error("GDR_COPY_KERNEL={value:?} names no copy kernel; take one of {known}, or unset it")]
    UnknownKernel {
        /// What the variable holds.
        value: OsString,
        /// The names it may hold, with commas between.
        known: String,
    },
    /// The CPU has not got the instructions of a kernel.
    #[error(
        "this CPU cannot run the copy kernel {name}; take another with GDR_COPY_KERNEL, or unset it"
    )]
    KernelUnsupported {
        /// The kernel.
        name: &'static str,
    },
    /// Not a number of threads.
    #[error("GDR_COPY_THREADS={value:?} is no number from 1 to {MOST_THREADS}")]
    Threads {
        /// What the variable holds.
        value: OsString,
    },
}

/// A kernel for each direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) write: &'static Kernel,
    pub(super) read: &'static Kernel,
}

/// The kernels for write-combining mappings, and how many threads a copy may have.
pub(super) fn from_environment() -> Result<(Choice, usize), Error> {
    let threads = threads(env::var_os("GDR_COPY_THREADS").as_deref())?;
    Ok((
        named()?.or_else(tune::known).unwrap_or_else(unmeasured),
        threads,
    ))
}

/// What `GDR_COPY_KERNEL` names.
pub(super) fn named() -> Result<Option<Choice>, Error> {
    parse(env::var_os("GDR_COPY_KERNEL").as_deref())
}

/// What to take where nothing was measured and nothing named.
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

/// The kernel that is correct on every CPU and every mapping.
pub(super) fn plainest() -> &'static Kernel {
    &arch::KERNELS[0]
}

fn parse(value: Option<&OsStr>) -> Result<Option<Choice>, Error> {
    // Set but empty is how a shell unsets what it exports.
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
    fn a_name_is_taken_and_an_empty_one_is_none() {
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
    fn a_wrong_name_is_an_error_that_lists_the_right_ones() {
        let error = parse(Some(OsStr::new("Portable")))
            .expect_err("names are lower case")
            .to_string();
        assert!(
            error.contains("\"Portable\"") && error.contains("portable, "),
            "{error}"
        );
    }

    #[test]
    fn a_kernel_of_another_cpu_is_an_error() {
        for kernel in arch::KERNELS {
            let parsed = parse(Some(OsStr::new(kernel.name)));
            assert_eq!(parsed.is_ok(), kernel.supported(), "{}", kernel.name);
        }
    }

    #[test]
    fn threads_are_1_to_16() {
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
    fn the_unmeasured_choice_runs_here_and_needs_no_naming() {
        let Choice { write, read } = unmeasured();
        assert!(write.supported() && read.supported() && !write.named_only() && !read.named_only());
    }
}
