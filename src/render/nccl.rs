//! NCCL's topology as its XML: the layout of `ncclTopoDumpXmlRec`.

use std::fmt::Write as _;

use crate::model::NcclElement;

/// The element with those inside.
pub fn xml(element: &NcclElement) -> String {
    let mut text = String::new();
    write(element, 0, &mut text);
    text
}

fn write(element: &NcclElement, indent: usize, text: &mut String) {
    let tag = &element.tag;
    let _ = write!(text, "{:indent$}<{tag}", "");
    for (name, value) in &element.attributes {
        let _ = write!(text, " {name}=\"{value}\"");
    }
    if element.children.is_empty() {
        text.push_str("/>\n");
        return;
    }
    text.push_str(">\n");
    for child in &element.children {
        write(child, indent + 2, text);
    }
    let _ = writeln!(text, "{:indent$}</{tag}>", "");
}
