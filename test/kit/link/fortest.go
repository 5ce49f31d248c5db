package link

import (
	"net/netip"
	"testing"
)

// ForTest is a link on loopback that lives as long as the test.
func ForTest(t testing.TB, dial Dial) *Link {
	t.Helper()
	l, err := Listen(t.Context(), netip.Addr{}, dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}
