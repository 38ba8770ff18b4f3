//! Every fact has a reader: a field of `Facts` that nothing judges, shows or plans with is deleted, with its collector and its tests.

use std::collections::{BTreeMap, BTreeSet};

use gdr::model::Facts;
use regex::Regex;
use serde_json::Value;

use crate::dependencies::{code, sources};

/// Modules that fill or replay facts.
const WRITERS: [&str; 4] = ["collect", "import", "pci", "world"];

/// Facts without such a reader, and what they are for.
const OTHERS: [(&str, &str); 14] = [
    ("aspm_enabled", "a setting that snapshot --diff compares"),
    ("l0s", "of aspm_enabled"),
    ("l1", "of aspm_enabled"),
    ("extended_tag", "a setting that snapshot --diff compares"),
    ("no_snoop", "a setting that snapshot --diff compares"),
    ("online_cpus", "snapshot --diff compares it"),
    ("bits64", "snapshot --diff shows a BAR with its width"),
    ("serial_number", "snapshot --diff shows it, --mask removes it"),
    ("secondary", "import::lspci derives the tree from it"),
    ("subordinate", "import::lspci derives the tree from it"),
    ("sriov", "import::lspci finds virtual functions by it"),
    ("num_vfs", "of sriov"),
    ("first_vf_offset", "of sriov"),
    ("vf_stride", "of sriov"),
];

/// The fields of all structures below a schema. The only property of an enum's variant is the variant's name.
fn fields(schema: &Value, is_variant: bool, found: &mut BTreeSet<String>) {
    let of = |key: &str| schema.get(key).and_then(Value::as_object).into_iter().flatten();
    for (name, property) in of("properties") {
        if is_variant {
            fields(property, false, found);
        } else {
            found.insert(name.clone());
        }
    }
    for (_, definition) in of("$defs") {
        fields(definition, false, found);
    }
    for variant in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        fields(variant, true, found);
    }
}

#[test]
fn every_fact_has_a_reader() {
    let schema = serde_json::to_value(schemars::schema_for!(Facts)).expect("JSON");
    let mut facts = BTreeSet::new();
    fields(&schema, false, &mut facts);
    assert!(facts.contains("peer_memory") && facts.contains("egress_vector"), "{facts:?}");
    // A field of a value, which no call is, or a name in a pattern.
    let used = Regex::new(r"\.([a-z0-9_]+)|[{,][ \n]*([a-z0-9_]+)[ \n]*[,:}]").expect("a pattern");
    let mut read = BTreeSet::new();
    for (module, path, text) in sources() {
        let inner = path.to_string_lossy();
        let is_test = ["/tests", "/testing/", "/svg/machines", "/svg/samples"];
        if WRITERS.contains(&module.as_str()) || is_test.iter().any(|part| inner.contains(part)) {
            continue;
        }
        let code = code(text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
        // In `model` the second are declarations.
        let is_call = |found: &regex::Match<'_>| code[found.end()..].starts_with('(');
        let names = used.captures_iter(&code).filter_map(|found| {
            let field = found.get(1).filter(|field| !is_call(field));
            field.or(found.get(2).filter(|_| module != "model"))
        });
        read.extend(names.map(|name| name.as_str().to_owned()));
    }
    let others = BTreeMap::from(OTHERS);
    let unread: Vec<&String> = facts.iter().filter(|fact| !read.contains(*fact)).collect();
    let unknown: Vec<_> =
        unread.iter().filter(|fact| !others.contains_key(fact.as_str())).collect();
    assert!(unknown.is_empty(), "no check, format or fix reads {unknown:?}");
    let read_now: Vec<_> =
        others.keys().filter(|fact| !unread.iter().any(|of| of == *fact)).collect();
    assert!(read_now.is_empty(), "a module reads {read_now:?} now, or it is gone");
}
