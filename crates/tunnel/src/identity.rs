//! Keys: each end has an Ed25519 key, and knows the fingerprint of the other end's key.
//!
//! TLS 1.3 proves to each end that the peer has its key, by raw public keys (RFC 7250). So no
//! certificate has to be parsed or can expire. No session is resumed and no early data is sent, so
//! a recorded handshake opens nothing.

use crate::Error;
use crate::wire::PROTOCOL;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// An Ed25519 private key (RFC 8032).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// The SHA-256 of a public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// Who may connect.
pub trait Admission: fmt::Debug + Send + Sync {
    /// Whether the client with this key may connect now.
    ///
    /// # Errors
    /// Why it may not.
    fn check(&self, client: &Fingerprint) -> Result<(), Denied>;
}

/// Why a client may not connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Denied {
    /// The key is not known.
    Unknown,
    /// The invitation was revoked.
    Revoked,
    /// The invitation has expired.
    Expired,
}

impl From<Denied> for CertificateError {
    fn from(denied: Denied) -> CertificateError {
        match denied {
            Denied::Unknown => CertificateError::UnknownIssuer,
            Denied::Revoked => CertificateError::Revoked,
            Denied::Expired => CertificateError::Expired,
        }
    }
}

impl Denied {
    /// The denial that ended a handshake, if it was one.
    pub(crate) fn of(error: &CertificateError) -> Option<Denied> {
        let all = [Denied::Unknown, Denied::Revoked, Denied::Expired];
        all.into_iter().find(|&denied| CertificateError::from(denied) == *error)
    }

    /// The denial of an alert that was received (RFC 8446, 6.2).
    pub(crate) fn of_alert(alert: u8) -> Option<Denied> {
        match alert {
            48 => Some(Denied::Unknown),
            44 => Some(Denied::Revoked),
            45 => Some(Denied::Expired),
            _ => None,
        }
    }
}

impl Secret {
    /// A new key.
    ///
    /// # Errors
    /// [`Error::System`] if the system has no randomness.
    pub fn generate() -> Result<Self, Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::System { what: "make a key", error: std::io::Error::other(error) })?;
        Ok(Secret(bytes))
    }

    /// The key with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Secret(bytes)
    }

    /// The bytes of the key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The fingerprint of the public key.
    pub fn fingerprint(&self) -> Result<Fingerprint, Error> {
        Ok(Fingerprint::of(&self.certified()?.cert[0]))
    }

    /// Bytes for `purpose` that only the owner of the key can compute.
    pub(crate) fn derive(&self, purpose: &str) -> [u8; 32] {
        Sha256::new().chain_update(purpose).chain_update([0]).chain_update(self.0).finalize().into()
    }

    fn certified(&self) -> Result<CertifiedKey, Error> {
        // PKCS #8 of an Ed25519 key (RFC 8410, 7). Everything except the last 32 bytes is fixed.
        const PREFIX: [u8; 16] =
            [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
        let der = PrivatePkcs8KeyDer::from([PREFIX.as_slice(), &self.0].concat());
        let key: Arc<dyn SigningKey> =
            rustls::crypto::ring::sign::any_eddsa_type(&der).map_err(|error| unusable(&error))?;
        let public = key.public_key().ok_or_else(|| unusable(&"it has no public half"))?;
        Ok(CertifiedKey::new(vec![CertificateDer::from(public.as_ref().to_vec())], key))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Fingerprint {
    /// The fingerprint of a public key in TLS's form (SubjectPublicKeyInfo).
    pub fn of(public: &[u8]) -> Self {
        Fingerprint(Sha256::digest(public).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&data_encoding::HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// TLS for a server with the key, for clients that `admission` admits.
pub(crate) fn server_tls(
    secret: &Secret,
    admission: Arc<dyn Admission>,
) -> Result<rustls::ServerConfig, Error> {
    let resolver = rustls::server::AlwaysResolvesServerRawPublicKeys::new(Arc::new(secret.certified()?));
    let provider = provider();
    let verifier = Arc::new(Clients { admission, algorithms: provider.signature_verification_algorithms });
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unusable(&error))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // A resumed session skips the key, and a revoked client could come back.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.max_early_data_size = 0;
    Ok(config)
}

/// TLS for a client with the key, to the server with the fingerprint.
pub(crate) fn client_tls(secret: &Secret, server: Fingerprint) -> Result<rustls::ClientConfig, Error> {
    let resolver = rustls::client::AlwaysResolvesClientRawPublicKeys::new(Arc::new(secret.certified()?));
    let provider = provider();
    let verifier = Arc::new(Server { server, algorithms: provider.signature_verification_algorithms });
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| unusable(&error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_early_data = false;
    config.enable_sni = false;
    Ok(config)
}

/// The explanation of a refusal by a TLS alert (RFC 8446, 6.2); `None` if the alert's name says
/// enough.
pub(crate) fn explain_alert(alert: u8) -> Option<&'static str> {
    match alert {
        48 => Some("the server does not know this token: it was made for another server, or removed"),
        44 => Some("the server refuses this token: it has been revoked"),
        45 => Some("the server refuses this token: it has expired"),
        49 => Some("the server is not the one that made this token"),
        116 => Some("the server wants a token, and none was shown"),
        120 => Some(
            "the server speaks another version of the tunnel's protocol; use the same release on both ends",
        ),
        _ => None,
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unusable(error: &dyn fmt::Display) -> Error {
    Error::Options(format!("the key cannot be used: {error}"))
}

/// What both ends verify in the same way: signatures of TLS 1.3 with an Ed25519 key without a
/// certificate. The two traits of rustls have the same methods.
macro_rules! raw_keys_only {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::PeerIncompatible::Tls12NotOffered.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature_with_raw_key(
                message,
                &SubjectPublicKeyInfoDer::from(cert.as_ref()),
                dss,
                &self.algorithms,
            )
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

/// The server's verification of clients.
#[derive(Debug)]
struct Clients {
    admission: Arc<dyn Admission>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for Clients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        match self.admission.check(&Fingerprint::of(end_entity)) {
            Ok(()) => Ok(ClientCertVerified::assertion()),
            Err(denied) => Err(CertificateError::from(denied).into()),
        }
    }

    raw_keys_only!();
}

/// The client's verification of the server.
#[derive(Debug)]
struct Server {
    server: Fingerprint,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Server {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if Fingerprint::of(end_entity) == self.server {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    raw_keys_only!();
}
