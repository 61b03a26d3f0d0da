//! The public key of an X.509 certificate of any version: what webpki, which wants version 3, does not give away.

use rustls::pki_types::CertificateDer;

/// A certificate's public key (`SubjectPublicKeyInfo` of RFC 5280).
pub(super) struct PublicKey<'a> {
    /// The whole, in DER.
    pub(super) info: &'a [u8],
    /// The contents of the identifier of its algorithm.
    pub(super) algorithm: &'a [u8],
    /// The key itself.
    pub(super) key: &'a [u8],
}

impl<'a> PublicKey<'a> {
    /// `None` if this is no certificate.
    pub(super) fn of(certificate: &'a CertificateDer<'_>) -> Option<Self> {
        let (certificate, _) = Element::first(certificate)?;
        let (signed, _) = Element::first(certificate.is(SEQUENCE)?)?;
        let (first, mut rest) = Element::first(signed.is(SEQUENCE)?)?;
        // Version 1 is the default, and not written.
        let has_version = first.tag == VERSION;
        // The serial number, the algorithm of the signature, the issuer, the validity and the subject.
        for _ in 0..4 + usize::from(has_version) {
            (_, rest) = Element::first(rest)?;
        }
        let (info, _) = Element::first(rest)?;
        let (algorithm, rest) = Element::first(info.is(SEQUENCE)?)?;
        let (key, _) = Element::first(rest)?;
        // The first byte is the number of unused bits.
        let key = key.is(BIT_STRING)?.strip_prefix(&[0])?;
        Some(PublicKey { info: info.whole, algorithm: algorithm.is(SEQUENCE)?, key })
    }
}

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
const VERSION: u8 = 0xa0;

/// One value in DER.
struct Element<'a> {
    tag: u8,
    contents: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Element<'a> {
    /// The first value, and what follows it.
    fn first(input: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (&[tag, length], mut rest) = input.split_first_chunk()?;
        let mut length = usize::from(length);
        if length >= 0x80 {
            let (digits, after) = rest.split_at_checked(length - 0x80)?;
            let is_sane = (1..=4).contains(&digits.len());
            let digits = is_sane.then_some(digits)?.iter();
            length = digits.fold(0, |length, digit| length << 8 | usize::from(*digit));
            rest = after;
        }
        let (contents, rest) = rest.split_at_checked(length)?;
        let (whole, _) = input.split_at_checked(input.len() - rest.len())?;
        Some((Element { tag, contents, whole }, rest))
    }

    /// The contents of a value of this type.
    fn is(&self, tag: u8) -> Option<&'a [u8]> {
        (self.tag == tag).then_some(self.contents)
    }
}
