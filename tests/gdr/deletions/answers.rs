//! Losses in the answers of libraries, which are JSON.

use serde_json::{Value, json};

use super::machines::Answer;

/// Calls `found` with the pointer of every member and entry, and whether it is a known fact.
pub fn pointers(value: &Value, found: &mut dyn FnMut(&str, bool)) {
    walk(value, &mut String::new(), found);
}

fn walk(value: &Value, at: &mut String, found: &mut dyn FnMut(&str, bool)) {
    let length = at.len();
    let mut visit = |name: &str, child: &Value, at: &mut String| {
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        found(at, child.get("known").is_some() || child.get("answered").is_some());
        walk(child, at, found);
        at.truncate(length);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, child)| visit(name, child, at)),
        Value::Array(entries) => {
            entries.iter().enumerate().for_each(|(nth, child)| visit(&nth.to_string(), child, at))
        }
        _ => {}
    }
}

/// Takes away what the pointer leads to, or makes it unknown.
pub fn lose(answers: &mut Value, pointer: &str, how: Answer) {
    let (above, last) = pointer.rsplit_once('/').expect("a pointer");
    let last = last.replace("~1", "/").replace("~0", "~");
    let parent = answers.pointer_mut(above).expect("it is there");
    match (how, parent) {
        (Answer::Removed, Value::Array(entries)) => {
            entries.remove(last.parse().expect("an index"));
        }
        (Answer::Removed, Value::Object(members)) => {
            members.remove(&last);
        }
        (Answer::Denied, parent) => {
            let value = match parent {
                Value::Array(entries) => {
                    let at: usize = last.parse().expect("an index");
                    &mut entries[at]
                }
                parent => &mut parent[&last],
            };
            *value = match value.get("answered") {
                Some(_) => json!({"failed": {"why": "denied", "message": "it may not be asked"}}),
                None => json!({"unknown": "denied"}),
            };
        }
        _ => panic!("{above} holds nothing"),
    }
}
