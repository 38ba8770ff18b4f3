//! The list of GPUs that the open kernel modules drive, from the table in their README.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};

const HEADING: &str = "| Product Name";
const LIST: &str = "src/model/nvidia_gpus.rs";

/// Writes the list. `readme` is README.md of NVIDIA/open-gpu-kernel-modules at the tag of `release`.
pub fn run(readme: &Path, release: &str) -> Result<()> {
    let text = std::fs::read_to_string(readme)
        .with_context(|| format!("cannot read {}", readme.display()))?;
    let gpus = parse(&text);
    ensure!(
        gpus.len() > 200,
        "the table of {} has {} GPUs: its format has changed",
        readme.display(),
        gpus.len()
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = root.join(LIST);
    std::fs::write(&list, source(&gpus, release))
        .with_context(|| format!("cannot write {}", list.display()))
}

/// Names by device id, as the table orders them.
fn parse(text: &str) -> BTreeMap<u16, Vec<String>> {
    let mut gpus = BTreeMap::<u16, Vec<String>>::new();
    let rows = text.lines().skip_while(|line| !line.starts_with(HEADING));
    for row in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (Some(name), Some(ids)) = (cells.next(), cells.next()) else {
            continue;
        };
        let id = ids.split(' ').next().map(|id| u16::from_str_radix(id, 16));
        if let Some(Ok(id)) = id {
            let names = gpus.entry(id).or_default();
            let name = name.strip_prefix("NVIDIA ").unwrap_or(name).to_owned();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    gpus
}

fn source(gpus: &BTreeMap<u16, Vec<String>>, release: &str) -> String {
    let mut text = format!(
        "//! The GPUs that the open kernel modules drive (Turing and later), by device id.\n\
         //!\n\
         //! Written by `cargo xtask gpus` from the table in\n\
         //! <https://github.com/NVIDIA/open-gpu-kernel-modules/blob/{release}/README.md>.\n\n\
         /// Device ids with their names, in order.\n\
         pub const NVIDIA_GPUS: &[(u16, &str)] = &[\n"
    );
    for (id, names) in gpus {
        text.push_str(&format!("    (0x{id:04x}, \"{}\"),\n", names.join(" / ")));
    }
    text.push_str("];\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rows_of_the_table() {
        let text = "| Other | Table |\n| --- | --- |\n| x | 1234 |\n\n\
                    | Product Name      | PCI ID         |\n\
                    | ----------------- | -------------- |\n\
                    | NVIDIA GB300      | 31C2 10DE 21F1 |\n\
                    | NVIDIA A          | 2342 10DE 16EB |\n\
                    | NVIDIA B          | 2342 10DE 1809 |\n\
                    | NVIDIA B          | 2342 10DE 1810 |\n\nend\n";
        let gpus = parse(text);
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[&0x2342], ["A", "B"]);
        assert!(source(&gpus, "595.45.04").contains("(0x31c2, \"GB300\")"));
    }
}
