//! The certificate of servers whose load is encrypted.

use crate::units::At;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "tls.pem";
/// Subjects of the certificate. wrk checks none.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// Returns the path of a certificate with its key (ECDSA, P-256). It is made once for a directory:
/// all servers of a run show the same one.
pub(super) fn in_directory(directory: &Path) -> Result<PathBuf, String> {
    let path = directory.join(FILE);
    if path.exists() {
        return Ok(path);
    }
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned)).at(&path)?;
    let text = pem("CERTIFICATE", made.cert.der())
        + &pem("PRIVATE KEY", made.signing_key.serialized_der());
    fs::write(&path, text).at(&path)?;
    // Some servers read it as `nobody`.
    fs::set_permissions(&path, Permissions::from_mode(0o644)).at(&path)?;
    Ok(path)
}

/// Formats a section of PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    let mut room = vec![0; der.len().div_ceil(3) * 4];
    let len = STANDARD.encode_slice(der, &mut room).expect("four letters for three bytes");
    let lines: Vec<_> = room[..len].chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::in_directory;
    use crate::folder::Folder;
    use std::fs;

    #[test]
    fn a_directory_keeps_its_certificate() {
        let folder = Folder::new("certificate");
        let path = in_directory(&folder).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for label in ["CERTIFICATE", "PRIVATE KEY"] {
            assert_eq!(text.matches(&format!("-----BEGIN {label}-----\n")).count(), 1, "{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
        assert_eq!(in_directory(&folder).unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "all servers show the same one");
    }
}
