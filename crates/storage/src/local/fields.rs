//! Reading and writing of consecutive little-endian fields.

/// The unread rest of encoded bytes. Every `take` method returns `None` past the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }
}

/// Appends little-endian fields.
pub(super) trait Append {
    fn append_u8(&mut self, value: u8);
    fn append_u32(&mut self, value: u32);
    fn append_u64(&mut self, value: u64);
}

impl Append for Vec<u8> {
    fn append_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn append_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn append_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}
