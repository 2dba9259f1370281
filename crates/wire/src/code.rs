//! Format codes (part 1.6) and descriptors (parts 2.7, 2.8, 3.2, 3.4, 3.5, 4.5, 5.3), numeric and symbolic.

/// Constructors of part 1.6.
pub(super) mod format {
    pub(crate) const DESCRIBED: u8 = 0x00;
    pub(crate) const NULL: u8 = 0x40;
    pub(crate) const TRUE: u8 = 0x41;
    pub(crate) const FALSE: u8 = 0x42;
    pub(crate) const UINT_0: u8 = 0x43;
    pub(crate) const ULONG_0: u8 = 0x44;
    pub(crate) const LIST_0: u8 = 0x45;
    pub(crate) const UBYTE: u8 = 0x50;
    pub(crate) const BYTE: u8 = 0x51;
    pub(crate) const SMALL_UINT: u8 = 0x52;
    pub(crate) const SMALL_ULONG: u8 = 0x53;
    pub(crate) const SMALL_INT: u8 = 0x54;
    pub(crate) const SMALL_LONG: u8 = 0x55;
    pub(crate) const BOOLEAN: u8 = 0x56;
    pub(crate) const USHORT: u8 = 0x60;
    pub(crate) const SHORT: u8 = 0x61;
    pub(crate) const UINT: u8 = 0x70;
    pub(crate) const INT: u8 = 0x71;
    pub(crate) const FLOAT: u8 = 0x72;
    pub(crate) const CHAR: u8 = 0x73;
    pub(crate) const DECIMAL_32: u8 = 0x74;
    pub(crate) const ULONG: u8 = 0x80;
    pub(crate) const LONG: u8 = 0x81;
    pub(crate) const DOUBLE: u8 = 0x82;
    pub(crate) const TIMESTAMP: u8 = 0x83;
    pub(crate) const DECIMAL_64: u8 = 0x84;
    pub(crate) const DECIMAL_128: u8 = 0x94;
    pub(crate) const UUID: u8 = 0x98;
    pub(crate) const BINARY_8: u8 = 0xa0;
    pub(crate) const STRING_8: u8 = 0xa1;
    pub(crate) const SYMBOL_8: u8 = 0xa3;
    pub(crate) const BINARY_32: u8 = 0xb0;
    pub(crate) const STRING_32: u8 = 0xb1;
    pub(crate) const SYMBOL_32: u8 = 0xb3;
    pub(crate) const LIST_8: u8 = 0xc0;
    pub(crate) const MAP_8: u8 = 0xc1;
    pub(crate) const LIST_32: u8 = 0xd0;
    pub(crate) const MAP_32: u8 = 0xd1;
    pub(crate) const ARRAY_8: u8 = 0xe0;
    pub(crate) const ARRAY_32: u8 = 0xf0;

    /// The width of what follows a constructor.
    pub(crate) enum Width {
        /// This many bytes.
        Fixed(usize),
        /// As many bytes as the next byte says.
        Size8,
        /// As many bytes as the next four bytes say.
        Size32,
    }

    /// The width after this constructor; `None` after that of a descriptor and where none exists.
    #[inline(always)]
    pub(crate) const fn width(code: u8) -> Option<Width> {
        Some(match code {
            NULL..=LIST_0 => Width::Fixed(0),
            UBYTE..=BOOLEAN => Width::Fixed(1),
            USHORT | SHORT => Width::Fixed(2),
            UINT..=DECIMAL_32 => Width::Fixed(4),
            ULONG..=DECIMAL_64 => Width::Fixed(8),
            DECIMAL_128 | UUID => Width::Fixed(16),
            BINARY_8 | STRING_8 | SYMBOL_8 | LIST_8 | MAP_8 | ARRAY_8 => Width::Size8,
            BINARY_32 | STRING_32 | SYMBOL_32 | LIST_32 | MAP_32 | ARRAY_32 => Width::Size32,
            _ => return None,
        })
    }

    /// Whether the constructor exists at all.
    pub(crate) const fn is_known(code: u8) -> bool {
        code == DESCRIBED || width(code).is_some()
    }
}

