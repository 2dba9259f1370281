//! Encoding [`Value`] in its most compact form; arrays with one constructor of full width, so that Go and .NET
//! read them as typed arrays.

use bytes::{BufMut, BytesMut};

use super::code::format;
use super::{Described, Value, write};

impl Value {
    /// Appends the encoding, in its most compact form.
    pub fn encode(&self, output: &mut BytesMut) {
        match self {
            Self::Null => write::null(output),
            Self::Bool(truth) => write::boolean(*truth, output),
            Self::UInt(number) => write::uint(*number, output),
            Self::ULong(number) => write::ulong(*number, output),
            Self::Int(number) => write::int(*number, output),
            Self::Long(number) => write::long(*number, output),
            Self::Binary(contents) => write::binary(contents, output),
            Self::String(text) => write::string(text, output),
            Self::Symbol(text) => write::symbol(text, output),
            Self::List(elements) => encode_list(elements, output),
            Self::Map(entries) => encode_map(entries, output),
            Self::Array(elements) => encode_array(elements, output),
            Self::Described(described) => {
                output.put_u8(format::DESCRIBED);
                described.descriptor.encode(output);
                described.value.encode(output);
            }
            _ => {
                // The fixed-width types have one encoding.
                let element = ElementType::of(self);
                element.encode_constructor(output);
                element.encode(self, output);
            }
        }
    }
}

fn encode_list(elements: &[Value], output: &mut BytesMut) {
    if elements.is_empty() {
        return output.put_u8(format::LIST_0);
    }
    write::compound(format::LIST_8, format::LIST_32, elements.len(), output, |output| {
        for element in elements {
            element.encode(output);
        }
    });
}

fn encode_map(entries: &[(Value, Value)], output: &mut BytesMut) {
    write::compound(format::MAP_8, format::MAP_32, entries.len() * 2, output, |output| {
        encode_entries(entries, output);
    });
}

fn encode_entries(entries: &[(Value, Value)], output: &mut BytesMut) {
    for (key, value) in entries {
        key.encode(output);
        value.encode(output);
    }
}

fn encode_array(elements: &[Value], output: &mut BytesMut) {
    match ElementType::common(elements) {
        Some(element_type) => {
            write::compound(format::ARRAY_8, format::ARRAY_32, elements.len(), output, |output| {
                element_type.encode_array_contents(elements, output);
            });
        }
        None => encode_list(elements, output),
    }
}

/// The common constructor of an array's elements.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ElementType<'a> {
    /// A primitive or compound.
    Code(u8),
    /// A descriptor before another element type.
    Described(&'a Value, &'a Value),
}

impl<'a> ElementType<'a> {
    /// The common type of all elements, if they have one.
    fn common(elements: &'a [Value]) -> Option<Self> {
        let Some((first, rest)) = elements.split_first() else {
            return Some(Self::Code(format::LONG));
        };
        rest.iter().try_fold(Self::of(first), |common, element| common.join(Self::of(element)))
    }

    fn of(value: &'a Value) -> Self {
        let long_text = |text: &[u8], short: u8, long: u8| if text.len() > 255 { long } else { short };
        Self::Code(match value {
            Value::Described(described) => return Self::Described(&described.descriptor, &described.value),
            Value::Null => format::NULL,
            Value::Bool(_) => format::BOOLEAN,
            Value::UByte(_) => format::UBYTE,
            Value::UShort(_) => format::USHORT,
            Value::UInt(_) => format::UINT,
            Value::ULong(_) => format::ULONG,
            Value::Byte(_) => format::BYTE,
            Value::Short(_) => format::SHORT,
            Value::Int(_) => format::INT,
            Value::Long(_) => format::LONG,
            Value::Float(_) => format::FLOAT,
            Value::Double(_) => format::DOUBLE,
            Value::Decimal32(_) => format::DECIMAL_32,
            Value::Decimal64(_) => format::DECIMAL_64,
            Value::Decimal128(_) => format::DECIMAL_128,
            Value::Char(_) => format::CHAR,
            Value::Timestamp(_) => format::TIMESTAMP,
            Value::Uuid(_) => format::UUID,
            Value::Binary(contents) => long_text(contents, format::BINARY_8, format::BINARY_32),
            Value::String(text) => long_text(text.as_bytes(), format::STRING_8, format::STRING_32),
            Value::Symbol(text) => long_text(text.as_bytes(), format::SYMBOL_8, format::SYMBOL_32),
            Value::List(_) => format::LIST_32,
            Value::Map(_) => format::MAP_32,
            Value::Array(elements) if Self::common(elements).is_some() => format::ARRAY_32,
            Value::Array(_) => format::LIST_32,
        })
    }

