//! Decimals. AMQP encodes those of every width as binary integers with a decimal exponent (IEEE 754-2008, "binary integer
//! decimal"), so a wider one has the same integer and another bias; rules know only those of 128 bits.

const BIAS_32: u128 = 101;
const BIAS_64: u128 = 398;
const BIAS_128: u128 = 6176;

/// What a coefficient of 7 digits can't be beyond; one that is counts as zero.
const COEFFICIENT_MAX_32: u128 = 9_999_999;
/// As [`COEFFICIENT_MAX_32`], of 16 digits.
const COEFFICIENT_MAX_64: u128 = 9_999_999_999_999_999;

/// Where the exponent of a decimal of 128 bits begins.
const EXPONENT_SHIFT_128: u32 = 113;

/// A decimal of 32 bits in 128.
pub(super) fn widen_32(decimal: u32) -> u128 {
    widen(
        decimal.into(),
        &Format { bits: 32, exponent_bits: 8, bias: BIAS_32, coefficient_max: COEFFICIENT_MAX_32 },
    )
}

/// A decimal of 64 bits in 128.
pub(super) fn widen_64(decimal: u64) -> u128 {
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
        // Infinity, and what is not a number.
        0b1_1110 | 0b1_1111 => return sign | (combination << 122),
        _ => {}
    }
    let shift = format.bits - 1 - format.exponent_bits;
    let mask = |bits: u32| (1_u128 << bits) - 1;
    // The highest two bits of an exponent are never both set: if so, it begins two bits later, and the coefficient has 100
    // in front.
    let (exponent, coefficient) = if combination >> 3 == 0b11 {
        let shift = shift - 2;
        (decimal >> shift & mask(format.exponent_bits), (0b100 << shift) | (decimal & mask(shift)))
    } else {
        (decimal >> shift & mask(format.exponent_bits), decimal & mask(shift))
    };
    let coefficient = if coefficient > format.coefficient_max { 0 } else { coefficient };
    sign | ((exponent + BIAS_128 - format.bias) << EXPONENT_SHIFT_128) | coefficient
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A coefficient and a power of ten, as a decimal of 128 bits.
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
        // 9_999_999 = 0x98967f has 24 bits: 100 in front of the last 21.
        let coefficient = 9_999_999 & ((1 << 21) - 1);
        assert_eq!(widen_32((0b11 << 29) | (101 << 21) | coefficient), wide(9_999_999, 0));
        let coefficient = 9_999_999_999_999_999 & ((1 << 51) - 1);
        assert_eq!(widen_64((0b11 << 61) | (400 << 51) | coefficient), wide(9_999_999_999_999_999, 2));
        assert_eq!(widen_32((0b11 << 29) | (101 << 21) | ((1 << 21) - 1)), wide(0, 0), "more than 7 digits");
    }

    #[test]
    fn infinities_and_what_is_no_number_stay_what_they_are() {
        assert_eq!(widen_32(0x7800_0000), 0x78 << 120);
        assert_eq!(widen_64(0xf800_0000_0000_0000), 0xf8 << 120);
        assert_eq!(widen_32(0x7c00_0000), 0x7c << 120);
    }
}
