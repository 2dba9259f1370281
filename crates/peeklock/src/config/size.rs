//! Sizes in a configuration.

use std::ops::RangeInclusive;

const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

/// Parses `64 MiB`, `10GiB`, `512 KiB`: integers with 1024-based units.
///
/// # Errors
/// A message for the end of a sentence about the value.
pub(crate) fn parse_in(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = parse(text)
        .ok_or_else(|| format!("\"{text}\" is not a size; write a whole number with KiB, MiB, GiB or TiB"))?;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!(
        "\"{text}\" is outside the range from {} to {}",
        display(*range.start()),
        display(*range.end())
    ))
}

fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let (factor, number) =
        UNITS.iter().find_map(|(unit, factor)| Some((factor, text.strip_suffix(unit)?.trim_end())))?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// A size in the largest unit that divides it.
pub(crate) fn display(bytes: u64) -> String {
    let divides = |(_, factor): &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(*factor);
    match UNITS.iter().rev().find(divides) {
        Some((unit, factor)) => format!("{} {unit}", bytes / factor),
        None if bytes == 0 => "0 KiB".to_owned(),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_whole_numbers_of_binary_units() {
        assert_eq!(parse_in("64 MiB", &(0..=u64::MAX)), Ok(64 << 20));
        assert_eq!(parse_in("10GiB", &(0..=u64::MAX)), Ok(10 << 30));
    }

    #[test]
    fn refuses_other_units_fractions_and_overflow() {
        for text in ["64", "64 MB", "1.5 GiB", "GiB", "-1 GiB", "99999999999 TiB"] {
            let error = parse_in(text, &(0..=u64::MAX)).expect_err(text);
            assert!(error.contains("is not a size"), "{error}");
        }
    }

    #[test]
    fn names_both_ends_of_a_range() {
        let error = parse_in("1 MiB", &((8 << 20)..=(1 << 30))).unwrap_err();
        assert_eq!(error, "\"1 MiB\" is outside the range from 8 MiB to 1 GiB");
        assert_eq!([display(0), display(1000), display(3 << 30)], ["0 KiB", "1000 bytes", "3 GiB"]);
    }
}
