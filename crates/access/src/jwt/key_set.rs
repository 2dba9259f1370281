//! Sets of public keys as published by issuers (RFC 7517), and verification with them.

use std::fmt;

use ring::digest;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;

use super::bytes;
use crate::Denied;

/// Most keys in a set: issuers have a handful, and each may have to be tried.
const KEYS_MAX: usize = 64;

/// Public keys of one issuer; unsupported kinds of keys are left out.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct KeySet(Vec<Key>);

/// Identifies a key.
pub(crate) type Thumbprint = [u8; 32];

#[derive(Clone, PartialEq, Eq)]
struct Key {
    id: Option<Box<str>>,
    /// The only algorithm allowed for the key, if the issuer specifies one.
    algorithm: Option<Box<str>>,
    material: Material,
    thumbprint: Thumbprint,
}

#[derive(Clone, PartialEq, Eq)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// Uncompressed points.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// The reason why a set of keys can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is not a JSON Web Key Set.
    #[error("is not a JSON Web Key Set: {0}")]
    Malformed(String),
    /// It has more keys than plausible.
    #[error("has more than {KEYS_MAX} keys")]
    TooMany,
    /// It contains no usable key.
    #[error("has no public key for RS256 to PS512 (2048 to 8192 bits), ES256, ES384 or EdDSA")]
    Empty,
}

/// The JSON format; unknown members are ignored.
#[derive(Deserialize)]
struct JsonWebKeySet {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct JsonWebKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Reads a JSON Web Key Set.
    ///
    /// # Errors
    /// [`KeySetError`], whose text continues a sentence that starts with the source of the set.
    pub fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        let malformed = |error: serde_json::Error| KeySetError::Malformed(position(&error));
        let set: JsonWebKeySet = serde_json::from_slice(text).map_err(malformed)?;
        if set.keys.len() > KEYS_MAX {
            return Err(KeySetError::TooMany);
        }
        // RFC 7517 §5: unsupported keys are ignored.
        let read = |key| serde_json::from_value::<JsonWebKey>(key).ok().and_then(Key::read);
        let keys: Vec<Key> = set.keys.into_iter().filter_map(read).collect();
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self(keys)) }
    }

    /// Number of usable keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the set has no usable key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the set (still) contains the key.
    pub(crate) fn contains(&self, thumbprint: &Thumbprint) -> bool {
        self.0.iter().any(|key| key.thumbprint == *thumbprint)
    }

    /// Returns the key that made the signature. A token without a key id is tried with every key, a key without id is
    /// tried with every token.
    ///
    /// # Errors
    /// [`Denied::UnknownKey`] when no key has the token's key id or the token has none; fetching the issuer's keys
    /// again may help.
    pub(super) fn verify(
        &self,
        algorithm: &str,
        id: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<Thumbprint, Denied> {
        if !ALGORITHMS.contains(&algorithm) {
            return Err(Denied::Malformed("its algorithm is none of RS, PS, ES256, ES384 and EdDSA"));
        }
        let matches = |key: &&Key| match (id, key.id.as_deref()) {
            (Some(asked), Some(id)) => asked == id,
            _ => true,
        };
        let found = self.0.iter().filter(matches).find(|key| key.verifies(algorithm, signed, signature));
        if let Some(key) = found {
            return Ok(key.thumbprint);
        }
        let is_known = id.is_some_and(|id| self.0.iter().any(|key| key.id.as_deref() == Some(id)));
        Err(if is_known { Denied::Signature } else { Denied::UnknownKey })
    }
}

/// The position only: the text of the parser's error may quote its input.
fn position(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

/// Keys are public, but not meant for logs.
impl fmt::Debug for KeySet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeySet({} keys)", self.0.len())
    }
}

/// Algorithms accepted for tokens: none without a signature, none with a shared secret.
const ALGORITHMS: [&str; 9] =
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

impl Key {
    fn read(key: JsonWebKey) -> Option<Self> {
        let verifies = key.usage.as_deref().is_none_or(|usage| usage == "sig")
            && key.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|one| one == "verify"));
        if !verifies {
            return None;
        }
        let field = |text: &Option<String>| bytes(text.as_deref()?.trim_end_matches('='));
        let point = |bytes_each: usize| {
            let (x, y) = (field(&key.x)?, field(&key.y)?);
            let fits = x.len() == bytes_each && y.len() == bytes_each;
            fits.then(|| [&[4][..], &x, &y].concat())
        };
        let material = match (key.kty.as_str(), key.crv.as_deref()) {
            ("RSA", _) => rsa(field(&key.n)?, field(&key.e)?)?,
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(field(&key.x).filter(|key| key.len() == 32)?),
            _ => return None,
        };
        let thumbprint = material.thumbprint();
        let (id, algorithm) = (key.kid.map(Into::into), key.alg.map(Into::into));
        Some(Self { id, algorithm, material, thumbprint })
    }

    fn verifies(&self, algorithm: &str, signed: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.as_deref().is_some_and(|only| only != algorithm) {
            return false;
        }
        let point = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(signed, signature).is_ok()
        };
        match (algorithm, &self.material) {
            ("ES256", Material::P256(key)) => point(&signature::ECDSA_P256_SHA256_FIXED, key),
            ("ES384", Material::P384(key)) => point(&signature::ECDSA_P384_SHA384_FIXED, key),
            ("EdDSA", Material::Ed25519(key)) => point(&signature::ED25519, key),
            (_, Material::Rsa { modulus, exponent }) => {
                let parameters = match algorithm {
                    "RS256" => &signature::RSA_PKCS1_2048_8192_SHA256,
                    "RS384" => &signature::RSA_PKCS1_2048_8192_SHA384,
                    "RS512" => &signature::RSA_PKCS1_2048_8192_SHA512,
                    "PS256" => &signature::RSA_PSS_2048_8192_SHA256,
                    "PS384" => &signature::RSA_PSS_2048_8192_SHA384,
                    "PS512" => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => return false,
                };
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, signed, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// Removes leading zeros, which some issuers write and ring refuses.
fn rsa(modulus: Vec<u8>, exponent: Vec<u8>) -> Option<Material> {
    let trimmed = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
    let (modulus, exponent) = (trimmed(modulus), trimmed(exponent));
    (256..=1024).contains(&modulus.len()).then_some(Material::Rsa { modulus, exponent })
}

impl Material {
    fn thumbprint(&self) -> Thumbprint {
        let (kind, first, second): (&[u8], &[u8], &[u8]) = match self {
            Self::Rsa { modulus, exponent } => (b"RSA", modulus, exponent),
            Self::P256(key) => (b"P-256", key, b""),
            Self::P384(key) => (b"P-384", key, b""),
            Self::Ed25519(key) => (b"Ed25519", key, b""),
        };
        let mut context = digest::Context::new(&digest::SHA256);
        for part in [kind, first, second] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut thumbprint = Thumbprint::default();
        thumbprint.copy_from_slice(context.finish().as_ref());
        thumbprint
    }
}
