//! Texts that become arguments of programs and names of files: checked where they are made and where a journal is read, so
//! that none is taken for an option, leaves its directory or breaks a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// A text that is no value of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not {what}")]
pub struct Invalid {
    what: &'static str,
}

/// Types over a text, each with the rule that its values keep.
macro_rules! checked {
    ($($(#[$about:meta])* $name:ident is $what:literal where $rule:expr;)*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String")]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;

            fn try_from(text: String) -> Result<Self, Invalid> {
                let rule: fn(&str) -> bool = $rule;
                match rule(&text) {
                    true => Ok(Self(text)),
                    false => Err(Invalid { what: $what }),
                }
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
    /// The name of a systemd unit (systemd.unit(5)): at most 255 of these characters, with a type behind a dot.
    UnitName is "the name of a systemd unit" where |text| {
        name(text, 255, |c| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c)) && text.contains('.')
    };
    /// The name of a kernel module; the kernel's own limit is 56 bytes (MODULE_NAME_LEN).
    ModuleName is "the name of a kernel module" where |text| {
        name(text, 56, |c| c.is_ascii_alphanumeric() || "-_".contains(c))
    };
    /// A kernel's release, as `uname -r` prints it (at most 64 bytes, struct utsname).
    KernelRelease is "a kernel release" where |text| {
        name(text, 64, |c| c.is_ascii_alphanumeric() || "-_.+~".contains(c))
    };
    /// A word of the kernel's command line, of at most 2048 bytes.
    KernelWord is "a word of the kernel's command line" where |text| {
        !text.is_empty() && text.len() <= 2048 && !text.contains(|c: char| c.is_control())
    };
    /// The absolute path of a file, with no `.` or `..` in it; at most 4096 bytes (PATH_MAX).
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
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(&sha2::Sha256::digest(bytes))
    }

    /// A hash, as an implementation of it gives its 32 bytes.
    pub fn from_hash(hash: &[u8]) -> Self {
        Self(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Whether a text is a name: of these characters, not too long, and no option.
fn name(text: &str, most: usize, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty()
        && text.len() <= most
        && !text.starts_with(['-', '.'])
        && text.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_paths_and_control_characters_are_refused() {
        assert!(UnitName::try_from("nvidia-persistenced.service").is_ok());
        assert!(UnitName::try_from("getty@tty1.service").is_ok());
        for text in [
            "",
            "--root=/other",
            "sshd",
            "../x.service",
            "a b.service",
            "x\n.service",
        ] {
            assert!(UnitName::try_from(text).is_err(), "{text:?}");
        }
        assert!(ModuleName::try_from("nvidia-peermem").is_ok());
        for text in ["-r", "a/b", "a b", ""] {
            assert!(ModuleName::try_from(text).is_err(), "{text:?}");
        }
        assert!(FilePath::try_from("/etc/modprobe.d/zz-gdr.conf").is_ok());
        for text in [
            "etc/x",
            "/",
            "/etc/../x",
            "/etc//x",
            "/etc/x/",
            "/etc/./x",
            "/a\0b",
            "/a\nb",
        ] {
            assert!(FilePath::try_from(text).is_err(), "{text:?}");
        }
        assert!(Digest::try_from("0".repeat(64)).is_ok());
        for text in [
            "0".repeat(63),
            "A".repeat(64),
            format!("../{}", "0".repeat(61)),
        ] {
            assert!(Digest::try_from(text.clone()).is_err(), "{text:?}");
        }
    }
}
