//! Lock tokens in their two byte orders.

use peeklock_engine::LockToken;

use crate::endpoint::DeliveryTag;

/// The token as a delivery tag: in the byte order of a .NET GUID, its first three groups little-endian.
#[must_use]
pub(crate) fn to_tag(token: LockToken) -> DeliveryTag {
    swap(token.0.to_be_bytes())
}

/// The token in a delivery tag.
#[must_use]
pub(crate) fn from_tag(tag: DeliveryTag) -> LockToken {
    LockToken(u128::from_be_bytes(swap(tag)))
}

/// The token as an AMQP uuid, in the byte order of RFC 4122, as used in management bodies.
#[must_use]
pub(crate) fn to_uuid(token: LockToken) -> [u8; 16] {
    token.0.to_be_bytes()
}

/// The token in an AMQP uuid.
#[must_use]
pub(crate) fn from_uuid(uuid: [u8; 16]) -> LockToken {
    LockToken(u128::from_be_bytes(uuid))
}

fn swap(bytes: [u8; 16]) -> [u8; 16] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
    let [i, j, k, l, m, n, o, p] = rest;
    [d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_dotnet_guids_and_uuids_are_rfc_4122() {
        let token = LockToken(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        assert_eq!(
            to_tag(token),
            [0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]
        );
        assert_eq!(to_uuid(token)[..4], [0x00, 0x11, 0x22, 0x33]);
        assert_eq!(from_tag(to_tag(token)), token);
        assert_eq!(from_uuid(to_uuid(token)), token);
    }
}
