//! Facts as a tree: things by key, facts by name, leaves as text.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::words;
use crate::model::Why;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// Unknown, with the reason.
    Unknown(Why),
    Leaf(String),
    Facts(BTreeMap<String, Node>),
    /// Things by key, which may be present or not.
    Things(BTreeMap<String, Node>),
}

/// Facts whose field names are keys: modules, tools, parameters.
const MAPS_OF_THINGS: [&str; 7] = [
    "driver/gpus",
    "driver/params",
    "environment",
    "fabric/units",
    "kernel/char_devices",
    "kernel/iommu_groups",
    "tools",
];

impl Node {
    /// The tree of a value at `path`.
    pub fn new(path: &mut Vec<String>, value: Value) -> Self {
        if let Some(text) = words::value(path, &value) {
            return Self::Leaf(text);
        }
        match value {
            Value::Object(mut fields) => {
                if let Some(inner) = fields.remove("known").filter(|_| fields.is_empty()) {
                    return Self::new(path, inner);
                }
                if let Some(why) = unknown(&fields) {
                    return Self::Unknown(why);
                }
                let fields = children(path, fields);
                if MAPS_OF_THINGS.contains(&path.join("/").as_str()) {
                    Self::Things(fields)
                } else {
                    Self::Facts(fields)
                }
            }
            Value::Array(values) => array(path, values),
            Value::Null => Self::Leaf("none".to_owned()),
            Value::String(text) => Self::Leaf(text),
            other => Self::Leaf(other.to_string()),
        }
    }

    /// A short description.
    pub fn summary(&self) -> String {
        match self {
            Self::Unknown(why) => format!("unknown ({})", why.phrase()),
            Self::Leaf(text) => text.clone(),
            Self::Things(things) => match things.len() {
                0 => "none".to_owned(),
                count => format!("{count} known"),
            },
            Self::Facts(facts) => {
                let telling = ["ids", "control", "link", "place", "address", "current", "state"];
                let value = telling.iter().find_map(|name| facts.get(*name));
                value.map_or_else(|| "present".to_owned(), Self::summary)
            }
        }
    }
}

fn unknown(fields: &Map<String, Value>) -> Option<Why> {
    let why = fields.get("unknown").filter(|_| fields.len() == 1)?;
    serde_json::from_value(why.clone()).ok()
}

fn children(path: &mut Vec<String>, fields: Map<String, Value>) -> BTreeMap<String, Node> {
    fields
        .into_iter()
        .map(|(name, value)| {
            path.push(name.clone());
            let node = Node::new(path, value);
            path.pop();
            (name, node)
        })
        .collect()
}

/// An array as things by key or position, or as one list of plain values.
fn array(path: &mut Vec<String>, values: Vec<Value>) -> Node {
    let plain = |value: &Value| !value.is_object() && !value.is_array();
    if !values.is_empty() && values.iter().all(plain) {
        let texts = values.into_iter().map(|value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        });
        return Node::Leaf(texts.collect::<Vec<_>>().join(", "));
    }
    let keys: Option<Vec<String>> = values.iter().map(key).collect();
    let unique = keys.filter(|keys| {
        let set: std::collections::BTreeSet<&String> = keys.iter().collect();
        set.len() == keys.len()
    });
    let keys = unique.unwrap_or_else(|| (0..values.len()).map(|at| format!("#{at}")).collect());
    let things = keys.into_iter().zip(values);
    let things = things.map(|(key, value)| {
        path.push(key.clone());
        // A name with an address: the address is the value.
        let node = match value {
            Value::Array(mut pair) if pair.len() == 2 => Node::new(path, pair.remove(1)),
            value => Node::new(path, value),
        };
        path.pop();
        (key, node)
    });
    Node::Things(things.collect())
}

/// The key of a thing; the strongest available.
fn key(value: &Value) -> Option<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    if let Some(pair) = value.as_array().filter(|pair| pair.len() == 2) {
        return text(pair.first()?);
    }
    if let (Some(from), Some(to)) = (value.get("from"), value.get("to")) {
        return Some(format!("{}-{}", text(from)?, text(to)?));
    }
    let keys = ["bdf", "name", "path", "id", "bar", "number", "index", "ordinal", "backend"];
    keys.iter().find_map(|key| text(value.get(*key)?))
}
