//! What is stored to verify a secret: HMAC-SHA256 under the pepper, and argon2id.
//!
//! The HMAC is checked first, in constant time, so that the costly argon2id only runs for a right
//! secret. argon2id protects weak secrets from a thief who has both ledger and pepper; these
//! secrets have 256 bits, so it is a second line of defence.

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// Creates a pepper file of 32 random bytes, mode 0600, synced. Fails if the file exists.
pub fn make_pepper(path: &Path) -> io::Result<()> {
    let mut bytes = Zeroizing::new([0_u8; 32]);
    getrandom::fill(bytes.as_mut()).map_err(io::Error::other)?;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes.as_ref())?;
    file.sync_all()
}

/// The key for the digests that identify named secrets, derived from the pepper. The pepper is 256
/// random bits, created once for the home, readable by its owner only, and kept with the rest of
/// `data/`. No other use of it begins with the same label.
pub fn secret_digest_key(pepper: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    Ok(Zeroizing::new(MacKey::read(pepper)?.mac("par/secret-key/1").to_vec()))
}

/// A 32-byte key of HMAC-SHA256 (RFC 2104), cleared when dropped.
pub(super) struct MacKey(Zeroizing<[u8; 32]>);

impl MacKey {
    /// Reads the pepper file; refuses one that others can read or that has another length.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut file = std::fs::File::open(path)?;
        let meta = file.metadata()?;
        if meta.mode() & 0o077 != 0 {
            return Err(io::Error::other("users other than its owner can read it, expected mode 0600"));
        }
        if meta.len() != 32 {
            return Err(io::Error::other(format!("it has {} bytes, expected 32", meta.len())));
        }
        let mut bytes = Zeroizing::new([0_u8; 32]);
        file.read_exact(bytes.as_mut())?;
        Ok(Self(bytes))
    }

    /// A key that lasts as long as this process.
    pub(super) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        getrandom::fill(bytes.as_mut())?;
        Ok(Self(bytes))
    }

    /// The HMAC of `text`.
    pub(super) fn mac(&self, text: &str) -> [u8; 32] {
        // HMAC takes a key of any length, so this cannot fail.
        Hmac::<Sha256>::new_from_slice(self.0.as_ref()).map_or([0; 32], |mut mac| {
            mac.update(text.as_bytes());
            mac.finalize().into_bytes().into()
        })
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey")
    }
}

/// What is stored of one secret. On the ledger only, in the payload of `key.create`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Verifier {
    /// HMAC-SHA256(pepper, secret).
    pub(super) hmac: [u8; 32],
    /// The PHC string, with its own salt and parameters.
    pub(super) argon2: String,
}

impl Verifier {
    /// Computes both. Takes some 20 ms and 19 MiB: for a blocking thread.
    pub(super) fn make(pepper: &MacKey, secret: &str) -> Result<Self, argon2::password_hash::Error> {
        let argon2 = Argon2::default().hash_password(secret.as_bytes())?.to_string();
        Ok(Self { hmac: pepper.mac(secret), argon2 })
    }

    /// Compares an HMAC in constant time.
    pub(super) fn has_hmac(&self, mac: &[u8; 32]) -> bool {
        self.hmac.ct_eq(mac).into()
    }

    /// Checks a secret by argon2id. Costly: for a blocking thread, after [`Verifier::has_hmac`].
    pub(super) fn has_argon2(&self, secret: &str) -> bool {
        PasswordHash::new(&self.argon2)
            .is_ok_and(|hash| Argon2::default().verify_password(secret.as_bytes(), &hash).is_ok())
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

#[cfg(test)]
mod tests {
    use super::{MacKey, Verifier, make_pepper};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_verifier_knows_its_secret_under_its_pepper() {
        let home = tempfile::tempdir().expect("folder");
        let path = home.path().join("pepper");
        make_pepper(&path).expect("pepper");
        let pepper = MacKey::read(&path).expect("pepper");
        let kept = Verifier::make(&pepper, "right").expect("verifier");
        assert!(kept.argon2.starts_with("$argon2id$v=19$"), "{}", kept.argon2);
        assert!(kept.has_hmac(&pepper.mac("right")) && kept.has_argon2("right"));
        assert!(!kept.has_hmac(&pepper.mac("wrong")) && !kept.has_argon2("wrong"));
        assert!(!kept.has_hmac(&MacKey::random().expect("key").mac("right")));
    }

    #[test]
    fn a_pepper_that_is_open_or_short_is_refused() {
        let home = tempfile::tempdir().expect("folder");
        let path = home.path().join("pepper");
        make_pepper(&path).expect("pepper");
        assert!(make_pepper(&path).is_err(), "an old pepper is never overwritten");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("mode");
        assert!(MacKey::read(&path).is_err());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode");
        std::fs::write(&path, "short").expect("write");
        assert!(MacKey::read(&path).is_err());
    }
}
