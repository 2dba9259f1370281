//! Decimals of 128 bits (IEEE 754-2008, binary integer form), as AMQP encodes them.

use std::io::{Cursor, Write};

/// Added to exponents when they are stored.
const EXPONENT_BIAS: i32 = 6176;
/// Canonical coefficients are below this.
const COEFFICIENT_END: u128 = 10_u128.pow(34);
const COEFFICIENT_BITS: u32 = 113;
const SIGN: u128 = 1 << 127;
/// .NET's clients (Microsoft.Azure.Amqp, `DecimalEncoding`) shift the upper half of the exponent by two bits too many:
/// a scale of 0 to 28 arrives as an exponent of -4608 minus the scale. Real exponents that small would mean zero.
const DOTNET_SHIFT: i32 = 4608;
/// Most digits after the point in a decimal of .NET.
const DOTNET_SCALE_MAX: i32 = 28;

/// A decoded decimal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Decimal {
    NotANumber,
    Infinite {
        negative: bool,
    },
    /// `coefficient × 10^exponent`.
    Finite {
        negative: bool,
        coefficient: u128,
        exponent: i32,
    },
}

pub(crate) fn read(bits: u128) -> Decimal {
    let negative = bits & SIGN != 0;
    let has_form = |pattern: u128, width: u32| (bits << 1) >> (128 - width) == pattern;
    if has_form(0b11111, 5) {
        return Decimal::NotANumber;
    }
    if has_form(0b11110, 5) {
        return Decimal::Infinite { negative };
    }
    if has_form(0b11, 2) {
        // Coefficients this large have more than 34 digits and count as zero.
        return Decimal::Finite { negative, coefficient: 0, exponent: 0 };
    }
    let coefficient = bits & ((1 << COEFFICIENT_BITS) - 1);
    let coefficient = if coefficient < COEFFICIENT_END { coefficient } else { 0 };
    let stored = ((bits & !SIGN) >> COEFFICIENT_BITS) as i32;
    Decimal::Finite { negative, coefficient, exponent: repaired(stored - EXPONENT_BIAS) }
}

fn repaired(exponent: i32) -> i32 {
    let repaired = exponent + DOTNET_SHIFT;
    if (-DOTNET_SCALE_MAX..=0).contains(&repaired) { repaired } else { exponent }
}

/// The nearest double.
pub(crate) fn to_double(bits: u128) -> f64 {
    match read(bits) {
        Decimal::NotANumber => f64::NAN,
        Decimal::Infinite { negative: false } => f64::INFINITY,
        Decimal::Infinite { negative: true } => f64::NEG_INFINITY,
        Decimal::Finite { negative, coefficient, exponent } => {
            let magnitude = nearest(coefficient, exponent);
            if negative { -magnitude } else { magnitude }
        }
    }
}

/// The nearest double, rounded once by the standard library's parser, without an allocation.
fn nearest(coefficient: u128, exponent: i32) -> f64 {
    let mut digits = Cursor::new([0; 64]);
    let written = write!(digits, "{coefficient}e{exponent}");
    debug_assert!(written.is_ok(), "34 digits and an exponent fit");
    let length = digits.position() as usize;
    let digits = digits.get_ref().get(..length).unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or(f64::NAN)
}

/// Encodes a decimal; `None` if it has too many digits, or an exponent that would be taken for .NET's encoding.
pub(crate) fn write(negative: bool, coefficient: u128, exponent: i32) -> Option<u128> {
    let stored = u128::try_from(exponent + EXPONENT_BIAS).ok()?;
    let fits = coefficient < COEFFICIENT_END && stored < 3 << 12 && repaired(exponent) == exponent;
    fits.then_some(if negative { SIGN } else { 0 } | stored << COEFFICIENT_BITS | coefficient)
}

/// An integer as a decimal; all integers of 64 bits fit.
pub(crate) fn of_integer(number: i128) -> Option<u128> {
    write(number < 0, number.unsigned_abs(), 0)
}

/// Parses `[-]digits[.digits]`; `None` for other texts or more than 34 digits.
#[must_use]
pub fn parse(text: &str) -> Option<u128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let fraction = if digits.contains('.') { fraction } else { "" };
    let coefficient = whole.bytes().chain(fraction.bytes()).try_fold(0_u128, |coefficient, digit| {
        coefficient.checked_mul(10)?.checked_add((digit - b'0').into())
    })?;
    write(negative, coefficient, -i32::try_from(fraction.len()).ok()?)
}

