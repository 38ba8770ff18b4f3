//! A recorded machine: what each source answered when it was asked.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failures::Failures;
use super::{
    CudaOutcome, Fact, Host, MappingOutcome, NvmlOutcome, RegistrationOutcome, VerbsOutcome, Why,
};

pub const SNAPSHOT_SCHEMA: &str = "gdr.snapshot/1";

/// What a machine answered to everything that the collectors ask. What is not in it was not asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// `gdr.snapshot/1`.
    pub schema: String,
    /// Version of the gdr that took it.
    pub gdr: String,
    /// When, in UTC: `2026-11-21T10:15:00Z`.
    pub taken: String,
    /// Whether names and numbers that tell the machine apart from others were replaced (`--mask`).
    pub masked: bool,
    /// The header of a report.
    pub host: Host,
    /// What each path answered.
    #[serde(deserialize_with = "paths")]
    pub files: BTreeMap<String, Recorded>,
    /// What the vendors' libraries answered.
    pub libraries: RecordedLibraries,
    /// What command-line tools answered, by command line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, LibraryAnswer<ToolOutput>>,
}

/// What a tool answered, as far as gdr uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolOutput {
    /// Its exit status; none where a signal ended it.
    pub code: Option<i32>,
    /// What gdr uses of its standard output.
    pub text: String,
}

/// The most paths a document may hold: of 8192 functions no more are asked, and a hostile document may not take memory
/// without end.
pub const MOST_PATHS: usize = 200_000;

fn paths<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Recorded>, D::Error> {
    struct Paths;
    impl<'de> serde::de::Visitor<'de> for Paths {
        type Value = BTreeMap<String, Recorded>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("what each path answered")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Self::Value, A::Error> {
            let mut paths = BTreeMap::new();
            while let Some((path, recorded)) = map.next_entry()? {
                if paths.len() >= MOST_PATHS {
                    return Err(serde::de::Error::custom(format!(
                        "more than {MOST_PATHS} paths, which no machine has"
                    )));
                }
                paths.insert(path, recorded);
            }
            Ok(paths)
        }
    }
    deserializer.deserialize_map(Paths)
}

/// The names of a directory: PCI has 65536 functions in a domain, and no machine so many in all.
fn names<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    const MOST: usize = 1 << 16;
    // Linux' NAME_MAX. A device's name stands in all that is said of it.
    const MAX_NAME: usize = 255;
    struct Names;
    impl<'de> serde::de::Visitor<'de> for Names {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the names in a directory")
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(
            self,
            mut list: A,
        ) -> Result<Self::Value, A::Error> {
            let mut names = Vec::new();
            while let Some(name) = list.next_element::<String>()? {
                if name.len() > MAX_NAME {
                    return Err(serde::de::Error::custom(format!(
                        "a name of more than {MAX_NAME} bytes in a directory"
                    )));
                }
                if names.len() >= MOST {
                    return Err(serde::de::Error::custom(format!(
                        "more than {MOST} names in one directory"
                    )));
                }
                names.push(name);
            }
            Ok(names)
        }
    }
    deserializer.deserialize_seq(Names).map(Some)
}

/// What one path answered, by what was asked of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// The target of a symbolic link, as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The names in a directory.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "names"
    )]
    pub names: Option<Vec<String>>,
    /// A whole file that is text; of a large or private one what gdr uses of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A whole file that is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Hex>,
    /// The parts that were read of a file, in order, none touching the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<Part>>,
    /// Where that file ends, as far as reading it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FileState>,
    /// Whether the process that took the snapshot might read and write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<Fact<bool>>,
    /// What could not be had.
    #[serde(default, skip_serializing_if = "Failures::is_empty")]
    pub errors: Failures,
}

/// What can be asked of a path.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Where a link leads.
    Link,
    /// What is in a directory.
    List,
    /// A whole file.
    Read,
    /// A file, to read parts of it.
    Open,
    /// A part of an open file, the one after the last that was read.
    Part,
    /// What is there.
    State,
    /// To be changed; no snapshot holds that.
    Write,
    /// To be relied on, which depends on its owner and permissions; no snapshot holds that.
    Trust,
    /// A directory, to look at as a machine's root.
    Root,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Where it begins.
    pub at: u64,
    /// What stands there.
    pub bytes: Hex,
}

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileState {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// Major and minor number of a device node.
    pub device: (u32, u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    Regular,
    Directory,
    /// A character device.
    Character,
    /// Something else.
    Other,
}

/// Why something could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The operating system refused, with this number.
    Errno(i32),
    /// Nobody asked for it when the snapshot was taken from which this one was made.
    NotHeld,
    /// It is larger than gdr reads.
    TooLarge,
    /// It is not what it should be, in words.
    Invalid(String),
}

/// What the vendors' libraries answered; none that nobody asked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedLibraries {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml: Option<LibraryAnswer<NvmlOutcome>>,
    /// CUDA, without a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cuda: Option<LibraryAnswer<CudaOutcome>>,
    /// libibverbs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verbs: Option<LibraryAnswer<VerbsOutcome>>,
    /// CUDA, asked to map GPU memory for the CPU (`--live`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<LibraryAnswer<MappingOutcome>>,
    /// CUDA and libibverbs, asked to register GPU memory (`--live`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<LibraryAnswer<RegistrationOutcome>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LibraryAnswer<T> {
    /// This.
    Answered(T),
    /// Nothing that could be read.
    Failed {
        why: Why,
        /// In words.
        message: String,
    },
}

/// Bytes, written as hexadecimal digits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let text: String = digits
            .map(|digit| char::from(DIGITS[usize::from(digit)]))
            .collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: u8| {
            char::from(byte)
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        };
        let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        bytes
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("not an even number of hexadecimal digits"))
    }
}

impl JsonSchema for Hex {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Hex".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "Bytes, two hexadecimal digits each.",
            "pattern": "^([0-9a-f]{2})*$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_pairs_of_digits() {
        assert_eq!(
            serde_json::to_string(&Hex(vec![0, 0x9f, 255]))
                .ok()
                .as_deref(),
            Some("\"009fff\"")
        );
        assert_eq!(
            serde_json::from_str::<Hex>("\"009FfF\"").ok(),
            Some(Hex(vec![0, 0x9f, 255]))
        );
        for text in ["\"0\"", "\"0g\"", "\"+1\"", "\"é\"", "1"] {
            assert!(serde_json::from_str::<Hex>(text).is_err(), "{text}");
        }
    }
}
