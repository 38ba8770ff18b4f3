//! Compares the declarations with the machine's rdma-core headers (Debian: libibverbs-dev): size of each structure, offset and size of
//! each field, value of each constant.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;

use ibverbs_sys::{constants, ibv_send_wr, records};

/// Request members in unions: their C and Rust paths.
const NESTED: [(&str, usize); 9] = [
    ("wr.rdma.remote_addr", offset_of!(ibv_send_wr, wr.rdma.remote_addr)),
    ("wr.rdma.rkey", offset_of!(ibv_send_wr, wr.rdma.rkey)),
    ("wr.atomic.compare_add", offset_of!(ibv_send_wr, wr.atomic.compare_add)),
    ("wr.atomic.swap", offset_of!(ibv_send_wr, wr.atomic.swap)),
    ("wr.atomic.rkey", offset_of!(ibv_send_wr, wr.atomic.rkey)),
    ("wr.ud.remote_qkey", offset_of!(ibv_send_wr, wr.ud.remote_qkey)),
    ("qp_type.xrc.remote_srqn", offset_of!(ibv_send_wr, qp_type.remote_srqn)),
    ("bind_mw.bind_info.addr", offset_of!(ibv_send_wr, __bindgen_anon_2.bind_mw.bind_info.addr)),
    ("tso.mss", offset_of!(ibv_send_wr, __bindgen_anon_2.tso.mss)),
];

/// The declarations, by C expression.
fn declared() -> BTreeMap<String, u64> {
    let mut values = BTreeMap::new();
    for record in records() {
        values.insert(format!("sizeof({})", record.name), record.size as u64);
        for field in record.fields {
            let (record, name) = (record.name, field.name);
            values.insert(format!("offsetof({record}, {name})"), field.offset as u64);
            values.insert(format!("sizeof((({record} *)0)->{name})"), field.size as u64);
        }
    }
    for (name, offset) in NESTED {
        values.insert(format!("offsetof(struct ibv_send_wr, {name})"), offset as u64);
    }
    for constant in constants() {
        values.insert(constant.name.to_owned(), u64::from(constant.value));
    }
    values
}

/// The headers' values, printed by a C program.
fn header_values(what: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/efadv.h>\n#include <infiniband/mlx5dv.h>\nint main(void) {\n",
    );
    for expression in what {
        // Written out: the preprocessor would expand macros in the name.
        source += &format!(
            "printf(\"%llu %s\\n\", (unsigned long long)({expression}), \"{expression}\");\n"
        );
    }
    source += "return 0; }\n";
    let directory =
        std::env::temp_dir().join(format!("ibverbs-sys-headers-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory");
    let (text, program) = (directory.join("say.c"), directory.join("say"));
    std::fs::write(&text, source).expect("a source file");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-O0", "-w", "-o"])
        .arg(&program)
        .arg(&text)
        .output()
        .expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("the program runs");
    std::fs::remove_dir_all(&directory).expect("removed");
    String::from_utf8(output.stdout)
        .expect("text")
        .lines()
        .map(|line| {
            let (value, name) = line.split_once(' ').expect("a value and a name");
            (name.to_owned(), value.parse().expect("a number"))
        })
        .collect()
}

#[test]
#[ignore = "needs a C compiler, libibverbs-dev"]
fn declarations_match_headers() {
    let declared = declared();
    assert!(declared.len() > 500, "{} things to compare", declared.len());
    let header_values = header_values(declared.keys().cloned());
    let differ: Vec<String> = declared
        .iter()
        .filter(|(name, value)| header_values.get(*name) != Some(value))
        .map(|(name, value)| {
            format!("{name}: declared {value}, header {:?}", header_values.get(name))
        })
        .collect();
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert_eq!(declared.len(), header_values.len());
}
