//! The argument of an ioctl: `struct ib_uverbs_ioctl_hdr`, followed by `struct ib_uverbs_attr`, 16 bytes each.

use std::ffi::{c_int, c_void};

/// Sizes of the header and of an attribute.
const HEADER: usize = 24;
const ATTRIBUTE: usize = 16;

/// Upper bound of the number of attributes.
const MAX: usize = 16;

/// First attribute id of a driver's method.
const FIRST: u16 = 0x1000;

/// A call: its method and a pointer to its attributes.
pub struct Attributes {
    pub object: u16,
    pub method: u16,
    first: *mut Attribute,
    count: usize,
}

/// `struct ib_uverbs_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Attribute {
    number: u16,
    /// Length of the data; data of at most 8 bytes is stored inline.
    length: u16,
    flags: u16,
    other: u16,
    data: u64,
}

impl Attributes {
    /// # Safety
    ///
    /// `header` points to a header and the attributes that it counts, which outlive the result.
    pub unsafe fn of(header: *mut c_void) -> Result<Self, c_int> {
        let header = header.cast::<u8>();
        // SAFETY: the caller's guarantee; the first 8 bytes of the header, unaligned.
        let [length, object, method, count] = unsafe { header.cast::<[u16; 4]>().read_unaligned() };
        let count = usize::from(count);
        if count > MAX || usize::from(length) != HEADER + count * ATTRIBUTE {
            return Err(libc::EINVAL);
        }
        Ok(Self {
            object,
            method,
            // SAFETY: the caller's guarantee: the attributes follow the header.
            first: unsafe { header.add(HEADER) }.cast(),
            count,
        })
    }

    fn find(&self, which: u16) -> Option<(*mut Attribute, Attribute)> {
        (0..self.count).find_map(|at| {
            // SAFETY: within the call's attributes, which the caller keeps.
            let place = unsafe { self.first.add(at) };
            // SAFETY: as above.
            let attribute = unsafe { place.read_unaligned() };
            (attribute.number == FIRST + which).then_some((place, attribute))
        })
    }

    /// True if the attribute with this index of the method is present.
    pub fn has(&self, which: u16) -> bool {
        self.find(which).is_some()
    }

    /// A number, handle or descriptor.
    pub fn u64(&self, which: u16) -> Result<u64, c_int> {
        self.find(which).map(|(_, attribute)| attribute.data).ok_or(libc::EINVAL)
    }

    /// A 32-bit number.
    pub fn u32(&self, which: u16) -> Result<u32, c_int> {
        let bytes = self.u64(which)?.to_ne_bytes();
        Ok(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// The attribute's data.
    pub fn bytes(&self, which: u16) -> Result<Vec<u8>, c_int> {
        let (_, attribute) = self.find(which).ok_or(libc::EINVAL)?;
        let length = usize::from(attribute.length);
        if length <= 8 {
            return Ok(attribute.data.to_ne_bytes()[..length].to_vec());
        }
        // SAFETY: the caller's bytes, as many as the attribute says.
        Ok(unsafe { std::slice::from_raw_parts(attribute.data as *const u8, length) }.to_vec())
    }

    /// Writes output data, at most as long as the caller's buffer.
    pub fn put(&mut self, which: u16, answer: &[u8]) -> Result<(), c_int> {
        let (_, attribute) = self.find(which).ok_or(libc::EINVAL)?;
        let length = answer.len().min(attribute.length.into());
        // SAFETY: the caller's buffer, as long as the attribute says.
        unsafe {
            std::ptr::copy_nonoverlapping(answer.as_ptr(), attribute.data as *mut u8, length)
        };
        Ok(())
    }

    /// Returns the handle of a new object.
    pub fn put_handle(&mut self, which: u16, handle: u32) -> Result<(), c_int> {
        let (place, attribute) = self.find(which).ok_or(libc::EINVAL)?;
        let data = handle.into();
        // SAFETY: within the call's attributes, which the caller keeps.
        unsafe { place.write_unaligned(Attribute { data, ..attribute }) };
        Ok(())
    }
}
