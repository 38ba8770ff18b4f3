//! Checked access to bit fields of firmware commands: big-endian, offsets counted from the most significant bit of the first byte.

use crate::Error;

/// A bit field of a command or response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    /// Its name in the kernel's header.
    pub name: &'static str,
    /// Offset in bits.
    pub at: usize,
    /// Width in bits, at most 64.
    pub bits: u32,
}

/// A field from name, bit offset and width.
pub(super) const fn field(name: &'static str, at: usize, bits: u32) -> Field {
    Field { name, at, bits }
}

impl Field {
    /// The same field in a structure that starts `bits` bits later.
    pub(super) const fn within(self, base: usize) -> Self {
        Self { at: base + self.at, ..self }
    }

    /// True if the value fits.
    fn holds(self, value: u64) -> bool {
        self.bits >= u64::BITS || value >> self.bits == 0
    }
}

/// Writes a field of `command`.
///
/// # Errors
///
/// [`Error::Field`] if the value is too large, or the field lies past the end of the command.
pub(super) fn set(
    bytes: &mut [u8],
    command: &'static str,
    field: Field,
    value: u64,
) -> Result<(), Error> {
    if !field.holds(value) || field.at + field.bits as usize > bytes.len() * 8 {
        let Field { name, bits, .. } = field;
        return Err(Error::Field { command, field: name, bits, value });
    }
    for place in 0..field.bits as usize {
        let bit = value >> (field.bits as usize - 1 - place) & 1;
        let (at, mask) = (field.at + place, 0x80 >> ((field.at + place) % 8));
        if let Some(byte) = bytes.get_mut(at / 8) {
            *byte = if bit == 1 { *byte | mask } else { *byte & !mask };
        }
    }
    Ok(())
}

/// Reads a field; bits past the end read as zero.
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
    fn field_offsets() {
        let mut bytes = [0; 16];
        set(&mut bytes, "C", field("whole_byte", 8, 8), 0xa5).unwrap();
        set(&mut bytes, "C", field("a_bit", 3, 1), 1).unwrap();
        set(&mut bytes, "C", field("across_bytes", 0x1c, 0x14), 0xf_3c5a).unwrap();
        set(&mut bytes, "C", field("long", 64, 64), 0x0102_0304_0506_0708).unwrap();
        assert_eq!(bytes, [0x10, 0xa5, 0, 0x0f, 0x3c, 0x5a, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        // Overwriting clears the old bits and keeps the neighbours.
        set(&mut bytes, "C", field("across_bytes", 0x1c, 0x14), 1).unwrap();
        assert_eq!(bytes[..6], [0x10, 0xa5, 0, 0, 0, 0x01]);
    }

    #[test]
    fn field_round_trip() {
        let bytes = [0x80, 0x12, 0x34, 0x56, 0xff];
        assert_eq!(get(&bytes, field("status", 0, 8)), 0x80);
        assert_eq!(get(&bytes, field("number", 8, 24)), 0x12_3456);
        assert_eq!(get(&bytes, field("nibble", 12, 4)), 2);
        assert_eq!(get(&bytes, field("past_the_end", 36, 8)), 0xf0);
    }

    #[test]
    fn rejects_values_that_do_not_fit() {
        let mut bytes = [0; 4];
        for (field, value) in [
            (field("log_sq_size", 0, 4), 16),
            (field("past_the_end", 25, 8), 0),
            (field("one_bit", 0, 1), 2),
        ] {
            let refused = set(&mut bytes, "CREATE_QP", field, value).unwrap_err().to_string();
            assert!(refused.contains("CREATE_QP") && refused.contains(field.name), "{refused}");
            assert_eq!(bytes, [0; 4]);
        }
    }
}
