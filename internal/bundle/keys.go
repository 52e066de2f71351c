package bundle

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-7879b91d/grpo/internal/badinput"
	"github.com/seed-7879b91d/grpo/internal/display"
)

// signedPrefix is prepended to what is signed, so that a signature of something else cannot be reused.
const signedPrefix = "grpo package, SHA256SUMS\n"

// signatureSize is the size of SHA256SUMS.sig: the public key, and the signature.
const signatureSize = ed25519.PublicKeySize + ed25519.SignatureSize

// sign returns the content of SHA256SUMS.sig.
func sign(sums []byte, key ed25519.PrivateKey) []byte {
	return append(append([]byte(nil), key.Public().(ed25519.PublicKey)...), ed25519.Sign(key, append([]byte(signedPrefix), sums...))...)
}

// signer returns the key that signed the sums, or an error if the signature is invalid.
func signer(sums, signed []byte) (ed25519.PublicKey, error) {
	if len(signed) != signatureSize {
		return nil, badinput.Errorf("%s has %d bytes, expected %d", Signature, len(signed), signatureSize)
	}
	key := ed25519.PublicKey(signed[:ed25519.PublicKeySize])
	if !ed25519.Verify(key, append([]byte(signedPrefix), sums...), signed[ed25519.PublicKeySize:]) {
		return nil, badinput.Errorf("%s is no signature of %s: one of them was changed", Signature, Sums)
	}
	return key, nil
}

// Fingerprint is a short name of a public key.
func Fingerprint(key ed25519.PublicKey) string {
	h := sha256.Sum256(key)
	return fmt.Sprintf("%x", h[:8])
}

// PublicSuffix is appended to the name of a secret key for that of its public key.
const PublicSuffix = ".pub"

// NewKey writes a secret key, readable only by its owner, and its public key beside it. It overwrites nothing.
func NewKey(path string) (ed25519.PublicKey, error) {
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	secretText, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		return nil, err
	}
	publicText, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path + PublicSuffix); err == nil {
		return nil, badinput.Errorf("%s is there already; choose another name", path+PublicSuffix)
	}
	if err := writeNew(path, 0o600, &pem.Block{Type: "PRIVATE KEY", Bytes: secretText}); err != nil {
		return nil, err
	}
	if err := writeNew(path+PublicSuffix, 0o644, &pem.Block{Type: "PUBLIC KEY", Bytes: publicText}); err != nil {
		return nil, errors.Join(err, os.Remove(path)) // nobody has used it yet
	}
	return public, nil
}

// writeNew writes a file that must not exist, and removes it on an error.
func writeNew(path string, mode os.FileMode, block *pem.Block) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, os.ErrExist) {
		return badinput.Errorf("%s is there already, and a key is not replaced; choose another name", path)
	}
	if err != nil {
		return badinput.Errorf("%w", err)
	}
	err = pem.Encode(f, block)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// SecretKey reads a signing key, as written by NewKey or openssl genpkey.
func SecretKey(path string) (ed25519.PrivateKey, error) {
	block, err := readKey(path)
	if err != nil {
		return nil, err
	}
	if block.Type == "PUBLIC KEY" {
		return nil, badinput.Errorf("%s is a public key, and signing takes the secret one; type --key %s",
			path, display.ShellQuote(strings.TrimSuffix(path, PublicSuffix)))
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if secret, ok := key.(ed25519.PrivateKey); err == nil && ok {
		return secret, nil
	}
	return nil, badinput.Errorf("%s is no ed25519 key; type grpo package --new-key FILE to make one", path)
}

// PublicKey reads a key for verifying. Of a secret key it returns the public key.
func PublicKey(path string) (ed25519.PublicKey, error) {
	block, err := readKey(path)
	if err != nil {
		return nil, err
	}
	if block.Type == "PRIVATE KEY" {
		secret, err := SecretKey(path)
		if err != nil {
			return nil, err
		}
		return secret.Public().(ed25519.PublicKey), nil
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if public, ok := key.(ed25519.PublicKey); err == nil && ok {
		return public, nil
	}
	return nil, badinput.Errorf("%s is no ed25519 key; expected the file that ends in %s", path, PublicSuffix)
}

func readKey(path string) (*pem.Block, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, badinput.Errorf("%w; type grpo package --new-key FILE to make a key", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return nil, badinput.Errorf("%w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, badinput.Errorf("%s is no key in PEM; type grpo package --new-key FILE to make one", path)
	}
	return block, nil
}
