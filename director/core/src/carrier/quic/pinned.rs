//! Authentication by pinned raw public keys (RFC 7250): both ends know each other's key, without
//! certificates or authorities.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme};
use std::sync::Arc;

/// Prefix of a 32-byte Ed25519 key in PKCS #8 (RFC 8410, section 7).
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// The key pair of a seed.
pub fn own(seed: &[u8; 32]) -> Option<CertifiedKey> {
    let key = key(seed)?;
    Some(CertifiedKey::new(vec![public(&*key)?], key))
}

fn key(seed: &[u8; 32]) -> Option<Arc<dyn SigningKey>> {
    let pkcs8 = PrivatePkcs8KeyDer::from([&PKCS8[..], seed].concat());
    ring::sign::any_eddsa_type(&pkcs8).ok()
}

fn public(key: &dyn SigningKey) -> Option<CertificateDer<'static>> {
    Some(CertificateDer::from(key.public_key()?.as_ref().to_vec()))
}

/// Accepts only the other end's key.
#[derive(Debug)]
pub struct Pinned {
    key: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    /// Pins the public key of this seed.
    pub fn of(seed: &[u8; 32], provider: Arc<CryptoProvider>) -> Option<Self> {
        Some(Self { key: public(&*key(seed)?)?, provider })
    }

    fn check(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        // Public keys: the time of the comparison tells no secret.
        match *key == self.key {
            true => Ok(()),
            false => Err(Error::General("unexpected public key of the other end".to_owned())),
        }
    }

    fn signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, known)
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(key).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(key).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
