//! NCCL's XML as a tree of elements, with limits on size and nesting.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::super::ImportError;
use crate::model::NcclElement;

/// NCCL allows 256 elements for each machine.
const ELEMENTS: usize = 16_384;
/// Above system, cpu, a dozen switches, a GPU and its links.
const DEEPEST: usize = 48;
/// NCCL reads 16.
const ATTRIBUTES: usize = 32;
/// Of a name or value; NCCL's own limit.
const LONGEST: usize = 254;

/// The elements that NCCL reads, and RCCL's links.
const TAGS: [&str; 10] =
    ["system", "cpu", "pci", "gpu", "nvlink", "xgmi", "c2c", "nic", "net", "pcilink"];

/// The element `system` of a file.
pub fn read(bytes: &[u8]) -> Result<NcclElement, ImportError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| malformed(error.valid_up_to() as u64, "not UTF-8"))?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<NcclElement> = Vec::new();
    let mut elements = 0;
    loop {
        let at = reader.buffer_position();
        match reader.read_event() {
            Ok(Event::Start(start)) => {
                elements += 1;
                if elements > ELEMENTS || open.len() == DEEPEST {
                    return Err(malformed(at, "more elements than a machine has"));
                }
                open.push(element(&start).map_err(|what| malformed(at, what))?);
            }
            Ok(Event::End(_)) => {
                let Some(closed) = open.pop() else {
                    return Err(malformed(at, "not well-formed"));
                };
                match open.last_mut() {
                    Some(above) if TAGS.contains(&closed.tag.as_str()) => {
                        above.children.push(closed);
                    }
                    Some(_) => {}
                    // What follows the first root is not NCCL's.
                    None => return Ok(closed),
                }
            }
            Ok(Event::DocType(kind)) if kind.contains('[') => {
                return Err(malformed(at, "its document type defines entities"));
            }
            Ok(Event::Eof) => return Err(malformed(at, "truncated")),
            Ok(_) => {}
            // The error's own text quotes private names.
            Err(_) => return Err(malformed(reader.error_position(), "not well-formed")),
        }
    }
}

fn element(start: &BytesStart<'_>) -> Result<NcclElement, &'static str> {
    let mut element = NcclElement::new(start.name().as_ref());
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.map_err(|_| "an attribute is not well-formed")?;
        let (name, value): (&str, &str) = (attribute.key.as_ref(), &attribute.value);
        if element.attributes.len() == ATTRIBUTES || name.len().max(value.len()) > LONGEST {
            return Err("an element has more attributes, or a longer one, than NCCL reads");
        }
        // NCCL knows no entities and would not read these again.
        if value.contains(['<', '>', '"', '&']) || value.contains(char::is_control) {
            return Err("an attribute has a character that NCCL does not write");
        }
        element.attributes.push((name.to_owned(), value.to_owned()));
    }
    Ok(element)
}

fn malformed(at: u64, what: &str) -> ImportError {
    ImportError::Malformed(format!("invalid NCCL topology at byte {at}: {what}"))
}
