//! Parses texts of a fixed format byte by byte, without allocation.

/// The unread rest of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scan<'a>(&'a [u8]);

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self(text.as_bytes())
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Consumes a byte if it is next.
    pub(super) fn take(&mut self, wanted: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == wanted => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    pub(super) fn expect(&mut self, wanted: u8) -> Option<()> {
        self.take(wanted).then_some(())
    }

    /// A number of exactly `count` digits.
    pub(super) fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        let number = digits.iter().try_fold(0_i64, |number, byte| append(number, *byte))?;
        self.0 = rest;
        Some(number)
    }

    /// A number of at least one digit.
    pub(super) fn number(&mut self) -> Option<i64> {
        self.digits(self.digits_ahead().max(1))
    }

    /// The decimal fraction of seconds, in ticks of 100 ns; further digits are cut off.
    pub(super) fn fraction_ticks(&mut self) -> Option<i64> {
        let count = self.digits_ahead();
        let ticks = self.digits(count.clamp(1, 7))?;
        let (_, rest) = self.0.split_at_checked(count.saturating_sub(7))?;
        self.0 = rest;
        Some((count..7).fold(ticks, |ticks, _| ticks * 10))
    }

    fn digits_ahead(&self) -> usize {
        self.0.iter().take_while(|byte| byte.is_ascii_digit()).count()
    }
}

fn append(number: i64, digit: u8) -> Option<i64> {
    let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
    number.checked_mul(10)?.checked_add(digit)
}
