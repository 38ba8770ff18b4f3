//! Lists and objects with a maximum length: a longer one in a document is rejected while it is read, before it takes memory.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum number of GPUs in the answer of a library.
pub const MAX_GPUS: usize = 1_024;

/// Maximum number of GPU pairs: 128 with each other, in both directions.
pub const MAX_PAIRS: usize = 16_384;

/// Maximum number of RDMA devices.
pub const MAX_DEVICES: usize = 16_384;

/// Deserializes a list of at most `MAX` values.
pub fn list<'de, const MAX: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Limited<const MAX: usize, T>(PhantomData<T>);

    impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for Limited<MAX, T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX} values")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut values = Vec::new();
            while let Some(value) = list.next_element()? {
                if values.len() == MAX {
                    return Err(A::Error::custom(format!("more than {MAX} values in a list")));
                }
                values.push(value);
            }
            Ok(values)
        }
    }

    deserializer.deserialize_seq(Limited::<MAX, T>(PhantomData))
}

/// Deserializes an object of at most `MAX` values.
pub fn map<'de, const MAX: usize, T, D>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Limited<const MAX: usize, T>(PhantomData<T>);

    impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for Limited<MAX, T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "an object of at most {MAX} values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = BTreeMap::new();
            while let Some((key, value)) = map.next_entry()? {
                if values.len() == MAX {
                    return Err(A::Error::custom(format!("more than {MAX} values in an object")));
                }
                values.insert(key, value);
            }
            Ok(values)
        }
    }

    deserializer.deserialize_map(Limited::<MAX, T>(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Pairs(#[serde(deserialize_with = "map::<2, _, _>")] BTreeMap<String, u8>);

    #[test]
    fn rejects_large_objects() {
        let read = serde_json::from_str::<Pairs>;
        assert!(read(r#"{"a": 1, "b": 2}"#).is_ok_and(|pairs| pairs.0.len() == 2));
        let error = read(r#"{"a": 1, "b": 2, "c": 3}"#).map_err(|error| error.to_string());
        assert!(error.is_err_and(|error| error.starts_with("more than 2 values in an object")));
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Few(#[serde(deserialize_with = "list::<3, _, _>")] Vec<u8>);

    #[test]
    fn rejects_long_lists() {
        let read = serde_json::from_str::<Few>;
        assert_eq!(read("[]").ok(), Some(Few(vec![])));
        assert_eq!(read("[1, 2, 3]").ok(), Some(Few(vec![1, 2, 3])));
        let error = read("[1, 2, 3, 4]").map_err(|error| error.to_string());
        assert!(error.is_err_and(|error| error.starts_with("more than 3 values in a list")));
    }
}
