//! Distinct types for GPU virtual addresses and PCI addresses.

use std::fmt;
use std::str::FromStr;

/// GPU virtual address. The CPU never dereferences it, even where unified addressing makes it valid
/// there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePtr(u64);

impl DevicePtr {
    /// Address from its number.
    #[must_use]
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// Address as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Adds `bytes`, wrapping at the end of the address space (which no allocation reaches).
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl fmt::Display for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for DevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// PCI function address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PciAddress {
    /// Domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, 0 to 31.
    pub device: u8,
    /// Function, 0 to 7.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    /// As in sysfs: `0000:3b:00.0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function}")
    }
}

/// The text is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a PCI address such as 0000:3b:00.0")]
pub struct NotAPciAddress(String);

impl FromStr for PciAddress {
    type Err = NotAPciAddress;

    /// Parses `domain:bus:device.function` in upper- or lower-case hexadecimal, as CUDA and sysfs
    /// write it.
    fn from_str(text: &str) -> Result<Self, NotAPciAddress> {
        parse(text).ok_or_else(|| NotAPciAddress(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<PciAddress> {
    let (front, function) = text.split_once('.')?;
    let mut parts = front.split(':');
    let address = PciAddress {
        domain: u32::from_str_radix(parts.next()?, 16).ok()?,
        bus: u8::from_str_radix(parts.next()?, 16).ok()?,
        device: u8::from_str_radix(parts.next()?, 16).ok().filter(|&device| device < 32)?,
        function: u8::from_str_radix(function, 16).ok().filter(|&function| function < 8)?,
    };
    parts.next().is_none().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_cuda_and_prints_sysfs_format() {
        let address: PciAddress = "0000:3B:00.0".parse().unwrap();
        assert_eq!(address.to_string(), "0000:3b:00.0");
        let long: PciAddress = "10000:00:1f.7".parse().unwrap();
        assert_eq!((long.domain, long.bus, long.device, long.function), (0x10000, 0, 31, 7));
    }

    #[test]
    fn rejects_other_text() {
        for text in
            ["", "0000:3b:00", "0000:3b:20.0", "0000:3b:00.8", "0:0:0:0.0", "3b:00.0", "zz:00:00.0"]
        {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn device_pointer_is_hexadecimal() {
        assert_eq!(DevicePtr::new(0x7f00_0000_0200).offset(0x200).to_string(), "0x7f0000000400");
    }
}
