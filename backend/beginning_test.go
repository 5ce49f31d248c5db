package backend

import "testing"

func TestBeginning(t *testing.T) {
	b := Beginning{Most: 5}
	for i, tt := range []struct {
		write, kept string
		cut         bool
	}{{"abc", "abc", false}, {"de", "abcde", false}, {"", "abcde", false}, {"f", "abcde", true}, {"g", "abcde", true}} {
		if n, err := b.Write([]byte(tt.write)); n != len(tt.write) || err != nil {
			t.Fatal(n, err)
		}
		if kept := string(b.Bytes()); kept != tt.kept || b.Cut() != tt.cut {
			t.Errorf("write %d: kept %q, cut %v", i, kept, b.Cut())
		}
	}
}
