//! Signatures of statements: Ed25519 keys in files of one line, over the canonical text of a document.

use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use rounds_algorithms::hexadecimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use crate::files::NewFiles;

/// The first word of a file of a secret key, and of a public one.
const KINDS: [&str; 2] = ["rounds-secret-key", "rounds-public-key"];
/// The beginning of every signed text, so that no signature for another purpose is one of a statement.
const CONTEXT: &str = "rounds statement\n";

/// A key that cannot be made or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages describe the fields")]
pub enum KeyError {
    #[error("`{argument} {}`: the key cannot be read: {source}; `rounds keygen FILE` makes a pair of keys", path.display())]
    Unreadable { argument: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "`{argument} {}`: it holds no {kind} key of `rounds keygen FILE`, which writes the secret key to FILE and the public one to \
         FILE.pub",
        path.display()
    )]
    Foreign { argument: &'static str, path: PathBuf, kind: &'static str },
    #[error("`sign {}`: others may read or change this secret key; make a new one by `rounds keygen FILE`", path.display())]
    Open { path: PathBuf },
    #[error("{}: the key cannot be written: {source}; a key is never replaced, name another file", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("the generator of the operating system gives no key")]
    System(#[from] getrandom::Error),
}

/// A signature with the public key that it is checked with, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The public key.
    pub key: String,
    /// The signature.
    pub ed25519: String,
}

/// The public key of a signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

/// The secret key of a signer. It is zeroed when it is dropped.
pub(crate) struct SecretKey(SigningKey);

/// Makes a pair of keys: the secret one in the file `path` (mode 0600), the public one beside it in `path.pub`, whose path is returned.
///
/// # Errors
/// Files that are there already or cannot be written; no random bits from the system.
pub fn generate(path: &Path) -> Result<PathBuf, KeyError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    let public = path.with_added_extension("pub");
    let key = SigningKey::from_bytes(&seed).verifying_key();
    let unwritable = |path: &Path, source| KeyError::Unwritable { path: path.into(), source };
    // Both or none.
    let mut files = NewFiles::default();
    for (path, mode, kind, key) in [(path, 0o600, KINDS[0], &*seed), (&public, 0o644, KINDS[1], key.as_bytes())] {
        let line = Zeroizing::new(format!("{kind} {}\n", Zeroizing::new(hexadecimal(key)).as_str()));
        let written = files.create_with_mode(path, mode).and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|source| unwritable(path, source))?;
    }
    files.keep().map_err(|source| unwritable(path, source))?;
    Ok(public)
}

/// The bytes of a key of a kind, in the file that an argument names.
fn read(argument: &'static str, path: &Path, kind: &'static str) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let unreadable = |source| KeyError::Unreadable { argument, path: path.into(), source };
    let text = Zeroizing::new(std::fs::read(path).map_err(unreadable)?);
    let name = if kind == KINDS[0] { "secret" } else { "public" };
    let foreign = || KeyError::Foreign { argument, path: path.into(), kind: name };
    let line = std::str::from_utf8(&text).ok().and_then(|text| text.trim_end().strip_prefix(kind)?.strip_prefix(' '));
    line.and_then(bytes).map(Zeroizing::new).ok_or_else(foreign)
}

/// The bytes of lower-case hexadecimal digits.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let byte = |at: usize| digits.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: [u8; N] = (0..N).map(byte).collect::<Option<Vec<u8>>>()?.try_into().ok()?;
    (hexadecimal(&bytes) == digits).then_some(bytes)
}

/// The text of a document that is signed: without its signature, keys in order.
fn signed(document: &Value) -> Vec<u8> {
    let mut document = document.clone();
    document.as_object_mut().and_then(|document| document.remove("signature"));
    document.sort_all_objects();
    format!("{CONTEXT}{document}").into_bytes()
}

impl SecretKey {
    pub(crate) fn read(path: &Path) -> Result<Self, KeyError> {
        let key = read("sign", path, KINDS[0])?;
        let others = |file: std::fs::Metadata| file.mode() & 0o077;
        match std::fs::metadata(path).map(others) {
            Ok(0) => Ok(Self(SigningKey::from_bytes(&key))),
            _ => Err(KeyError::Open { path: path.into() }),
        }
    }

    pub(crate) fn sign(&self, document: &Value) -> Signature {
        let key = hexadecimal(self.0.verifying_key().as_bytes());
        Signature { key, ed25519: hexadecimal(&self.0.sign(&signed(document)).to_bytes()) }
    }
}

impl PublicKey {
    /// Reads the file of a public key.
    ///
    /// # Errors
    /// A file that cannot be read or holds no public key.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let foreign = |_| KeyError::Foreign { argument: "verify", path: path.into(), kind: "public" };
        VerifyingKey::from_bytes(&*read("verify", path, KINDS[1])?).map(Self).map_err(foreign)
    }
}

impl Signature {
    /// The signer of `document`, if this is its signature.
    pub(crate) fn signer(&self, document: &Value) -> Option<PublicKey> {
        let key = VerifyingKey::from_bytes(&bytes(&self.key)?).ok()?;
        let signature = ed25519_dalek::Signature::from_bytes(&bytes(&self.ed25519)?);
        key.verify_strict(&signed(document), &signature).is_ok().then_some(PublicKey(key))
    }
}