    /// The type that can hold both, if one exists: equal types, or short and long text.
    fn join(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Code(one), Self::Code(two)) if one == two => Some(self),
            (Self::Code(one), Self::Code(two)) => {
                let variable = |code: u8| matches!(code >> 4, 0xa | 0xb);
                let same = variable(one) && variable(two) && (one ^ two) == 0x10;
                same.then_some(Self::Code(one.max(two)))
            }
            (Self::Described(descriptor, value), Self::Described(descriptor_two, value_two)) => {
                // The inner constructor must serve both unchanged: the value with the wider text determines it.
                let inner = Self::of(value).join(Self::of(value_two))?;
                let model = if inner == Self::of(value) { value } else { value_two };
                (descriptor == descriptor_two).then_some(Self::Described(descriptor, model))
            }
            _ => None,
        }
    }

    fn encode_array_contents(self, elements: &[Value], output: &mut BytesMut) {
        self.encode_constructor(output);
        for element in elements {
            self.encode(element, output);
        }
    }

    fn encode_constructor(self, output: &mut BytesMut) {
        match self {
            Self::Code(code) => output.put_u8(code),
            Self::Described(descriptor, model) => {
                output.put_u8(format::DESCRIBED);
                descriptor.encode(output);
                Self::of(model).encode_constructor(output);
            }
        }
    }

    /// The element without constructor.
    fn encode(self, element: &Value, output: &mut BytesMut) {
        let long = matches!(self, Self::Code(format::BINARY_32 | format::STRING_32 | format::SYMBOL_32));
        match element {
            Value::Null => {}
            Value::Bool(truth) => output.put_u8((*truth).into()),
            Value::UByte(number) => output.put_u8(*number),
            Value::UShort(number) => output.put_u16(*number),
            Value::UInt(number) => output.put_u32(*number),
            Value::ULong(number) => output.put_u64(*number),
            Value::Byte(number) => output.put_i8(*number),
            Value::Short(number) => output.put_i16(*number),
            Value::Int(number) => output.put_i32(*number),
            Value::Long(number) | Value::Timestamp(number) => output.put_i64(*number),
            Value::Float(number) => output.put_f32(*number),
            Value::Double(number) => output.put_f64(*number),
            Value::Decimal32(bytes) => output.put_slice(bytes),
            Value::Decimal64(bytes) => output.put_slice(bytes),
            Value::Decimal128(bytes) | Value::Uuid(bytes) => output.put_slice(bytes),
            Value::Char(character) => output.put_u32((*character).into()),
            Value::Binary(contents) => write::variable_element(long, contents, output),
            Value::String(text) | Value::Symbol(text) => {
                write::variable_element(long, text.as_bytes(), output);
            }
            Value::Map(entries) => write::compound_element(entries.len() * 2, output, |output| {
                encode_entries(entries, output);
            }),
            Value::List(elements) | Value::Array(elements) => {
                write::compound_element(elements.len(), output, |output| {
                    match ElementType::common(elements) {
                        Some(inner) if self == Self::Code(format::ARRAY_32) => {
                            inner.encode_array_contents(elements, output);
                        }
                        _ => elements.iter().for_each(|element| element.encode(output)),
                    }
                });
            }
            Value::Described(described) => self.encode_described(described, output),
        }
    }

    fn encode_described(self, described: &Described, output: &mut BytesMut) {
        if let Self::Described(_, model) = self {
            Self::of(model).encode(&described.value, output);
        }
    }
}
