//! Lists with a maximum length: a longer list in a document is rejected while it is read, before it takes memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
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

#[cfg(test)]
mod tests {
    use super::*;

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
