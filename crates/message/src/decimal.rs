//! Decimals. AMQP encodes decimals of all widths as binary integers with a decimal exponent (IEEE 754-2008, "binary
//! integer decimal"), so a wider decimal has the same integer and another bias; rules support only 128 bits.
//!
//! Clients deviate from that. The library of .NET, and of the service (Microsoft.Azure.Amqp, `DecimalEncoding`),
//! supports only values of `System.Decimal`, and writes 128 bits with the upper part of the exponent two bits too far
//! to the right. Python's decoder (azure-servicebus 7.15.0, `_decode_decimal128`) reads only the service's encoding: an
//! exponent as specified by AMQP ends its receivers. So decimals are stored in the service's encoding ([`as_service`]).

use peeklock_wire::message::Sections;
use peeklock_wire::{DecodeError, Value};

use crate::InvalidMessage;

const BIAS_32: u128 = 101;
const BIAS_64: u128 = 398;
const BIAS_128: u128 = 6176;

/// Largest coefficient of 7 digits; larger ones count as zero.
const COEFFICIENT_MAX_32: u128 = 9_999_999;
/// As [`COEFFICIENT_MAX_32`], of 16 digits.
const COEFFICIENT_MAX_64: u128 = 9_999_999_999_999_999;

/// Position of the exponent in a decimal of 128 bits.
const EXPONENT_SHIFT_128: u32 = 113;

/// Converts a decimal of 32 bits to 128.
pub(crate) fn widen_32(decimal: u32) -> u128 {
    widen(
        decimal.into(),
        &Format { bits: 32, exponent_bits: 8, bias: BIAS_32, coefficient_max: COEFFICIENT_MAX_32 },
    )
}

/// Converts a decimal of 64 bits to 128.
pub(crate) fn widen_64(decimal: u64) -> u128 {
    widen(
        decimal.into(),
        &Format { bits: 64, exponent_bits: 10, bias: BIAS_64, coefficient_max: COEFFICIENT_MAX_64 },
    )
}

struct Format {
    bits: u32,
    exponent_bits: u32,
    bias: u128,
    coefficient_max: u128,
}

fn widen(decimal: u128, format: &Format) -> u128 {
    let sign = (decimal >> (format.bits - 1)) << 127;
    let combination = (decimal >> (format.bits - 6)) & 0b1_1111;
    match combination {
        // Infinity and NaN.
        0b1_1110 | 0b1_1111 => return sign | (combination << 122),
        _ => {}
    }
    let shift = format.bits - 1 - format.exponent_bits;
    let mask = |bits: u32| (1_u128 << bits) - 1;
    // The highest two bits of an exponent are never both set: if they are, the exponent begins two bits later, and the
    // coefficient is prefixed with 100.
    let (exponent, coefficient) = if combination >> 3 == 0b11 {
        let shift = shift - 2;
        (decimal >> shift & mask(format.exponent_bits), (0b100 << shift) | (decimal & mask(shift)))
    } else {
        (decimal >> shift & mask(format.exponent_bits), decimal & mask(shift))
    };
    let coefficient = if coefficient > format.coefficient_max { 0 } else { coefficient };
    sign | ((exponent + BIAS_128 - format.bias) << EXPONENT_SHIFT_128) | coefficient
}

/// Most digits after the point in a `System.Decimal`.
const SCALE_MAX: i32 = 28;
/// Bits of its coefficient.
const COEFFICIENT_BITS: u32 = 96;
/// Coefficients of 34 digits are below this; larger ones count as zero.
const COEFFICIENT_END_128: u128 = 10_u128.pow(34);
/// Difference between the intended exponent and the one written by .NET.
const DOTNET_SHIFT: i32 = 4608;