/// Formats a decimal like .NET: digits with a point if necessary; with an exponent if there would be too many digits.
#[must_use]
pub fn text(bits: u128) -> String {
    let (negative, coefficient, exponent) = match read(bits) {
        Decimal::NotANumber => return "NaN".to_owned(),
        Decimal::Infinite { negative } => return if negative { "-Infinity" } else { "Infinity" }.to_owned(),
        Decimal::Finite { negative, coefficient, exponent } => (negative, coefficient, exponent),
    };
    let sign = if negative { "-" } else { "" };
    let point = usize::try_from(-exponent).unwrap_or(0);
    match exponent {
        0 => format!("{sign}{coefficient}"),
        -34..0 => {
            let digits = format!("{coefficient:0>width$}", width = point + 1);
            let (whole, fraction) = digits.split_at(digits.len() - point);
            format!("{sign}{whole}.{fraction}")
        }
        _ => format!("{sign}{coefficient}E{exponent:+}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `azure.servicebus._pyamqp._encode.encode_decimal128` 7.15.0.
    const PYTHON: [(u128, f64, &str); 8] = [
        (0x3040_0000_0000_0000_0000_0000_0000_0000, 0.0, "0"),
        (0x3040_0000_0000_0000_0000_0000_0000_0001, 1.0, "1"),
        (0x303e_0000_0000_0000_0000_0000_0000_007d, 12.5, "12.5"),
        (0xb03e_0000_0000_0000_0000_0000_0000_0001, -0.1, "-0.1"),
        (0x303c_0000_0000_0000_0000_0000_0000_0005, 0.05, "0.05"),
        (0x3046_0000_0000_0000_0000_0000_0000_0007, 7000.0, "7E+3"),
        (0x3040_0000_0000_0000_ffff_ffff_ffff_ffff, 18_446_744_073_709_551_615.0, "18446744073709551615"),
        (0x3041_ed09_bead_87c0_378d_8e63_ffff_ffff, 1e34, "9999999999999999999999999999999999"),
    ];

    #[test]
    fn decimals_of_clients_are_read_and_written() {
        for (bits, double, shown) in PYTHON {
            assert_eq!(to_double(bits).to_bits(), double.to_bits(), "{shown}");
            assert_eq!(text(bits), shown);
            let Decimal::Finite { negative, coefficient, exponent } = read(bits) else { panic!("{shown}") };
            assert_eq!(write(negative, coefficient, exponent), Some(bits));
        }
    }

    #[test]
    fn infinities_and_nan_are_recognised() {
        assert_eq!(to_double(0x7800 << 112), f64::INFINITY);
        assert_eq!(to_double(0xf800 << 112), f64::NEG_INFINITY);
        assert!(to_double(0x7c00 << 112).is_nan() && to_double(0x7e00 << 112).is_nan());
        assert_eq!(text(0xf800 << 112), "-Infinity");
        assert_eq!(text(0x7c00 << 112), "NaN");
    }

    #[test]
    fn coefficients_beyond_34_digits_count_as_zero() {
        assert_eq!(to_double((0x3040 << 112) | ((1 << 113) - 1)), 0.0);
        assert_eq!(to_double(0x6c10 << 112), 0.0);
    }

    #[test]
    fn dotnets_exponents_are_understood() {
        let sent = |scale: u128, coefficient: u128| {
            let exponent = 6176 - scale;
            (exponent >> 9) << 120 | (exponent & 0x7f) << 113 | coefficient
        };
        for (scale, coefficient, shown) in
            [(0, 7, "7"), (1, 125, "12.5"), (2, 5, "0.05"), (28, 1, "0.0000000000000000000000000001")]
        {
            assert_eq!(text(sent(scale, coefficient)), shown);
        }
        assert_eq!(to_double(sent(1, 125)), 12.5);
        assert_eq!(to_double(SIGN | sent(1, 125)), -12.5);
    }

    #[test]
    fn extremes_round_as_numbers_do() {
        assert_eq!(to_double(write(false, 1, 6111).unwrap()), f64::INFINITY);
        assert_eq!(to_double(write(true, 1, -6176).unwrap()).to_bits(), (-0.0_f64).to_bits());
        assert_eq!(to_double(write(false, 17_976_931_348_623_157, 292).unwrap()), f64::MAX);
    }

    #[test]
    fn texts_become_decimals_if_they_are_plain() {
        for shown in ["0", "12.50", "-3", "-0.001", "9999999999999999999999999999999999"] {
            assert_eq!(text(parse(shown).expect(shown)), shown);
        }
        for bad in ["", "-", ".5", "5.", "1e3", "+1", "1.2.3", " 1", "10000000000000000000000000000000000"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(of_integer(u64::MAX.into()).map(text).as_deref(), Some("18446744073709551615"));
    }
}
