package intask

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// Readiness is what burstlet-agent says of its task's containers: all of them, each time.
type Readiness struct {
	// Task is the task's ARN.
	Task string `json:"task"`
	// Seq grows with each of a task's: messages come in any order, and more than once.
	Seq int64 `json:"seq"`
	// Ready are those that have started and are ready, by name; nil while nothing was
	// found yet.
	Ready map[string]*bool `json:"ready"`
	// Lives are the ends of those that run once, by name; an end is final.
	Lives map[string]Life `json:"lives,omitempty"`
}

// signed is a Readiness on its way. The code is of the text as it stands, under a key that
// only its task was given: others may write to the same queue.
type signed struct {
	Readiness string `json:"burstletReadiness"`
	MAC       string `json:"mac"`
}

// Sign returns the body of a message. key is one of NewKey.
func (r Readiness) Sign(key string) (string, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode readiness: %w", err)
	}
	body, err := json.Marshal(signed{string(text), macOf(key, string(text))})
	if err != nil {
		return "", fmt.Errorf("encode readiness: %w", err)
	}
	return string(body), nil
}

func macOf(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte("readiness\x00" + text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// maxReadiness bounds a message, as SQS does (SQS API, SendMessage).
const maxReadiness = 1 << 20

// errForged: a message that is not of the task that it names.
var errForged = errors.New("it is not signed with the key of its task")

// ReadReadiness reads the body of a message; ok is false for another kind. Nothing of it
// is to be believed before verify returns nil for the key of its task.
func ReadReadiness(body string) (r Readiness, verify func(key string) error, ok bool) {
	var s signed
	if len(body) > maxReadiness || json.Unmarshal([]byte(body), &s) != nil || s.Readiness == "" {
		return r, nil, false
	}
	if json.Unmarshal([]byte(s.Readiness), &r) != nil || r.Task == "" {
		return Readiness{}, nil, false
	}
	return r, func(key string) error {
		if key == "" || !hmac.Equal([]byte(s.MAC), []byte(macOf(key, s.Readiness))) {
			return errForged
		}
		return nil
	}, true
}
