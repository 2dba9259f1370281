//! Decoding any value into [`Value`]. Recursion is bounded by [`Value::DEPTH_MAX`], memory by the input and
//! [`Value::ELEMENTS_MAX`].

use bytes::{Buf, Bytes};

use super::budget::Budget;
use super::code::format;
use super::read::{Reader, Result, boolean_octet, unexpected, utf8};
use super::{DecodeError, Fields, Str, Value, write};

/// Bytes of a descriptor that count as one more element.
const DESCRIPTOR_BYTES_PER_ELEMENT: u32 = 16;

impl Value {
    /// Reads one value from the front of `input`; binaries are slices of it.
    ///
    /// # Errors
    /// [`DecodeError`] on anything malformed, too deep, or longer than the input.
    pub fn decode(input: &mut Bytes) -> Result<Self> {
        let mut reader = Reader::new(input);
        let value = reader.value()?;
        let length = reader.position();
        input.advance(length);
        Ok(value)
    }
}

impl Reader<'_> {
    /// Any value, not nested in another.
    pub(super) fn value(&mut self) -> Result<Value> {
        self.budget = Budget::VALUE;
        self.nested(0)
    }

    /// The next of several values that have the limits of one together.
    pub(super) fn further_value(&mut self) -> Result<Value> {
        self.nested(0)
    }

    /// A map with symbol or string keys.
    pub(super) fn fields(&mut self) -> Result<Fields> {
        self.map_of(|reader| Ok(Str::from(reader.text()?)))
    }

    /// A map with any keys, in order.
    pub(super) fn entries(&mut self) -> Result<Vec<(Value, Value)>> {
        self.map_of(|reader| reader.nested(1))
    }

    /// Symbols as an array, a list, or a single one (part 1.4, `multiple`).
    pub(super) fn symbols(&mut self) -> Result<Vec<Str>> {
        self.budget = Budget::VALUE;
        match self.peek() {
            Some(format::ARRAY_8 | format::ARRAY_32) => {
                let code = self.byte()?;
                let (mut inner, count) = self.compound(code)?;
                if count == 0 && inner.is_empty() {
                    return Ok(Vec::new());
                }
                let element_code = inner.byte()?;
                inner.reserve_count(count)?;
                let symbols = (0..count).map(|_| inner.text_of(element_code).map(Str::from)).collect();
                self.leave(&inner).and(symbols)
            }
            Some(format::LIST_0 | format::LIST_8 | format::LIST_32) => match self.nested(0)? {
                Value::List(elements) => elements.into_iter().map(into_text).collect(),
                _ => Ok(Vec::new()),
            },
            _ => Ok(vec![self.text()?.into()]),
        }
    }

    fn map_of<K>(&mut self, key: impl Fn(&mut Self) -> Result<K>) -> Result<Vec<(K, Value)>> {
        self.budget = Budget::VALUE;
        let code = self.byte()?;
        if !matches!(code, format::MAP_8 | format::MAP_32) {
            return Err(unexpected("a map", code));
        }
        self.map_contents(code, 1, key)
    }

    /// One value nested in `depth` others.
    fn nested(&mut self, depth: usize) -> Result<Value> {
        let code = self.byte()?;
        self.value_of(code, depth)
    }

    /// The value after its constructor.
    fn value_of(&mut self, code: u8, depth: usize) -> Result<Value> {
        match code {
            format::DESCRIBED => {
                let depth = deeper(depth)?;
                let descriptor = self.value_descriptor()?;
                Ok(Value::described(descriptor, self.nested(depth)?))
            }
            format::LIST_0 => Ok(Value::List(Vec::new())),
            format::LIST_8 | format::LIST_32 => self.list_contents(code, deeper(depth)?).map(Value::List),
            format::MAP_8 | format::MAP_32 => {
                let depth = deeper(depth)?;
                self.map_contents(code, depth, |reader| reader.nested(depth)).map(Value::Map)
            }
            format::ARRAY_8 | format::ARRAY_32 => self.array_contents(code, deeper(depth)?).map(Value::Array),
            _ => self.primitive(code),
        }
    }

    /// A symbol or an unsigned long; the specification reserves all other types (part 1.2).
    pub(super) fn value_descriptor(&mut self) -> Result<Value> {
        match self.byte()? {
            code @ (format::ULONG_0
            | format::SMALL_ULONG
            | format::ULONG
            | format::SYMBOL_8
            | format::SYMBOL_32) => self.primitive(code),
            code => Err(unexpected("a symbol or ulong as descriptor", code)),
        }
    }

    fn list_contents(&mut self, code: u8, depth: usize) -> Result<Vec<Value>> {
        let (mut inner, count) = self.compound(code)?;
        let mut elements = Vec::with_capacity(inner.reserve_count(count)?);
        for _ in 0..count {
            elements.push(inner.nested(depth)?);
        }
        self.leave(&inner)?;
        Ok(elements)
    }

    /// `depth` counts the map itself.
    fn map_contents<K>(
        &mut self,
        code: u8,
        depth: usize,
        key: impl Fn(&mut Self) -> Result<K>,
    ) -> Result<Vec<(K, Value)>> {
        let (mut inner, count) = self.compound(code)?;
        if count % 2 != 0 {
            return Err(DecodeError::new("a map with a key without value"));
        }
        let mut entries = Vec::with_capacity(inner.reserve_count(count)? / 2);
        for _ in 0..count / 2 {
            let key = key(&mut inner)?;
            entries.push((key, inner.nested(depth)?));
        }
        self.leave(&inner)?;
        Ok(entries)
    }

    /// An empty array may lack its constructor, as serde_amqp writes it.
    fn array_contents(&mut self, code: u8, depth: usize) -> Result<Vec<Value>> {
        let (mut inner, count) = self.compound(code)?;
        if count == 0 && inner.is_empty() {
            return Ok(Vec::new());
        }
        let mut element_depth = depth;
        let mut descriptors = Vec::new();
        let mut element_code = inner.byte()?;
        while element_code == format::DESCRIBED {
            element_depth = deeper(element_depth)?;
            let descriptor_start = inner.position();
            descriptors.push(inner.value_descriptor()?);
            inner.charge_copies(count, descriptor_start)?;
            element_code = inner.byte()?;
        }
        let capacity = inner.reserve_array(count, element_code)?;
        let mut elements = Vec::with_capacity(capacity);
        for _ in 0..count {
            let element = inner.value_of(element_code, element_depth)?;
            let wrap = |value, descriptor: &Value| Value::described(descriptor.clone(), value);
            elements.push(descriptors.iter().rev().fold(element, wrap));
        }
        self.leave(&inner)?;
        Ok(elements)
    }

    /// Charges a number of elements that have at least one byte each, and returns it as a capacity.
    fn reserve_count(&mut self, count: u32) -> Result<usize> {
        let count_bytes = usize::try_from(count).unwrap_or(usize::MAX);
        if count_bytes > self.remaining() {
            return Err(DecodeError::new("a count larger than the data"));
        }
        self.budget.charge(count)?;
        Ok(count_bytes)
    }

    /// Charges the copies of an array's descriptor, one for each element. It began at `start` and ends at the current
    /// position.
    pub(super) fn charge_copies(&mut self, count: u32, start: usize) -> Result<()> {
        let descriptor_bytes = write::length_32(self.position() - start);
        self.budget.charge(count.saturating_mul(1 + descriptor_bytes / DESCRIPTOR_BYTES_PER_ELEMENT))
    }

    /// Charges the elements of an array.
    pub(super) fn reserve_array(&mut self, count: u32, element_code: u8) -> Result<usize> {
        if !format::is_known(element_code) {
            return Err(unexpected("an array element", element_code));
        }
        if !matches!(element_code, format::NULL..=format::LIST_0) {
            return self.reserve_count(count);
        }
        self.budget.charge_zero_width(count)?;
        self.budget.charge(count)?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Takes the budget back from a reader of a part, which must have read all of it.
    pub(super) fn leave(&mut self, inner: &Self) -> Result<()> {
        self.budget = inner.budget;
        if inner.is_empty() { Ok(()) } else { Err(DecodeError::new("a size larger than the contents")) }
    }

    fn primitive(&mut self, code: u8) -> Result<Value> {
        Ok(match code {
            format::NULL => Value::Null,
            format::TRUE => Value::Bool(true),
            format::FALSE => Value::Bool(false),
            format::BOOLEAN => Value::Bool(boolean_octet(self.byte()?)?),
            format::UBYTE => Value::UByte(self.byte()?),
            format::USHORT => Value::UShort(u16::from_be_bytes(self.fixed()?)),
            format::UINT_0 => Value::UInt(0),
            format::SMALL_UINT => Value::UInt(self.byte()?.into()),
            format::UINT => Value::UInt(u32::from_be_bytes(self.fixed()?)),
            format::ULONG_0 => Value::ULong(0),
            format::SMALL_ULONG => Value::ULong(self.byte()?.into()),
            format::ULONG => Value::ULong(u64::from_be_bytes(self.fixed()?)),
            format::BYTE => Value::Byte(i8::from_be_bytes(self.fixed()?)),
            format::SHORT => Value::Short(i16::from_be_bytes(self.fixed()?)),
            format::SMALL_INT => Value::Int(i8::from_be_bytes(self.fixed()?).into()),
            format::INT => Value::Int(i32::from_be_bytes(self.fixed()?)),
            format::SMALL_LONG => Value::Long(i8::from_be_bytes(self.fixed()?).into()),
            format::LONG => Value::Long(i64::from_be_bytes(self.fixed()?)),
            _ => return self.wide_primitive(code),
        })
    }

    fn wide_primitive(&mut self, code: u8) -> Result<Value> {
        Ok(match code {
            format::FLOAT => Value::Float(f32::from_be_bytes(self.fixed()?)),
            format::DOUBLE => Value::Double(f64::from_be_bytes(self.fixed()?)),
            format::DECIMAL_32 => Value::Decimal32(self.fixed()?),
            format::DECIMAL_64 => Value::Decimal64(self.fixed()?),
            format::DECIMAL_128 => Value::Decimal128(self.fixed()?),
            format::CHAR => Value::Char(character(self.fixed()?)?),
            format::TIMESTAMP => Value::Timestamp(i64::from_be_bytes(self.fixed()?)),
            format::UUID => Value::Uuid(self.fixed()?),
            format::BINARY_8 | format::BINARY_32 => {
                let contents = self.sized(code)?;
                Value::Binary(self.share(contents))
            }
            format::STRING_8 | format::STRING_32 => Value::String(utf8(self.sized(code)?)?.into()),
            format::SYMBOL_8 | format::SYMBOL_32 => Value::Symbol(utf8(self.sized(code)?)?.into()),
            _ => return Err(unexpected("a value", code)),
        })
    }
}

/// A UTF-32BE code point.
pub(super) fn character(bytes: [u8; 4]) -> Result<char> {
    char::from_u32(u32::from_be_bytes(bytes)).ok_or_else(|| DecodeError::new("a char that is not Unicode"))
}

/// One nesting level deeper.
pub(super) fn deeper(depth: usize) -> Result<usize> {
    if depth < Value::DEPTH_MAX { Ok(depth + 1) } else { Err(too_deep()) }
}

#[cold]
fn too_deep() -> DecodeError {
    DecodeError::new(format!("values nested deeper than {}", Value::DEPTH_MAX))
}

fn into_text(value: Value) -> Result<Str> {
    match value {
        Value::String(text) | Value::Symbol(text) => Ok(text),
        _ => Err(DecodeError::new("expected a list of symbols")),
    }
}
