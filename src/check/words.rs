//! Text that several checks share.

use super::Ctx;
use crate::model::{Bdf, Fact, Row};

/// Name and address of a device, as in `GPU0 (0000:3b:00.0)`; the address alone if it has no row.
pub fn device(ctx: &Ctx<'_>, bdf: Bdf) -> String {
    match ctx.topology.row_at(bdf).and_then(|row| ctx.topology.rows.get(row)) {
        Some(row) => self::row(row),
        None => bdf.to_string(),
    }
}

/// Name and address of a row.
pub fn row(row: &Row) -> String {
    match row.bdf {
        Some(bdf) => format!("{} ({bdf})", row.name),
        None => row.name.clone(),
    }
}

/// Joins names, as in `GPU0, NIC0`.
pub fn list<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}

/// A size in the largest binary unit that does not exceed it: `256 MiB`, `139.8 GiB`.
pub fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        None => format!("{bytes} bytes"),
        Some((shift, unit)) => {
            // One decimal, rounded down: a limit is never shown larger than it is.
            let tenths = (u128::from(bytes) * 10) >> shift;
            match tenths % 10 {
                0 => format!("{} {unit}", tenths / 10),
                tenth => format!("{}.{tenth} {unit}", tenths / 10),
            }
        }
    }
}

pub fn numa(node: &Fact<Option<u32>>) -> String {
    match node {
        Fact::Known(Some(node)) => format!("NUMA node {node}"),
        Fact::Known(None) => "no NUMA node named".to_owned(),
        Fact::Unknown(_) => "NUMA node unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_sizes_down() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (65536, "64 KiB"),
            (268_435_456, "256 MiB"),
            (150_754_820_096, "140.4 GiB"),
            (274_877_906_944, "256 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
