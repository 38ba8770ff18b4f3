//! Finds a capability's offset, for writing.

use super::header;
use super::list;
use super::space::{ConfigSpace, Reader};
use crate::model::{Capability, Why};

/// The offset of a function's first capability with this id, if it has one.
pub fn offset_of(space: &dyn ConfigSpace, capability: Capability) -> Result<Option<u16>, Why> {
    let mut reader = Reader::new(space);
    let mut found = None;
    match capability {
        Capability::Standard(id) => {
            let (_, first) = header::read(&mut reader)?;
            list::legacy(&mut reader, first, |_, entry| {
                if entry.id == id {
                    found = Some(entry.offset);
                }
                found.is_none()
            })?;
        }
        Capability::Extended(id) => {
            let mut head = [0; 4];
            if reader.some(list::EXTENDED, &mut head, "extended capabilities")? < head.len() {
                return Ok(None);
            }
            match u32::from_le_bytes(head) {
                0 | u32::MAX => return Ok(None),
                head => list::extended(&mut reader, head, |_, entry| {
                    if entry.id == id && found.is_none() {
                        found = Some(entry.offset);
                    }
                })?,
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A function with power management at 40, Express at 60, AER at 100 and ACS at 148.
    fn space() -> Vec<u8> {
        let mut space = vec![0; 4096];
        space[0..2].copy_from_slice(&[0x86, 0x80]);
        // Status: has a capability list.
        space[0x06] = 0x10;
        space[0x0e] = 0x01;
        space[0x34] = 0x40;
        space[0x40..0x42].copy_from_slice(&[0x01, 0x60]);
        space[0x60..0x62].copy_from_slice(&[0x10, 0x00]);
        space[0x100..0x104].copy_from_slice(&0x1482_0001_u32.to_le_bytes());
        space[0x148..0x14c].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        space
    }

    #[test]
    fn finds_present_capabilities_only() {
        let space = space();
        let at = |capability| offset_of(&space.as_slice(), capability);
        assert_eq!(at(Capability::EXPRESS), Ok(Some(0x60)));
        assert_eq!(at(Capability::Standard(0x05)), Ok(None));
        assert_eq!(at(Capability::ACS), Ok(Some(0x148)));
        assert_eq!(at(Capability::Extended(0x0f)), Ok(None));
    }

    #[test]
    fn truncated_or_looping_list_is_error() {
        let mut space = space();
        assert_eq!(offset_of(&&space[..256], Capability::ACS), Ok(None));
        // The list loops back to its start.
        space[0x14a..0x14c].copy_from_slice(&[0x01, 0x10]);
        assert_eq!(offset_of(&space.as_slice(), Capability::ACS), Err(Why::Broken));
    }
}