/// The decimal of 128 bits in the service's encoding; `None` if `System.Decimal` can't represent it: more than 28
/// digits after the point, more than 96 bits of coefficient, infinities, and NaN.
fn in_service_form(bits: u128) -> Option<u128> {
    let sign = bits & (1 << 127);
    let (mut coefficient, mut exponent) = match (bits >> 122) & 0b1_1111 {
        0b1_1110 | 0b1_1111 => return None,
        // A coefficient this large has more than 34 digits.
        combination if combination >> 3 == 0b11 => (0, 0),
        _ => {
            let coefficient = bits & ((1 << EXPONENT_SHIFT_128) - 1);
            let stored = i32::try_from((bits & !sign) >> EXPONENT_SHIFT_128).ok()?;
            (if coefficient < COEFFICIENT_END_128 { coefficient } else { 0 }, stored - 6176)
        }
    };
    if (-SCALE_MAX..=0).contains(&(exponent + DOTNET_SHIFT)) {
        exponent += DOTNET_SHIFT;
    }
    if coefficient == 0 {
        exponent = exponent.clamp(-SCALE_MAX, 0);
    }
    while exponent < -SCALE_MAX && coefficient % 10 == 0 {
        (coefficient, exponent) = (coefficient / 10, exponent + 1);
    }
    while exponent > 0 && coefficient >> COEFFICIENT_BITS == 0 {
        (coefficient, exponent) = (coefficient * 10, exponent - 1);
    }
    if !(-SCALE_MAX..=0).contains(&exponent) || coefficient >> COEFFICIENT_BITS != 0 {
        return None;
    }
    let biased = u128::try_from(6176 + exponent).ok()?;
    let stored = (biased >> 9) << 7 | (biased & 0x7f);
    Some(sign | stored << EXPONENT_SHIFT_128 | coefficient)
}

/// A decimal of any width, with or without descriptor, in the service's encoding; `None` for other values.
///
/// # Errors
/// [`InvalidMessage::Argument`] for a decimal that clients of Service Bus can't read.
pub fn as_service(value: &Value) -> Result<Option<Value>, InvalidMessage> {
    let bits = match value {
        Value::Decimal32(bytes) => widen_32(u32::from_be_bytes(*bytes)),
        Value::Decimal64(bytes) => widen_64(u64::from_be_bytes(*bytes)),
        Value::Decimal128(bytes) => u128::from_be_bytes(*bytes),
        Value::Described(described) => {
            let inner = as_service(&described.value)?;
            return Ok(inner.map(|inner| Value::described(described.descriptor.clone(), inner)));
        }
        _ => return Ok(None),
    };
    let written = in_service_form(bits).ok_or_else(|| {
        InvalidMessage::Argument(
            "A decimal must have at most 28 digits after the point and a coefficient of at most 96 bits."
                .to_owned(),
        )
    })?;
    Ok(Some(Value::Decimal128(written.to_be_bytes())))
}

/// A map section with its decimals in the service's encoding; `None` if no decimal changes.
///
/// # Errors
/// [`InvalidMessage::Argument`] for a decimal that clients can't read; [`InvalidMessage::Malformed`].
pub(crate) fn with_service_form(section: &bytes::Bytes) -> Result<Option<bytes::Bytes>, InvalidMessage> {
    let malformed = |error: DecodeError| InvalidMessage::Malformed(error.into_reason());
    let mut changes = false;
    for entry in Sections::map_entries(section).map_err(malformed)? {
        let entry = entry.map_err(malformed)?;
        if let Some(value) = decode_decimal(entry.encoded_value) {
            changes |= as_service(&value)?.is_some_and(|written| written != value);
        }
    }
    if !changes {
        return Ok(None);
    }
    let replace = |encoded: &[u8]| as_service(&decode_decimal(encoded)?).ok()?;
    Sections::copy_map(section, replace).map(Some).map_err(malformed)
}

