package main

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// PublicKey verifies a session token: an *rsa.PublicKey (RS256) or an
// ed25519.PublicKey (EdDSA).
type PublicKey any

// minRSABits is the least RFC 7518 allows for RS256.
const minRSABits = 2048

// readPublicKey reads one PEM file: a PKIX or PKCS #1 public key, or a certificate.
func readPublicKey(name string, algorithms []string) (PublicKey, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", bare(err))
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, errors.New("holds no PEM block, right is -----BEGIN PUBLIC KEY-----")
	}
	key, err := parsePublicKey(block)
	if err != nil {
		return nil, err
	}
	algorithm := "EdDSA"
	if k, ok := key.(*rsa.PublicKey); ok {
		algorithm = "RS256"
		if k.N.BitLen() < minRSABits {
			return nil, fmt.Errorf("is an RSA key of %d bits, right is at least %d", k.N.BitLen(), minRSABits)
		}
	}
	if !slices.Contains(algorithms, algorithm) {
		return nil, fmt.Errorf("is a key for %s, which identity.jwt.algorithms does not list", algorithm)
	}
	return key, nil
}

func parsePublicKey(block *pem.Block) (PublicKey, error) {
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	default:
		return nil, fmt.Errorf("holds a %s, right is a PUBLIC KEY", clip(block.Type))
	}
	if err != nil {
		return nil, errors.New("holds a public key that cannot be read")
	}
	switch key.(type) {
	case *rsa.PublicKey, ed25519.PublicKey:
		return key, nil
	}
	return nil, fmt.Errorf("holds a key of type %T, right is RSA or Ed25519", key)
}

// bare is the cause of a file error without the path, which the message has already.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
