//! Ranges of addresses.
use core::{fmt, net::IpAddr, str::FromStr};

/// All addresses that begin with the same bits, as in `10.0.0.0/8`. An IPv4-mapped address is the
/// IPv4 address that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The first address: all bits behind the prefix are 0.
    first: IpAddr,
    bits: u8,
}

/// Reason why a text is no [`Prefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrefixFault {
    /// No address, or no number of bits behind the slash.
    NoPrefix,
    /// More bits than the address has.
    TooManyBits,
    /// The address has bits behind the prefix; this prefix has none.
    BitsBehind(Prefix),
}

impl fmt::Display for PrefixFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPrefix => {
                f.write_str("not an address or a prefix; write it as in 10.1.2.3 or fd00::/8")
            }
            Self::TooManyBits => {
                f.write_str("longer than the address; IPv4 has 32 bits and IPv6 128")
            }
            Self::BitsBehind(prefix) => {
                write!(f, "the address goes on behind the prefix; write it as {prefix}")
            }
        }
    }
}

impl FromStr for Prefix {
    type Err = PrefixFault;

    fn from_str(text: &str) -> Result<Self, PrefixFault> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| PrefixFault::NoPrefix)?;
        let bits_max = bits_of(address);
        let bits = match bits {
            None => bits_max,
            Some(bits) if bits.starts_with('+') => return Err(PrefixFault::NoPrefix),
            Some(bits) => bits.parse().map_err(|_| PrefixFault::NoPrefix)?,
        };
        if bits > bits_max {
            return Err(PrefixFault::TooManyBits);
        }
        let prefix = Self { first: cut(address, bits), bits }.canonical();
        let is_first = cut(address, bits) == address;
        if is_first { Ok(prefix) } else { Err(PrefixFault::BitsBehind(prefix)) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl Prefix {
    /// True if the address is one of these.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && cut(address, self.bits) == self.first
    }

    /// A prefix of IPv4-mapped addresses as one of IPv4.
    fn canonical(self) -> Self {
        match self.bits.checked_sub(96).zip(as_mapped(self.first)) {
            Some((bits, first)) => Self { first, bits },
            None => self,
        }
    }
}

/// The IPv4 address that an IPv6 address stands for.
fn as_mapped(address: IpAddr) -> Option<IpAddr> {
    let canonical = address.to_canonical();
    (address.is_ipv6() && canonical.is_ipv4()).then_some(canonical)
}

const fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The address with only its first `bits` bits.
fn cut(address: IpAddr, bits: u8) -> IpAddr {
    let behind = u32::from(bits_of(address) - bits);
    // A shift by all bits of the number is none.
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

/// True if the address is in one of these prefixes.
#[must_use]
pub fn any_contains(prefixes: &[Prefix], address: IpAddr) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn prefixes_contain_what_begins_with_them() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", &["10.0.0.0", "10.255.255.255", "::ffff:10.1.1.1"][..], "11.0.0.0"),
            ("10.1.2.3", &["10.1.2.3"], "10.1.2.2"),
            ("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], "::1"),
            ("192.0.2.128/25", &["192.0.2.128", "192.0.2.255"], "192.0.2.127"),
            ("::/0", &["::", "ffff::1"], "10.0.0.1"),
            ("fd00::/8", &["fd00::", "fdff::1"], "fe00::"),
            ("::1", &["::1"], "::2"),
            ("2001:db8::/33", &["2001:db8:7fff::1"], "2001:db8:8000::"),
            ("::ffff:10.0.0.0/104", &["10.1.1.1", "::ffff:10.0.0.0"], "11.0.0.0"),
        ] {
            let prefix: Prefix = text.parse().unwrap();
            for address in inside {
                assert!(prefix.contains(address.parse().unwrap()), "{text} {address}");
            }
            assert!(!prefix.contains(outside.parse().unwrap()), "{text} {outside}");
            assert_eq!(prefix.to_string().parse(), Ok(prefix), "{text}");
        }
    }

    #[test]
    fn what_is_no_prefix_is_explained() {
        for text in
            ["", "/8", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/-1", "10/8", "localhost", "a/1"]
        {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixFault::NoPrefix), "{text}");
        }
        for text in ["10.0.0.0/33", "::/129"] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixFault::TooManyBits), "{text}");
        }
        for (text, instead) in
            [("10.1.2.3/8", "10.0.0.0/8"), ("fd00::1/8", "fd00::/8"), ("1.2.3.4/0", "0.0.0.0/0")]
        {
            let fault = text.parse::<Prefix>().unwrap_err();
            assert!(matches!(fault, PrefixFault::BitsBehind(_)), "{text}");
            assert!(fault.to_string().ends_with(instead), "{fault}");
        }
    }
}
