//! A recorded machine: the answers of all its sources.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failures::Failures;
use super::{
    CudaOutcome, Fact, Host, MappingOutcome, Network, NvmlOutcome, RegistrationOutcome,
    VerbsOutcome, Why,
};

pub const SNAPSHOT_SCHEMA: &str = "gdr.snapshot/1";

/// Recorded answers to everything that the collectors read. Other paths are not available.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// `gdr.snapshot/1`.
    pub schema: String,
    /// Version of gdr that recorded it.
    pub gdr: String,
    /// Time of recording, UTC: `2026-11-21T10:15:00Z`.
    pub taken: String,
    /// Names and numbers that identify the machine were replaced (`--mask`).
    pub masked: bool,
    /// Identification of the machine, for the header of a report.
    pub host: Host,
    /// Results by path.
    #[serde(deserialize_with = "paths")]
    pub files: BTreeMap<String, Recorded>,
    /// Answers of the vendor libraries.
    pub libraries: RecordedLibraries,
    /// Output of command-line tools, by command line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, LibraryAnswer<ToolOutput>>,
}

/// Output of a tool, reduced to what gdr uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolOutput {
    /// Exit status; null if a signal ended it.
    pub code: Option<i32>,
    /// The part of standard output that gdr uses.
    pub text: String,
}

/// Maximum number of paths in a document: 8192 PCI functions need fewer. It bounds the memory that a hostile document
/// can take.
pub const MAX_PATHS: usize = 200_000;

fn paths<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Recorded>, D::Error> {
    struct Paths;
    impl<'de> serde::de::Visitor<'de> for Paths {
        type Value = BTreeMap<String, Recorded>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("results by path")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<Self::Value, A::Error> {
            let mut paths = BTreeMap::new();
            while let Some((path, recorded)) = map.next_entry()? {
                if paths.len() >= MAX_PATHS {
                    return Err(serde::de::Error::custom(format!(
                        "more than {MAX_PATHS} paths, which no machine has"
                    )));
                }
                paths.insert(path, recorded);
            }
            Ok(paths)
        }
    }
    deserializer.deserialize_map(Paths)
}

/// Names in a directory: a PCI domain has 65536 functions, and no machine has that many.
fn names<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    const MOST: usize = 1 << 16;
    // NAME_MAX of Linux.
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

/// Results for one path, by operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recorded {
    /// Target of a symbolic link, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Names in a directory.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "names")]
    pub names: Option<Vec<String>>,
    /// A whole text file; of a large or private one, the part that gdr uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A whole binary file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Hex>,
    /// Parts of a file that were read, in order, with gaps between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<Part>>,
    /// End of the file, if reading reached it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// What is at the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<FileState>,
    /// Whether the recording process could open it for reading and writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable: Option<Fact<bool>>,
    /// Operations that failed.
    #[serde(default, skip_serializing_if = "Failures::is_empty")]
    pub errors: Failures,
}

/// An operation on a path.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Read a symbolic link.
    Link,
    /// List a directory.
    List,
    /// Read a whole file.
    Read,
    /// Open a file to read parts of it.
    Open,
    /// Read a part of an open file, after the last part that was read.
    Part,
    /// Read the state of a path.
    State,
    /// Write; never in a snapshot.
    Write,
    /// Check owner and permissions before trusting a file; never in a snapshot.
    Trust,
    /// Open a directory as the root of a machine.
    Root,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Offset.
    pub at: u64,
    /// Content.
    pub bytes: Hex,
}

/// State of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileState {
    /// File type.
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
    /// Any other type.
    Other,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The operating system returned this errno.
    Errno(i32),
    /// Not recorded in the snapshot that this one was made from.
    NotHeld,
    /// The file is larger than gdr reads.
    TooLarge,
    /// The content is invalid, in words.
    Invalid(String),
}

/// Answers of the vendor libraries; those not queried are absent.
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
    /// The network interfaces of RDMA ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<LibraryAnswer<Network>>,
    /// CUDA: mapping GPU memory for the CPU (`--live`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<LibraryAnswer<MappingOutcome>>,
    /// CUDA and libibverbs: registering GPU memory (`--live`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<LibraryAnswer<RegistrationOutcome>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LibraryAnswer<T> {
    /// The answer.
    Answered(T),
    /// No usable answer.
    Failed {
        why: Why,
        /// The error.
        message: String,
    },
}

/// Bytes, serialized as hexadecimal digits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
        let text: String = digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect();
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit =
            |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
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
    fn hex_round_trip() {
        assert_eq!(
            serde_json::to_string(&Hex(vec![0, 0x9f, 255])).ok().as_deref(),
            Some("\"009fff\"")
        );
        assert_eq!(serde_json::from_str::<Hex>("\"009FfF\"").ok(), Some(Hex(vec![0, 0x9f, 255])));
        for text in ["\"0\"", "\"0g\"", "\"+1\"", "\"é\"", "1"] {
            assert!(serde_json::from_str::<Hex>(text).is_err(), "{text}");
        }
    }
}
