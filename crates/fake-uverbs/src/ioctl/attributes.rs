//! What a call of the newer protocol brings: `struct ib_uverbs_ioctl_hdr`, and behind it `struct ib_uverbs_attr`, sixteen bytes each.

use std::ffi::{c_int, c_void};

/// The header's bytes, and an attribute's.
const HEADER: usize = 24;
const ATTRIBUTE: usize = 16;

/// More attributes than any method has.
const MOST: usize = 16;

/// The first attribute of a driver's method.
const FIRST: u16 = 0x1000;

/// A call: its method, and its attributes where they lie.
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
    /// Of what the data leads to; what has at most eight bytes stands in it.
    length: u16,
    flags: u16,
    other: u16,
    data: u64,
}

impl Attributes {
    /// # Safety
    ///
    /// `header` leads to a header and as many attributes as it says, which stay for as long as the result.
    pub unsafe fn of(header: *mut c_void) -> Result<Self, c_int> {
        let header = header.cast::<u8>();
        // SAFETY: this function's condition; eight bytes of the header, wherever they lie.
        let [length, object, method, count] = unsafe { header.cast::<[u16; 4]>().read_unaligned() };
        let count = usize::from(count);
        if count > MOST || usize::from(length) != HEADER + count * ATTRIBUTE {
            return Err(libc::EINVAL);
        }
        Ok(Self {
            object,
            method,
            // SAFETY: this function's condition: the attributes are behind the header.
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

    /// Whether the so manieth attribute of the method was given.
    pub fn has(&self, which: u16) -> bool {
        self.find(which).is_some()
    }

    /// A number, or a handle, or a descriptor.
    pub fn u64(&self, which: u16) -> Result<u64, c_int> {
        self.find(which)
            .map(|(_, attribute)| attribute.data)
            .ok_or(libc::EINVAL)
    }

    /// A number of four bytes.
    pub fn u32(&self, which: u16) -> Result<u32, c_int> {
        let bytes = self.u64(which)?.to_ne_bytes();
        Ok(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Bytes that were given.
    pub fn bytes(&self, which: u16) -> Result<Vec<u8>, c_int> {
        let (_, attribute) = self.find(which).ok_or(libc::EINVAL)?;
        let length = usize::from(attribute.length);
        if length <= 8 {
            return Ok(attribute.data.to_ne_bytes()[..length].to_vec());
        }
        // SAFETY: the caller's bytes, as many as the attribute says.
        Ok(unsafe { std::slice::from_raw_parts(attribute.data as *const u8, length) }.to_vec())
    }

    /// Puts an answer where there is room for it, and no more than that.
    pub fn put(&mut self, which: u16, answer: &[u8]) -> Result<(), c_int> {
        let (_, attribute) = self.find(which).ok_or(libc::EINVAL)?;
        let length = answer.len().min(attribute.length.into());
        // SAFETY: the caller's room, as much as the attribute says.
        unsafe {
            std::ptr::copy_nonoverlapping(answer.as_ptr(), attribute.data as *mut u8, length)
        };
        Ok(())
    }

    /// Tells the handle of what was made.
    pub fn hand(&mut self, which: u16, handle: u32) -> Result<(), c_int> {
        let (place, attribute) = self.find(which).ok_or(libc::EINVAL)?;
        let data = handle.into();
        // SAFETY: within the call's attributes, which the caller keeps.
        unsafe { place.write_unaligned(Attribute { data, ..attribute }) };
        Ok(())
    }
}
