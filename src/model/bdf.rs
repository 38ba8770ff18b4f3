//! The address of a PCI function, as sysfs and lspci write it: `DDDD:BB:DD.F`, hexadecimal.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Domain, bus, device and function of a PCI function.
///
/// Ordered as in sysfs and nvidia-smi. The domain has 32 bits: Linux assigns domains above 0xffff behind VMD and
/// Hyper-V.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    /// Domain (segment).
    pub domain: u32,
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

/// The text is not a PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a PCI address: write [domain:]bus:device.function in hexadecimal, as in 0000:3b:00.0"
)]
pub struct BdfError {
    pub text: String,
}

impl FromStr for Bdf {
    type Err = BdfError;

    /// Reads `BB:DD.F`, `DDDD:BB:DD.F` and NVML's `DDDDDDDD:BB:DD.F`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text).ok_or_else(|| BdfError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Bdf> {
    let hex = |part: &str, max: usize| {
        let fits = (1..=max).contains(&part.len());
        (fits && part.bytes().all(|b| b.is_ascii_hexdigit()))
            .then(|| u32::from_str_radix(part, 16).ok())
            .flatten()
    };
    let (address, function) = text.rsplit_once('.')?;
    let mut parts = address.rsplit(':');
    let device = hex(parts.next()?, 2)?;
    let bus = hex(parts.next()?, 2)?;
    let domain = match parts.next() {
        Some(domain) => hex(domain, 8)?,
        None => 0,
    };
    let function = hex(function, 1)?;
    if parts.next().is_some() || device > 31 || function > 7 {
        return None;
    }
    Some(Bdf {
        domain,
        bus: u8::try_from(bus).ok()?,
        device: u8::try_from(device).ok()?,
        function: u8::try_from(function).ok()?,
    })
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        // A formatted number would ignore the width of the whole address.
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

impl fmt::Debug for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Bdf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bdf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Bdf {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bdf".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "PCI address: domain:bus:device.function, hexadecimal",
            "pattern": "^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\\.[0-7]$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_each_spelling() {
        let want = Bdf { domain: 0, bus: 0x3b, device: 0x1f, function: 7 };
        for text in ["3b:1f.7", "0000:3b:1f.7", "00000000:3B:1F.7"] {
            assert_eq!(text.parse(), Ok(want), "{text}");
        }
        assert_eq!(want.to_string(), "0000:3b:1f.7");
        assert_eq!(
            "10000:01:00.0".parse::<Bdf>().map(|b| b.to_string()),
            Ok("10000:01:00.0".to_owned())
        );
    }

    #[test]
    fn rejects_invalid_addresses() {
        for text in [
            "",
            "3b",
            "3b:00",
            "3b:20.0",
            "3b:00.8",
            "x:3b:00.0",
            "1:2:3b:00.0",
            "+1:00.0",
            "100:00.0",
            ":00.0",
            "é:00.0",
        ] {
            assert!(text.parse::<Bdf>().is_err(), "{text}");
        }
    }
}
