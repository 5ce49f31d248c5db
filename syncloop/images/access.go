package images

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/burstlet/burstlet/backend"
)

// access is who may use an image: everyone, once a pull without a login succeeded, or
// those who have the same login, or one from the same Secret or for the same ServiceAccount,
// whatever it is now.
type access struct {
	Everyone bool     `json:"everyone,omitempty"`
	Logins   []holder `json:"logins,omitempty"`
}

// maxHolders bounds the logins that are kept of an image; beyond, the oldest is
// forgotten: who has it pulls once more.
const maxHolders = 100

// holder is a login, or several of which it is not known which one was used.
type holder struct {
	// Hash is that of the logins that are not a ServiceAccount's.
	Hash    string   `json:"hash"`
	Secrets []string `json:"secrets,omitempty"`
	// ServiceAccount is namespace/name/UID. What it logs in with changes with its tokens.
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// equals is true for the same logins, for those of the same Secrets, and for those of the
// same ServiceAccount.
func (h holder) equals(other holder) bool {
	return h.ServiceAccount == other.ServiceAccount &&
		(h.Hash == other.Hash || len(h.Secrets) > 0 && slices.Equal(h.Secrets, other.Secrets))
}

// holders are what a pod can be known by: each of its own logins, and all of them.
func holders(creds []backend.Credential) (all []holder) {
	own := ownLogins(creds)
	for i := range own {
		all = append(all, holderOf(own[i:i+1]))
	}
	if len(own) > 1 {
		all = append(all, holderOf(own))
	}
	return all
}

// ownLogins are those that not every pod of the node has.
func ownLogins(creds []backend.Credential) []backend.Credential {
	return slices.DeleteFunc(slices.Clone(creds), func(c backend.Credential) bool { return c.Node })
}

func holderOf(creds []backend.Credential) (h holder) {
	var fixed []backend.Credential
	sourced := true
	for _, c := range creds {
		if c.ServiceAccount != "" {
			h.ServiceAccount = c.ServiceAccount // a pod has one
			continue
		}
		fixed, h.Secrets = append(fixed, c), append(h.Secrets, c.Secret)
		sourced = sourced && c.Secret != ""
	}
	if !sourced {
		h.Secrets = nil
	}
	if len(fixed) > 0 {
		sum := sha256.Sum256(loginBytes(fixed))
		h.Hash = hex.EncodeToString(sum[:])
	}
	return h
}

// with adds those who pulled an image: with logins of the node alone, everyone (kubelet:
// trackedToImagePullCreds).
func (a access) with(creds []backend.Credential) access {
	// Which login was used is not known. Those of the node are every pod's.
	own := ownLogins(creds)
	if len(own) == 0 {
		a.Everyone = true
		return a
	}
	h := holderOf(own)
	a.Logins = slices.DeleteFunc(slices.Clone(a.Logins), h.equals)
	if a.Logins = append(a.Logins, h); len(a.Logins) > maxHolders {
		a.Logins = a.Logins[1:]
	}
	return a
}
