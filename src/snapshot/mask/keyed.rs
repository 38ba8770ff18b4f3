//! Values recognised by the words before them: serial numbers, user and host names, disk ids.

use std::ops::Range;

use regex::Captures;

use super::scan::Scan;

impl Scan<'_> {
    /// A candidate recognised by the words before it.
    pub(super) fn keyed(&mut self, captures: &Captures<'_>, whole: Range<usize>) -> usize {
        let part = |name: &str| captures.name(name).map(|part| part.range());
        let end = whole.end;
        if let Some(range) = part("v_serial") {
            return self.serial(range);
        }
        if let Some(range) = part("v_home") {
            let name = self.ledger.user(&self.text[range.clone()]);
            self.found.push((range, name));
            return end;
        }
        for name in ["v_host", "v_server", "v_address_name"] {
            if let Some(range) = part(name) {
                let host = self.ledger.host(&self.text[range.clone()]);
                self.found.push((range, host));
                return end;
            }
        }
        if let Some(range) = part("v_disk") {
            return self.disk(range);
        }
        if let Some(range) = part("v_qualified") {
            // An id of another shape is masked by its shape.
            if self.text[range.clone()].starts_with("uuid:") {
                return range.start;
            }
            return self.as_serial(range);
        }
        if let Some(range) = part("v_nvme").or(part("v_volume")) {
            return self.digits(range);
        }
        end
    }

    fn serial(&mut self, range: Range<usize>) -> usize {
        let text = &self.text[range.clone()];
        let trimmed = text.trim_end_matches(['.', '-', '_']).len();
        let range = range.start..range.start + trimmed;
        // Serial ports are named by the same word.
        if self.after(range.end) == b'/' || !text.bytes().any(|byte| byte.is_ascii_digit()) {
            return range.end;
        }
        self.as_serial(range)
    }

    fn as_serial(&mut self, range: Range<usize>) -> usize {
        let end = range.end;
        let masked = self.ledger.serial(&self.text[range.clone()]);
        self.found.push((range, masked));
        end
    }

    /// Hexadecimal digits with separators.
    fn digits(&mut self, range: Range<usize>) -> usize {
        // The beginning of a longer id with a shape of its own.
        if self.after(range.end).is_ascii_hexdigit() {
            return range.start;
        }
        let digits: String =
            self.text[range.clone()].chars().filter(char::is_ascii_hexdigit).collect();
        let masked = self.ledger.hex_serial(&digits);
        self.keep_shape(range, &masked)
    }

    /// A name in `/dev/disk/by-id`: `BUS-MODEL_SERIAL`, maybe with namespace or partition.
    fn disk(&mut self, range: Range<usize>) -> usize {
        let name = &self.text[range.clone()];
        // These have shapes of their own.
        if ["eui.", "wwn-", "uuid", "nvme.", "dm-name"].iter().any(|shape| name.contains(shape)) {
            return self.disk_number(range);
        }
        let stem = name.rsplit_once("-part").map_or(name, |(stem, _)| stem);
        let mut end = stem.len();
        // Namespaces are small numbers after the serial number.
        let marks = stem.match_indices('_').map(|(at, _)| at).rev();
        for mark in marks.chain(stem.find('-')) {
            let part = stem.get(mark + 1..end).unwrap_or_default().trim_end_matches('_');
            if part.len() > 2 && part.bytes().any(|byte| byte.is_ascii_digit()) {
                let start = range.start + mark + 1;
                self.as_serial(start..start + part.len());
                break;
            }
            end = mark;
        }
        range.end
    }

    /// `wwn-0x…`, `nvme-eui.…`: digits after the last separator. Ids of volume managers have other digits too.
    fn disk_number(&mut self, range: Range<usize>) -> usize {
        let name = &self.text[range.clone()];
        if let Some(at) = name.find("uuid-") {
            return self.as_serial(range.start + at + "uuid-".len()..range.end);
        }
        let mark = ["eui.", "wwn-0x"].iter().find_map(|mark| Some(name.find(mark)? + mark.len()));
        let Some(start) = mark.map(|at| range.start + at) else {
            return range.start;
        };
        let digits = self.text[start..].bytes().take_while(u8::is_ascii_hexdigit).count();
        match digits {
            16 => self.eui(start..start + 16),
            32 => self.uuid(start..start + 32),
            _ => self.digits(start..start + digits),
        };
        range.end
    }
}
