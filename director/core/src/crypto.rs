//! The cryptographic functions that the core uses: those of `ring`, and without the standard library
//! the same by RustCrypto, with `ring`'s names. `ring` needs a C compiler for the target.

#[cfg(feature = "std")]
pub(crate) use ring::{aead, digest, hkdf, hmac, signature};

#[cfg(not(feature = "std"))]
pub(crate) use portable::{aead, digest, hkdf, hmac, signature};

/// Also compiled in tests, which compare both.
#[cfg(any(test, not(feature = "std")))]
mod portable {
    #[cfg(not(feature = "std"))]
    use crate::platform::prelude::*;

    /// An operation failed; as in `ring`, it is not said why.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Unspecified;

    pub(crate) mod digest {
        use sha2::{Digest as _, Sha256};

        pub(crate) struct Algorithm;
        pub(crate) static SHA256: Algorithm = Algorithm;

        pub(crate) fn digest(_: &Algorithm, data: &[u8]) -> [u8; 32] {
            Sha256::digest(data).into()
        }
    }

    pub(crate) mod hmac {
        use hmac::{Hmac, Mac as _};
        use sha2::Sha256;

        #[derive(Clone, Copy)]
        pub(crate) struct Algorithm;
        pub(crate) static HMAC_SHA256: Algorithm = Algorithm;

        #[derive(Clone)]
        pub(crate) struct Key(Hmac<Sha256>);

