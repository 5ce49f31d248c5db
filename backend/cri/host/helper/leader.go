package helper

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/burstlet/burstlet/backend/cri/host"
)

// encodeLeader makes a leader the value of leaderHeader.
func encodeLeader(l host.Leader) (string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return "", fmt.Errorf("encode the leader: %w", err)
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

// decodeLeader reads what encodeLeader wrote. It fails rather than to take a change for
// anybody's.
func decodeLeader(value string) (l host.Leader, err error) {
	text, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return l, fmt.Errorf("%w: header %s", errMalformed, leaderHeader)
	}
	if err := decode(text, &l); err != nil {
		return l, err
	}
	if l.Holder == "" {
		return l, fmt.Errorf("%w: header %s names no leader", errMalformed, leaderHeader)
	}
	return l, nil
}
