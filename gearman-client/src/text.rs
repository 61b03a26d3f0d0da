//! Numbers in the protocol's format.

pub(crate) use queue_core::decimal;

/// A number's decimal digits, without an allocation.
pub(crate) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    pub(crate) fn new(mut number: u64) -> Self {
        let mut digits = [b'0'; 20];
        let mut start = digits.len();
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            start = at;
            if number == 0 {
                break;
            }
        }
        Decimal { digits, start }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for good in [0, 1, 10, 4_294_967_295, u64::MAX] {
            assert_eq!(Decimal::new(good).as_bytes(), good.to_string().as_bytes());
            assert_eq!(decimal(Decimal::new(good).as_bytes()), Some(good));
        }
    }
}
