//! Numbers in the bit fields of a command: checked, big-endian, counted from the most significant bit of the first byte.

use crate::Error;

/// A field of a command or of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// As the kernel's header calls it.
    pub name: &'static str,
    /// Bits before it.
    pub at: usize,
    /// Its own, at most 64.
    pub bits: u32,
}

/// A field, by its name, the bits before it and its own.
pub(super) const fn field(name: &'static str, at: usize, bits: u32) -> Field {
    Field { name, at, bits }
}

impl Field {
    /// The same in a structure that begins so many bits further on.
    pub(super) const fn within(self, base: usize) -> Self {
        Self {
            at: base + self.at,
            ..self
        }
    }

    /// Whether it holds a value.
    fn holds(self, value: u64) -> bool {
        self.bits >= u64::BITS || value >> self.bits == 0
    }
}

/// Writes a field of `command`.
///
/// # Errors
///
/// [`Error::Field`] for a value that is too large for it, or a field that the bytes do not reach.
pub(super) fn set(
    bytes: &mut [u8],
    command: &'static str,
    field: Field,
    value: u64,
) -> Result<(), Error> {
    if !field.holds(value) || field.at + field.bits as usize > bytes.len() * 8 {
        let Field { name, bits, .. } = field;
        return Err(Error::Field {
            command,
            field: name,
            bits,
            value,
        });
    }
    for place in 0..field.bits as usize {
        let bit = value >> (field.bits as usize - 1 - place) & 1;
        let (at, mask) = (field.at + place, 0x80 >> ((field.at + place) % 8));
        if let Some(byte) = bytes.get_mut(at / 8) {
            *byte = if bit == 1 {
                *byte | mask
            } else {
                *byte & !mask
            };
        }
    }
    Ok(())
}

/// Reads a field; what the bytes do not reach is zero.
pub(super) fn get(bytes: &[u8], field: Field) -> u64 {
    (0..field.bits as usize).fold(0, |value, place| {
        let at = field.at + place;
        let byte = bytes.get(at / 8).copied().unwrap_or(0);
        value << 1 | u64::from(byte >> (7 - at % 8) & 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_where_its_bits_are() {
        let mut bytes = [0; 16];
        set(&mut bytes, "C", field("whole_byte", 8, 8), 0xa5).unwrap();
        set(&mut bytes, "C", field("a_bit", 3, 1), 1).unwrap();
        set(&mut bytes, "C", field("across_bytes", 0x1c, 0x14), 0xf_3c5a).unwrap();
        set(
            &mut bytes,
            "C",
            field("long", 64, 64),
            0x0102_0304_0506_0708,
        )
        .unwrap();
        assert_eq!(
            bytes,
            [
                0x10, 0xa5, 0, 0x0f, 0x3c, 0x5a, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8
            ]
        );
        // Written again, the old bits are gone, and the neighbours stay.
        set(&mut bytes, "C", field("across_bytes", 0x1c, 0x14), 1).unwrap();
        assert_eq!(bytes[..6], [0x10, 0xa5, 0, 0, 0, 0x01]);
    }

    #[test]
    fn a_field_is_read_where_it_was_written() {
        let bytes = [0x80, 0x12, 0x34, 0x56, 0xff];
        assert_eq!(get(&bytes, field("status", 0, 8)), 0x80);
        assert_eq!(get(&bytes, field("number", 8, 24)), 0x12_3456);
        assert_eq!(get(&bytes, field("nibble", 12, 4)), 2);
        assert_eq!(get(&bytes, field("past_the_end", 36, 8)), 0xf0);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_nothing_is_written() {
        let mut bytes = [0; 4];
        for (field, value) in [
            (field("log_sq_size", 0, 4), 16),
            (field("past_the_end", 25, 8), 0),
            (field("one_bit", 0, 1), 2),
        ] {
            let refused = set(&mut bytes, "CREATE_QP", field, value)
                .unwrap_err()
                .to_string();
            assert!(
                refused.contains("CREATE_QP") && refused.contains(field.name),
                "{refused}"
            );
            assert_eq!(bytes, [0; 4]);
        }
    }
}
