//! The subject of a client's certificate, as text for a log.

/// The most bytes of a subject that are kept.
pub(crate) const SUBJECT_BYTES_MAX: usize = 256;

const VERSION: u8 = 0xa0;

/// Types of attributes that have a short name (RFC 4514 §3), as DER has them.
const NAMES: [(&[u8], &str); 7] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
];

/// Returns the subject of a certificate (RFC 5280 §4.1) as RFC 4514 writes it, the most specific
/// part first. It is cut at [`SUBJECT_BYTES_MAX`]. Bytes are those of the certificate, so a log
/// must escape them.
pub(crate) fn subject(certificate: &[u8]) -> Option<Box<[u8]>> {
    let mut der = certificate;
    let mut certificate = element(&mut der)?;
    let mut rest = element(&mut certificate)?;
    if rest.first() == Some(&VERSION) {
        element(&mut rest)?;
    }
    // Serial number, algorithm of the signature, issuer and time.
    for _ in 0..4 {
        element(&mut rest)?;
    }
    let mut names = element(&mut rest)?;
    let mut parts = Vec::new();
    while !names.is_empty() {
        parts.push(element(&mut names)?);
    }
    let mut out = Vec::new();
    for mut part in parts.into_iter().rev() {
        let mut separator = b',';
        while !part.is_empty() {
            let mut attribute = element(&mut part)?;
            let kind = element(&mut attribute)?;
            let value = element(&mut attribute)?;
            if !out.is_empty() {
                out.push(separator);
            }
            separator = b'+';
            write_attribute(kind, value, &mut out);
        }
    }
    out.truncate(SUBJECT_BYTES_MAX);
    Some(out.into_boxed_slice())
}

fn write_attribute(kind: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match NAMES.iter().find(|(known, _)| *known == kind) {
        Some((_, name)) => out.extend_from_slice(name.as_bytes()),
        None => write_identifier(kind, out),
    }
    out.push(b'=');
    for &byte in value {
        if b",+\"\\<>;=".contains(&byte) {
            out.push(b'\\');
        }
        out.push(byte);
    }
}

/// Appends an object identifier in decimal, as in `1.2.840` (X.690 §8.19).
fn write_identifier(der: &[u8], out: &mut Vec<u8>) {
    let (mut value, mut is_first) = (0_u64, true);
    for byte in der {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        let text = if is_first {
            let root = (value / 40).min(2);
            format!("{root}.{}", value - root * 40)
        } else {
            format!(".{value}")
        };
        out.extend_from_slice(text.as_bytes());
        (value, is_first) = (0, false);
    }
}

/// Splits off the first element of DER, and returns its contents. None of a client's chain has more
/// than 64 KiB.
fn element<'d>(der: &mut &'d [u8]) -> Option<&'d [u8]> {
    let [_, length, rest @ ..] = *der else { return None };
    let (len, rest) = match *length {
        0..=0x7f => (usize::from(*length), rest),
        0x81 => rest.split_first().map(|(len, rest)| (usize::from(*len), rest))?,
        0x82 => {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*len)), rest)
        }
        _ => return None,
    };
    let (body, rest) = rest.split_at_checked(len)?;
    *der = rest;
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["client.example".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn text(names: &[(DnType, &str)]) -> String {
        String::from_utf8(subject(&certificate(names)).unwrap().into_vec()).unwrap()
    }

    #[test]
    fn the_most_specific_part_is_first() {
        let names = [
            (DnType::CountryName, "DE"),
            (DnType::OrganizationName, "Example, Inc."),
            (DnType::OrganizationalUnitName, "a=b+c"),
            (DnType::CommonName, "Kl\u{e4}re"),
        ];
        assert_eq!(text(&names), "CN=Kl\u{e4}re,OU=a\\=b\\+c,O=Example\\, Inc.,C=DE");
        assert_eq!(text(&[]), "");
        let mail = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        assert_eq!(text(&[(mail, "a@b")]), "1.2.840.113549.1.9.1=a@b");
        let long = "x".repeat(1_000);
        assert_eq!(text(&[(DnType::CommonName, &long)]).len(), SUBJECT_BYTES_MAX);
    }

    #[test]
    fn parts_and_altered_bytes_have_no_fault() {
        let whole = certificate(&[(DnType::CommonName, "client")]);
        assert_eq!(subject(&[]), None);
        for at in 0..whole.len() {
            let _ = subject(&whole[..at]);
            for value in [0, 0x7f, 0x80, 0x82, 0xff] {
                let mut altered = whole.clone();
                altered[at] = value;
                let found = subject(&altered);
                assert!(found.is_none_or(|found| found.len() <= SUBJECT_BYTES_MAX));
            }
        }
    }
}