/// Numeric descriptors; all standard ones fit one byte.
pub(super) mod descriptor {
    pub(crate) const OPEN: u8 = 0x10;
    pub(crate) const BEGIN: u8 = 0x11;
    pub(crate) const ATTACH: u8 = 0x12;
    pub(crate) const FLOW: u8 = 0x13;
    pub(crate) const TRANSFER: u8 = 0x14;
    pub(crate) const DISPOSITION: u8 = 0x15;
    pub(crate) const DETACH: u8 = 0x16;
    pub(crate) const END: u8 = 0x17;
    pub(crate) const CLOSE: u8 = 0x18;
    pub(crate) const ERROR: u8 = 0x1d;
    pub(crate) const RECEIVED: u8 = 0x23;
    pub(crate) const ACCEPTED: u8 = 0x24;
    pub(crate) const REJECTED: u8 = 0x25;
    pub(crate) const RELEASED: u8 = 0x26;
    pub(crate) const MODIFIED: u8 = 0x27;
    pub(crate) const SOURCE: u8 = 0x28;
    pub(crate) const TARGET: u8 = 0x29;
    pub(crate) const COORDINATOR: u8 = 0x30;
    pub(crate) const DECLARE: u8 = 0x31;
    pub(crate) const DISCHARGE: u8 = 0x32;
    pub(crate) const DECLARED: u8 = 0x33;
    pub(crate) const TRANSACTIONAL_STATE: u8 = 0x34;
    pub(crate) const SASL_MECHANISMS: u8 = 0x40;
    pub(crate) const SASL_INIT: u8 = 0x41;
    pub(crate) const SASL_CHALLENGE: u8 = 0x42;
    pub(crate) const SASL_RESPONSE: u8 = 0x43;
    pub(crate) const SASL_OUTCOME: u8 = 0x44;
    pub(crate) const HEADER: u8 = 0x70;
    pub(crate) const DELIVERY_ANNOTATIONS: u8 = 0x71;
    pub(crate) const MESSAGE_ANNOTATIONS: u8 = 0x72;
    pub(crate) const PROPERTIES: u8 = 0x73;
    pub(crate) const APPLICATION_PROPERTIES: u8 = 0x74;
    pub(crate) const DATA: u8 = 0x75;
    pub(crate) const AMQP_SEQUENCE: u8 = 0x76;
    pub(crate) const AMQP_VALUE: u8 = 0x77;
    pub(crate) const FOOTER: u8 = 0x78;

    /// The number for a symbolic descriptor.
    pub(crate) fn from_name(name: &[u8]) -> Option<u8> {
        NAMES.iter().find(|(known, _)| known.as_bytes() == name).map(|&(_, code)| code)
    }

    pub(crate) const NAMES: [(&str, u8); 36] = [
        ("amqp:open:list", OPEN),
        ("amqp:begin:list", BEGIN),
        ("amqp:attach:list", ATTACH),
        ("amqp:flow:list", FLOW),
        ("amqp:transfer:list", TRANSFER),
        ("amqp:disposition:list", DISPOSITION),
        ("amqp:detach:list", DETACH),
        ("amqp:end:list", END),
        ("amqp:close:list", CLOSE),
        ("amqp:error:list", ERROR),
        ("amqp:received:list", RECEIVED),
        ("amqp:accepted:list", ACCEPTED),
        ("amqp:rejected:list", REJECTED),
        ("amqp:released:list", RELEASED),
        ("amqp:modified:list", MODIFIED),
        ("amqp:source:list", SOURCE),
        ("amqp:target:list", TARGET),
        ("amqp:coordinator:list", COORDINATOR),
        ("amqp:declare:list", DECLARE),
        ("amqp:discharge:list", DISCHARGE),
        ("amqp:declared:list", DECLARED),
        ("amqp:transactional-state:list", TRANSACTIONAL_STATE),
        ("amqp:sasl-mechanisms:list", SASL_MECHANISMS),
        ("amqp:sasl-init:list", SASL_INIT),
        ("amqp:sasl-challenge:list", SASL_CHALLENGE),
        ("amqp:sasl-response:list", SASL_RESPONSE),
        ("amqp:sasl-outcome:list", SASL_OUTCOME),
        ("amqp:header:list", HEADER),
        ("amqp:delivery-annotations:map", DELIVERY_ANNOTATIONS),
        ("amqp:message-annotations:map", MESSAGE_ANNOTATIONS),
        ("amqp:properties:list", PROPERTIES),
        ("amqp:application-properties:map", APPLICATION_PROPERTIES),
        ("amqp:data:binary", DATA),
        ("amqp:amqp-sequence:list", AMQP_SEQUENCE),
        ("amqp:amqp-value:*", AMQP_VALUE),
        ("amqp:footer:map", FOOTER),
    ];
}
