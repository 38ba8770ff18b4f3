//! A key of the user from which the masks of names follow, so that one name has one mask in all reports. Without the key a mask cannot be
//! tried for names: it is HMAC-SHA256. Whoever has the key can.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Bits of the number in the mask of a name: of 1,000 names two have the same number in one of two million fleets.
pub const NAME_BITS: u32 = 40;

/// Least bytes of a key; a shorter one can be guessed.
const LEAST: usize = 16;
const MOST: usize = 4_096;

#[derive(Clone, PartialEq, Eq)]
pub struct MaskKey(Vec<u8>);

/// Its bytes stay out of messages.
impl fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MaskKey")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key has {0} bytes; {LEAST} to {MOST} are needed: head -c 32 /dev/urandom | base64 makes one"
)]
pub struct MaskKeyError(usize);

impl MaskKey {
    /// The content of a key file; white space at its end does not count.
    pub fn new(content: &[u8]) -> Result<Self, MaskKeyError> {
        let key = content.trim_ascii_end();
        if (LEAST..=MOST).contains(&key.len()) {
            Ok(Self(key.to_vec()))
        } else {
            Err(MaskKeyError(key.len()))
        }
    }

    /// The number of a text of this kind: from 1 and of so many bits, at most 63.
    pub fn number(&self, kind: &str, text: &str, bits: u32) -> u64 {
        // HMAC takes a key of any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return 0 };
        mac.update(kind.as_bytes());
        mac.update(&[0]);
        mac.update(text.as_bytes());
        let bytes = mac.finalize().into_bytes();
        let number = bytes.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        number % ((1 << bits) - 1) + 1
    }

    /// A host name, with its domain if it has one, as a masked snapshot has it.
    pub fn host(&self, name: &str) -> String {
        let name = name.to_lowercase();
        let number = |kind: &str, text: &str| self.number(kind, text, NAME_BITS);
        match name.split_once('.') {
            Some((label, domain)) if !domain.is_empty() => format!(
                "maskedhost{}.masked{}.example",
                number("host", label),
                number("domain", domain)
            ),
            _ => format!("maskedhost{}", number("host", &name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_follow_from_key_and_name() {
        let key = |text: &str| MaskKey::new(text.as_bytes());
        let one = key("0123456789abcdef").expect("a key");
        // Python: hmac.new(b'0123456789abcdef', b'host\0node17', 'sha256'), first 8 bytes.
        assert_eq!(one.number("host", "node17", 40), 982_968_187_250);
        assert_eq!(one.host("Node17"), one.host("node17"));
        assert_eq!(one, key("0123456789abcdef\n").expect("a key"));
        let two = key("0123456789abcdeF").expect("a key");
        assert_ne!(one.host("node17"), two.host("node17"));
        assert_ne!(one.host("node17"), one.host("node18"));
        assert!(one.host("node17.site.org").starts_with(&format!("{}.masked", one.host("node17"))));
        assert_eq!(key("short"), Err(MaskKeyError(5)));
        assert_eq!(format!("{one:?}"), "MaskKey");
    }
}