/// Decodes the value if it can be a decimal.
fn decode_decimal(encoded: &[u8]) -> Option<Value> {
    /// Constructors: described value, decimals of 32, 64 and 128 bits.
    const POSSIBLE: [u8; 4] = [0x00, 0x74, 0x84, 0x94];
    let code = encoded.first()?;
    if !POSSIBLE.contains(code) {
        return None;
    }
    Value::decode(&mut bytes::Bytes::copy_from_slice(encoded)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A decimal of 128 bits from a coefficient and a power of ten.
    fn wide(coefficient: u128, power: i32) -> u128 {
        (u128::try_from(6176 + power).unwrap() << EXPONENT_SHIFT_128) | coefficient
    }

    #[test]
    fn a_wider_decimal_is_the_same_number() {
        // 12.5 = 125 * 10^-1.
        assert_eq!(widen_32((100 << 23) | 125), wide(125, -1));
        assert_eq!(widen_64((397 << 53) | 125), wide(125, -1));
        assert_eq!(widen_64((1 << 63) | (398 << 53) | 7), (1 << 127) | wide(7, 0), "below zero");
        assert_eq!(widen_32(101 << 23), wide(0, 0));
    }

    #[test]
    fn large_coefficients_have_their_exponent_two_bits_later() {
        // 9_999_999 = 0x98967f has 24 bits: 100 precedes the last 21.
        let coefficient = 9_999_999 & ((1 << 21) - 1);
        assert_eq!(widen_32((0b11 << 29) | (101 << 21) | coefficient), wide(9_999_999, 0));
        let coefficient = 9_999_999_999_999_999 & ((1 << 51) - 1);
        assert_eq!(widen_64((0b11 << 61) | (400 << 51) | coefficient), wide(9_999_999_999_999_999, 2));
        assert_eq!(widen_32((0b11 << 29) | (101 << 21) | ((1 << 21) - 1)), wide(0, 0), "more than 7 digits");
    }

    #[test]
    fn infinities_and_nan_stay_unchanged() {
        assert_eq!(widen_32(0x7800_0000), 0x78 << 120);
        assert_eq!(widen_64(0xf800_0000_0000_0000), 0xf8 << 120);
        assert_eq!(widen_32(0x7c00_0000), 0x7c << 120);
    }

    /// `coefficient / 10^scale` in .NET's encoding.
    fn dotnet(coefficient: u128, scale: u128) -> u128 {
        let biased = 6176 - scale;
        (biased >> 9) << 120 | (biased & 0x7f) << 113 | coefficient
    }

    #[test]
    fn decimals_are_kept_as_the_service_writes_them() {
        let written = |bits: u128| as_service(&Value::Decimal128(bits.to_be_bytes()));
        let kept = |bits: u128| Ok(Some(Value::Decimal128(bits.to_be_bytes())));
        assert_eq!(written(wide(12345, -4)), kept(dotnet(12345, 4)));
        assert_eq!(written(dotnet(12345, 4)), kept(dotnet(12345, 4)), "a decimal of .NET is unchanged");
        assert_eq!(written(1 << 127 | wide(7, 0)), kept(1 << 127 | dotnet(7, 0)));
        assert_eq!(written(wide(7, 3)), kept(dotnet(7000, 0)), "no exponents above zero");
        assert_eq!(written(wide(100, -30)), kept(dotnet(1, 28)), "zeros at the end go");
        assert_eq!(written(wide(0, -6000)), kept(dotnet(0, 28)));
        assert_eq!(written(wide(1 << 96, 0) - 1), kept(dotnet((1 << 96) - 1, 0)));
        assert_eq!(
            as_service(&Value::Decimal32(((100 << 23) | 125_u32).to_be_bytes())),
            kept(dotnet(125, 1))
        );
        assert_eq!(
            as_service(&Value::Decimal64(((397 << 53) | 125_u64).to_be_bytes())),
            kept(dotnet(125, 1))
        );
        let described = |value| Value::described(Value::symbol("d"), value);
        let value = described(Value::Decimal128(wide(5, -1).to_be_bytes()));
        let expected = described(Value::Decimal128(dotnet(5, 1).to_be_bytes()));
        assert_eq!(as_service(&value), Ok(Some(expected)));
        assert_eq!(as_service(&Value::Long(5)), Ok(None));
    }

    #[test]
    fn decimals_beyond_those_of_dotnet_are_refused() {
        let infinite = 0x78 << 120;
        let no_number = 0x7c << 120;
        for bits in [wide(1, -29), wide(1 << 96, 0), wide(1, 29), wide(1, 6000), infinite, no_number] {
            let refused = as_service(&Value::Decimal128(bits.to_be_bytes()));
            assert!(matches!(refused, Err(InvalidMessage::Argument(_))), "{bits:#x}: {refused:?}");
        }
    }
}
