package payload

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend/ecs/intask/podfiles"
)

// A new token is looked for when the old one is due, at 80 % of its life.
func TestTokensAreDue(t *testing.T) {
	token := func(claims string) []byte {
		return []byte("eyJhIjoxfQ." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln")
	}
	margin := int64(dueMargin / time.Second)
	for _, tc := range []struct {
		data []byte
		want int64
	}{
		{token(`{"iat":1000,"exp":2000}`), 1800 + margin},
		{token(`{"iat":2000,"exp":1000}`), 0},
		{token(`{}`), 0},
		{token(`x`), 0},
		{[]byte("ey.a.b"), 0},
		{[]byte("x=1"), 0},
		{nil, 0},
	} {
		if got := tokenDue(tc.data); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.data, got, tc.want)
		}
	}
	volumes := []podfiles.Volume{{Files: []podfiles.File{
		{Data: token(`{"iat":1000,"exp":9000}`)},
		{Data: token(`{"iat":1000,"exp":2000}`)},
		{Data: []byte("x")},
	}}}
	if got := dueOf(volumes); got != 1800+margin {
		t.Errorf("the first: %d", got)
	}
}
