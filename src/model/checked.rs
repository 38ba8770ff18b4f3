//! Strings that become program arguments or file names. Construction and deserialization check them, so none can act
//! as an option, leave its directory or break a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// A string that does not satisfy its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not {what}")]
pub struct Invalid {
    what: &'static str,
}

/// Defines string types, each with its rule.
macro_rules! checked {
    ($($(#[$about:meta])* $name:ident is $what:literal where $rule:expr;)*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// The string.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                let rule: fn(&str) -> bool = $rule;
                if rule(&text) { Ok(Self(text)) } else { Err(Invalid { what: $what }) }
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Invalid;

            fn try_from(text: &str) -> Result<Self, Invalid> {
                Self::try_from(text.to_owned())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

checked! {
    /// Name of a systemd unit (systemd.unit(5)): at most 255 characters, ending in a unit type.
    UnitName is "the name of a systemd unit" where |text| {
        name(text, 255, |c| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c)) && text.contains('.')
    };
    /// Name of a kernel module; the kernel's limit is 56 bytes (MODULE_NAME_LEN).
    ModuleName is "the name of a kernel module" where |text| {
        name(text, 56, |c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    /// Kernel release, as `uname -r` prints it (at most 64 bytes, struct utsname).
    KernelRelease is "a kernel release" where |text| {
        name(text, 64, |c| c.is_ascii_alphanumeric() || "-_.+~".contains(c))
    };
    /// One word of the kernel command line, at most 2048 bytes.
    KernelWord is "a word of the kernel's command line" where |text| {
        !text.is_empty() && text.len() <= 2048 && !text.contains(|c: char| c.is_control())
    };
    /// Absolute path of a file without `.` or `..`, at most 4096 bytes (PATH_MAX).
    FilePath is "an absolute path without '.', '..' or control characters" where |text| {
        let plain = |part: &str| !matches!(part, "" | "." | "..");
        text.len() <= 4096
            && !text.contains(|c: char| c.is_control())
            && text.strip_prefix('/').is_some_and(|rest| rest.split('/').all(plain))
    };
    /// A SHA-256 hash in lower-case hexadecimal, as sha256sum prints it.
    Digest is "a SHA-256 hash" where |text| {
        text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
}

impl Digest {
    /// Hashes bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(&sha2::Sha256::digest(bytes))
    }

    /// Converts the 32 bytes of a hash.
    pub fn from_hash(hash: &[u8]) -> Self {
        Self(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// True if a string has only allowed characters, is short enough and is not an option.
fn name(text: &str, max: usize, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty()
        && text.len() <= max
        && !text.starts_with(['-', '.'])
        && text.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_options_paths_and_control_characters() {
        assert!(UnitName::try_from("nvidia-persistenced.service").is_ok());
        assert!(UnitName::try_from("getty@tty1.service").is_ok());
        for text in ["", "--root=/other", "sshd", "../x.service", "a b.service", "x\n.service"] {
            assert!(UnitName::try_from(text).is_err(), "{text:?}");
        }
        assert!(ModuleName::try_from("nvidia-peermem").is_ok());
        for text in ["-r", "a/b", "a b", ""] {
            assert!(ModuleName::try_from(text).is_err(), "{text:?}");
        }
        assert!(FilePath::try_from("/etc/modprobe.d/zz-gdr.conf").is_ok());
        for text in ["etc/x", "/", "/etc/../x", "/etc//x", "/etc/x/", "/etc/./x", "/a\0b", "/a\nb"]
        {
            assert!(FilePath::try_from(text).is_err(), "{text:?}");
        }
        assert!(Digest::try_from("0".repeat(64)).is_ok());
        for text in ["0".repeat(63), "A".repeat(64), format!("../{}", "0".repeat(61))] {
            assert!(Digest::try_from(text.clone()).is_err(), "{text:?}");
        }
    }
}
