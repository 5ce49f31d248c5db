package podfiles

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// keySize is that of AES-256.
const keySize = 32

// NewKey makes a random key for one pod's files.
func NewKey() string {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails: crypto/rand
	return base64.RawURLEncoding.EncodeToString(key)
}

// SealOverhead is what encryption adds, in bytes: the nonce and AES-GCM's tag.
const SealOverhead = nonceSize + 16

// nonceSize is AES-GCM's.
const nonceSize = 12

// Seal encrypts packed contents. The result is the same each time, and a key may
// serve the contents of one pod as they change: the nonce is made of what is
// encrypted. name, of the secret they are stored in, is authenticated with them.
func Seal(key, name string, packed []byte) ([]byte, error) {
	aead, raw, err := cipherOf(key)
	if err != nil {
		return nil, err
	}
	nonce := nonceOf(raw, name, packed)
	return aead.Seal(nonce, nonce, packed, []byte(name)), nil
}

// nonceOf is different for different contents, as AES-GCM wants it.
func nonceOf(key []byte, name string, packed []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(name))
	mac.Write([]byte{0})
	mac.Write(packed)
	return mac.Sum(nil)[:nonceSize:nonceSize]
}

// Open decrypts what Seal made.
func Open(key, name string, sealed []byte) ([]byte, error) {
	aead, _, err := cipherOf(key)
	if err != nil {
		return nil, err
	}
	if len(sealed) < SealOverhead {
		return nil, errors.New("decrypt payload: there is not enough of it")
	}
	packed, err := aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], []byte(name))
	if err != nil {
		return nil, errors.New("decrypt payload: key and contents do not belong together")
	}
	return packed, nil
}

func cipherOf(key string) (cipher.AEAD, []byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil || len(raw) != keySize {
		return nil, nil, errors.New("decrypt payload: the key is none of AES-256")
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("decrypt payload: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	return aead, raw, err
}

// PartNames are the names of the secrets with the parts of a payload. The count
// is the last part of the name of the first.
func PartNames(first string) ([]string, error) {
	n, err := strconv.Atoi(first[strings.LastIndexByte(first, '.')+1:])
	if err != nil || n < 1 || n > MaxParts {
		return nil, fmt.Errorf("the name %q does not say of how many parts it is the first", first)
	}
	names := []string{first}
	for i := 1; i < n; i++ {
		names = append(names, first+"."+strconv.Itoa(i))
	}
	return names, nil
}

// MaxSlots bounds how many payloads of a pod are written in turn.
const MaxSlots = 3

// WithSlots is the last but one part of the name of a payload that is written to several
// secrets in turn.
func WithSlots(text string, slots int) string {
	if slots <= 1 {
		return text
	}
	return text + "-" + strconv.Itoa(slots)
}

// SlotNames are the names of the first parts of the payloads that are written in turn:
// first, and those of the others, which begin with it.
func SlotNames(first string) ([]string, error) {
	parts, err := PartNames(first)
	if err != nil {
		return nil, err
	}
	names, n := []string{first}, 1
	fields := strings.Split(first, ".")
	if _, slots, ok := strings.Cut(fields[max(len(fields)-2, 0)], "-"); ok && len(fields) > 2 {
		if n, err = strconv.Atoi(slots); err != nil || n < 1 || n > MaxSlots {
			return nil, fmt.Errorf("the name %q does not say how many payloads are written in turn", first)
		}
	}
	for i := 1; i < n; i++ {
		names = append(names, first+".s"+strconv.Itoa(i)+"."+strconv.Itoa(len(parts)))
	}
	return names, nil
}

// AllNames are those of all parts of all payloads of a pod.
func AllNames(first string) ([]string, error) {
	slots, err := SlotNames(first)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, slot := range slots {
		parts, err := PartNames(slot)
		if err != nil {
			return nil, err
		}
		out = append(out, parts...)
	}
	return out, nil
}
