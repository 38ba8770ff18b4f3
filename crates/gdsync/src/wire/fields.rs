//! Big-endian fields at offsets in a byte slice, bounds-checked.

use super::Error;

/// `N` bytes at `offset`.
pub(super) fn bytes_at<const N: usize>(from: &[u8], offset: usize) -> Result<[u8; N], Error> {
    let have = from.len();
    let found = from.get(offset..).and_then(|rest| rest.first_chunk::<N>());
    found.copied().ok_or(Error::Short { need: offset.saturating_add(N), have })
}

pub(super) fn u8_at(from: &[u8], offset: usize) -> Result<u8, Error> {
    bytes_at::<1>(from, offset).map(|[byte]| byte)
}

pub(super) fn u16_at(from: &[u8], offset: usize) -> Result<u16, Error> {
    bytes_at(from, offset).map(u16::from_be_bytes)
}

pub(super) fn u32_at(from: &[u8], offset: usize) -> Result<u32, Error> {
    bytes_at(from, offset).map(u32::from_be_bytes)
}

pub(super) fn u64_at(from: &[u8], offset: usize) -> Result<u64, Error> {
    bytes_at(from, offset).map(u64::from_be_bytes)
}

/// Writes bytes at `offset`.
pub(super) fn put(to: &mut [u8], offset: usize, bytes: &[u8]) -> Result<(), Error> {
    let have = to.len();
    let need = offset.saturating_add(bytes.len());
    let place = to.get_mut(offset..need).ok_or(Error::Short { need, have })?;
    place.copy_from_slice(bytes);
    Ok(())
}

pub(super) fn put_u16(to: &mut [u8], offset: usize, value: u16) -> Result<(), Error> {
    put(to, offset, &value.to_be_bytes())
}

pub(super) fn put_u32(to: &mut [u8], offset: usize, value: u32) -> Result<(), Error> {
    put(to, offset, &value.to_be_bytes())
}

pub(super) fn put_u64(to: &mut [u8], offset: usize, value: u64) -> Result<(), Error> {
    put(to, offset, &value.to_be_bytes())
}