        impl Key {
            pub(crate) fn new(_: Algorithm, key: &[u8]) -> Self {
                // HMAC takes keys of any length.
                Self(Hmac::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&[0; 64].into())))
            }
        }

        pub(crate) fn sign(key: &Key, data: &[u8]) -> [u8; 32] {
            let mut context = Context::with_key(key);
            context.update(data);
            context.sign()
        }

        pub(crate) struct Context(Hmac<Sha256>);

        impl Context {
            pub(crate) fn with_key(key: &Key) -> Self {
                Self(key.0.clone())
            }

            pub(crate) fn update(&mut self, data: &[u8]) {
                self.0.update(data);
            }

            pub(crate) fn sign(self) -> [u8; 32] {
                self.0.finalize().into_bytes().into()
            }
        }
    }

    /// HKDF (RFC 5869).
    pub(crate) mod hkdf {
        #[cfg(not(feature = "std"))]
        use super::*;
        use super::{Unspecified, hmac};

        pub(crate) static HKDF_SHA256: hmac::Algorithm = hmac::HMAC_SHA256;

        pub(crate) trait KeyType {
            fn len(&self) -> usize;
        }

        pub(crate) struct Salt(hmac::Key);

        impl Salt {
            pub(crate) fn new(algorithm: hmac::Algorithm, salt: &[u8]) -> Self {
                Self(hmac::Key::new(algorithm, salt))
            }

            pub(crate) fn extract(&self, secret: &[u8]) -> Prk {
                Prk(hmac::Key::new(HKDF_SHA256, &hmac::sign(&self.0, secret)))
            }
        }

        #[derive(Clone)]
        pub(crate) struct Prk(hmac::Key);

        impl Prk {
            pub(crate) fn expand(
                &self,
                info: &[&[u8]],
                length: impl KeyType,
            ) -> Result<Okm, Unspecified> {
                // The block counter has one byte (RFC 5869, 2.3).
                if length.len() > 255 * 32 {
                    return Err(Unspecified);
                }
                let info = info.concat();
                let (mut bytes, mut block) = (Vec::new(), Vec::new());
                for count in 1..=length.len().div_ceil(32) {
                    block =
                        hmac::sign(&self.0, &[&block[..], &info, &[count as u8]].concat()).to_vec();
                    bytes.extend_from_slice(&block);
                }
                bytes.truncate(length.len());
                Ok(Okm(bytes))
            }
        }

        pub(crate) struct Okm(Vec<u8>);

        impl Okm {
            pub(crate) fn fill(self, out: &mut [u8]) -> Result<(), Unspecified> {
                if out.len() != self.0.len() {
                    return Err(Unspecified);
                }
                out.copy_from_slice(&self.0);
                Ok(())
            }
        }
    }

    /// ChaCha20-Poly1305 (RFC 8439).
    pub(crate) mod aead {
        use super::Unspecified;
        use chacha20poly1305::{AeadInPlace as _, ChaCha20Poly1305, KeyInit as _};

        pub(crate) struct Algorithm;
        pub(crate) static CHACHA20_POLY1305: Algorithm = Algorithm;

        pub(crate) struct UnboundKey(ChaCha20Poly1305);

        impl UnboundKey {
            pub(crate) fn new(_: &Algorithm, key: &[u8]) -> Result<Self, Unspecified> {
                ChaCha20Poly1305::new_from_slice(key).map(Self).map_err(|_| Unspecified)
            }
        }

        pub(crate) struct Nonce([u8; 12]);

        impl Nonce {
            pub(crate) fn assume_unique_for_key(nonce: [u8; 12]) -> Self {
                Self(nonce)
            }
        }

        pub(crate) struct Aad<A>(A);

        impl<A: AsRef<[u8]>> Aad<A> {
            pub(crate) fn from(data: A) -> Self {
                Self(data)
            }
        }

        pub(crate) struct LessSafeKey(ChaCha20Poly1305);

        impl LessSafeKey {
            pub(crate) fn new(key: UnboundKey) -> Self {
                Self(key.0)
            }

            pub(crate) fn seal_in_place_separate_tag<A: AsRef<[u8]>>(
                &self,
                nonce: Nonce,
                aad: Aad<A>,
                bytes: &mut [u8],
            ) -> Result<[u8; 16], Unspecified> {
                let (nonce, aad) = (nonce.0.into(), aad.0.as_ref());
                let tag = self.0.encrypt_in_place_detached(&nonce, aad, bytes);
                tag.map(Into::into).map_err(|_| Unspecified)
            }

            pub(crate) fn open_in_place<'a, A: AsRef<[u8]>>(
                &self,
                nonce: Nonce,
                aad: Aad<A>,
                bytes: &'a mut [u8],
            ) -> Result<&'a mut [u8], Unspecified> {
                let length = bytes.len().checked_sub(16).ok_or(Unspecified)?;
                let (content, tag) = bytes.split_at_mut(length);
                let (nonce, aad) = (nonce.0.into(), aad.0.as_ref());
                let opened = self.0.decrypt_in_place_detached(&nonce, aad, content, (&*tag).into());
                opened.map(|()| content).map_err(|_| Unspecified)
            }
        }
    }

    /// Ed25519 (RFC 8032).
    pub(crate) mod signature {
        use super::Unspecified;
        use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};

        pub(crate) struct Algorithm;
        pub(crate) static ED25519: Algorithm = Algorithm;

        /// Has the public key of a pair.
        pub(crate) trait KeyPair {
            fn public_key(&self) -> &[u8; 32];
        }

        pub(crate) struct Ed25519KeyPair(SigningKey, [u8; 32]);

        impl Ed25519KeyPair {
            pub(crate) fn from_seed_unchecked(seed: &[u8]) -> Result<Self, Unspecified> {
                let key = SigningKey::from_bytes(seed.first_chunk().ok_or(Unspecified)?);
                let public = key.verifying_key().to_bytes();
                Ok(Self(key, public))
            }

            pub(crate) fn sign(&self, data: &[u8]) -> [u8; 64] {
                self.0.sign(data).to_bytes()
            }
        }

        impl KeyPair for Ed25519KeyPair {
            fn public_key(&self) -> &[u8; 32] {
                &self.1
            }
        }

        pub(crate) struct UnparsedPublicKey<B>(B);

        impl<B: AsRef<[u8]>> UnparsedPublicKey<B> {
            pub(crate) fn new(_: &'static Algorithm, bytes: B) -> Self {
                Self(bytes)
            }

            pub(crate) fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), Unspecified> {
                let key = self.0.as_ref().try_into().map_err(|_| Unspecified)?;
                let key = VerifyingKey::from_bytes(key).map_err(|_| Unspecified)?;
                let signature = signature.try_into().map_err(|_| Unspecified)?;
                key.verify_strict(data, &signature).map_err(|_| Unspecified)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::portable;
    use proptest::prelude::*;

    struct Length(usize);

    impl ring::hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }

    impl portable::hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..most)
    }

    proptest! {
        /// Both libraries compute the same, so a device without the standard library can join.
        #[test]
        fn both_libraries_compute_the_same(key in bytes(200), data in bytes(300), length in 0..200_usize) {
            let digest = ring::digest::digest(&ring::digest::SHA256, &data);
            prop_assert_eq!(digest.as_ref(), &portable::digest::digest(&portable::digest::SHA256, &data));
            let code = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key), &data);
            let own = portable::hmac::Key::new(portable::hmac::HMAC_SHA256, &key);
            prop_assert_eq!(code.as_ref(), &portable::hmac::sign(&own, &data));
            let (mut theirs, mut ours) = (vec![0; length], vec![0; length]);
            let salt = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &key).extract(&data);
            salt.expand(&[b"a", &key], Length(length)).unwrap().fill(&mut theirs).unwrap();
            let salt = portable::hkdf::Salt::new(portable::hkdf::HKDF_SHA256, &key).extract(&data);
            salt.expand(&[b"a", &key], Length(length)).unwrap().fill(&mut ours).unwrap();
            prop_assert_eq!(theirs, ours);
        }

        #[test]
        fn what_one_library_signs_the_other_verifies(seed: [u8; 32], data in bytes(300), at in 0..64_usize) {
            use portable::signature::KeyPair as _;
            use ring::signature::KeyPair as _;
            let other = ring::signature::Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
            let own = portable::signature::Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
            prop_assert_eq!(other.public_key().as_ref(), own.public_key());
            let mut signature = own.sign(&data);
            let same = other.sign(&data);
            prop_assert_eq!(same.as_ref(), &signature);
            let theirs = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, own.public_key());
            let ours = portable::signature::UnparsedPublicKey::new(&portable::signature::ED25519, own.public_key());
            prop_assert!(theirs.verify(&data, &signature).is_ok());
            prop_assert!(ours.verify(&data, &signature).is_ok());
            signature[at] ^= 1;
            prop_assert!(theirs.verify(&data, &signature).is_err());
            prop_assert!(ours.verify(&data, &signature).is_err());
        }

        #[test]
        fn what_one_library_seals_the_other_opens(key: [u8; 32], nonce: [u8; 12], aad in bytes(40), data in bytes(300)) {
            let other = ring::aead::UnboundKey::new(&ring::aead::CHACHA20_POLY1305, &key).unwrap();
            let other = ring::aead::LessSafeKey::new(other);
            let own = portable::aead::UnboundKey::new(&portable::aead::CHACHA20_POLY1305, &key).unwrap();
            let own = portable::aead::LessSafeKey::new(own);
            let theirs = || (ring::aead::Nonce::assume_unique_for_key(nonce), ring::aead::Aad::from(&aad));
            let ours = || {
                let nonce = portable::aead::Nonce::assume_unique_for_key(nonce);
                (nonce, portable::aead::Aad::from(&aad))
            };
            let (mut a, mut b) = (data.clone(), data.clone());
            let tag = other.seal_in_place_separate_tag(theirs().0, theirs().1, &mut a).unwrap();
            a.extend_from_slice(tag.as_ref());
            let tag = own.seal_in_place_separate_tag(ours().0, ours().1, &mut b).unwrap();
            b.extend_from_slice(&tag);
            prop_assert_eq!(&a, &b);
            prop_assert_eq!(other.open_in_place(theirs().0, theirs().1, &mut b).unwrap(), &data[..]);
            let mut wrong = a.clone();
            prop_assert_eq!(own.open_in_place(ours().0, ours().1, &mut a).unwrap(), &data[..]);
            wrong[0] ^= 1;
            prop_assert!(own.open_in_place(ours().0, ours().1, &mut wrong).is_err());
        }
    }
}
