//! The few words that several checks say the same way.

use super::Ctx;
use crate::model::{Bdf, Fact, Row};

/// A device by its row's name and its address, as in `GPU0 (0000:3b:00.0)`; by its address where it has no row.
pub fn device(ctx: &Ctx<'_>, bdf: Bdf) -> String {
    match ctx
        .topology
        .row_at(bdf)
        .and_then(|row| ctx.topology.rows.get(row))
    {
        Some(row) => self::row(row),
        None => bdf.to_string(),
    }
}

/// A row by its name and its address.
pub fn row(row: &Row) -> String {
    match row.bdf {
        Some(bdf) => format!("{} ({bdf})", row.name),
        None => row.name.clone(),
    }
}

/// Names in a row, as in `GPU0, NIC0`.
pub fn list<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}

/// A size in the largest binary unit of which it is at least one: `256 MiB`, `139.8 GiB`.
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

/// A NUMA node in words.
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
    fn sizes_are_never_shown_larger_than_they_are() {
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
