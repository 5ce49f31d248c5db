package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// rootsPath is where Go's programs, and most others, look for the CAs to trust.
const rootsPath = "etc/ssl/certs/ca-certificates.crt"

// roots is the content of that file: Mozilla's CAs as Go's own module has them.
// Those that are trusted only with a limit which a file cannot express, because
// they are about to be taken out, are left out.
func roots() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}
