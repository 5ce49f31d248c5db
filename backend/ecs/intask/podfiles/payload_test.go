package podfiles

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
)

func payloadOf(data []byte) Payload {
	return Payload{Volumes: []Volume{{
		Name: "config", Group: new(int64(2000)),
		Files: []File{{Path: "a/b", Data: data, Mode: 0o640, UID: new(int64(1000))}},
	}}}
}

func joined(parts []string) ([]byte, error) {
	return Join(func(i int) (string, error) {
		if i >= len(parts) {
			return "", errors.New("no such part")
		}
		return parts[i], nil
	})
}

func TestPayloadsArriveAsTheyWereSent(t *testing.T) {
	random := make([]byte, 200_000) // does not compress, so it takes several parts
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"empty": nil, "small": []byte("a\x00b\n"), "several parts": random} {
		t.Run(name, func(t *testing.T) {
			packed, err := payloadOf(data).Pack()
			if err != nil {
				t.Fatal(err)
			}
			again, err := payloadOf(data).Pack()
			if err != nil || !bytes.Equal(packed, again) {
				t.Errorf("the same payload packs differently: %v", err)
			}
			back, err := joined(splitInto(t, packed))
			if err != nil || !bytes.Equal(back, packed) {
				t.Fatalf("joined parts differ: %v", err)
			}
			p, err := Unpack(back)
			if err != nil {
				t.Fatal(err)
			}
			f := p.Volumes[0].Files[0]
			if !bytes.Equal(f.Data, data) || f.Path != "a/b" || f.Mode != 0o640 || *f.UID != 1000 ||
				*p.Volumes[0].Group != 2000 {
				t.Errorf("unpacked %q %o %d", f.Path, f.Mode, *f.UID)
			}
		})
	}
}

// splitInto are parts of which each fits and Parts tells the number.
func splitInto(t *testing.T, packed []byte) []string {
	t.Helper()
	parts, err := Split(packed)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := Parts(len(packed)); err != nil || n != len(parts) {
		t.Errorf("Parts says %d, %v; there are %d", n, err, len(parts))
	}
	for i, p := range parts {
		if len(p) > PartSize {
			t.Errorf("part %d has %d bytes", i, len(p))
		}
	}
	return parts
}

func TestContentsBeyondWhatATaskTakesAreRefused(t *testing.T) {
	random := make([]byte, 1_000_000)
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	if _, err := Split(random); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a million random bytes: %v", err)
	}
	if _, err := Parts(1_000_000); !errors.Is(err, ErrTooLarge) {
		t.Errorf("parts of a million bytes: %v", err)
	}
}

func TestPartsInWrongOrderAreNoticed(t *testing.T) {
	for name, parts := range map[string][]string{
		"none": {}, "empty": {""}, "no header": {"abc"}, "second first": {"2/2:abc", "1/2:abc"}, "too many": {"1/17:abc"},
		"one missing": {"1/2:abcd"}, "no base64": {"1/1:!!"}, "negative": {"1/-1:abcd"},
		"count changes": {"1/2:abcd", "2/1:abcd"},
	} {
		if _, err := joined(parts); err == nil {
			t.Errorf("%s: joined", name)
		}
	}
}

func TestOnlyTheKeyAndNameOfAPayloadOpenIt(t *testing.T) {
	key, name := NewKey(), "burstlet/n/pod/u/0.abc.1"
	sealed, err := Seal(key, name, []byte("a token"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("token")) {
		t.Error("the contents stand in the clear")
	}
	again, err := Seal(key, name, []byte("a token"))
	if err != nil || !bytes.Equal(again, sealed) {
		t.Error("the same contents differ: a repeated launch would be another")
	}
	if got, err := Open(key, name, sealed); err != nil || string(got) != "a token" {
		t.Errorf("opened %q, %v", got, err)
	}
	for what, f := range map[string]func() ([]byte, error){
		"another key":  func() ([]byte, error) { return Open(NewKey(), name, sealed) },
		"another name": func() ([]byte, error) { return Open(key, name+"1", sealed) },
		"no key":       func() ([]byte, error) { return Open("", name, sealed) },
		"cut contents": func() ([]byte, error) { return Open(key, name, sealed[1:]) },
	} {
		if got, err := f(); err == nil || got != nil || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

func TestTheNameOfTheFirstPartTellsTheOthers(t *testing.T) {
	names, err := PartNames("x/0.abc.3")
	if err != nil || strings.Join(names, " ") != "x/0.abc.3 x/0.abc.3.1 x/0.abc.3.2" {
		t.Errorf("%v, %v", names, err)
	}
	for _, bad := range []string{"", "x", "x.0", "x.17", "x.-1", "x.y"} {
		if names, err := PartNames(bad); err == nil {
			t.Errorf("%q: %v", bad, names)
		}
	}
}

func TestTheNamesOfPayloadsThatAreWrittenInTurn(t *testing.T) {
	for first, want := range map[string]string{
		"x/0.abc.3":                       "x/0.abc.3",
		"x/0." + WithSlots("a", 1) + ".1": "x/0.a.1",
		"x/0." + WithSlots("a", 3) + ".2": "x/0.a-3.2 x/0.a-3.2.s1.2 x/0.a-3.2.s2.2",
		"a-b/0.a.1":                       "a-b/0.a.1",
		"x-9.1":                           "x-9.1",
		"x/0.a-4.1":                       "",
		"x/0.a-0.1":                       "",
		"x/0.a-b.1":                       "",
		"x/0.a-2.x":                       "",
	} {
		names, err := SlotNames(first)
		if got := strings.Join(names, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", first, got, err)
		}
	}
	all, err := AllNames("x/0.a-2.2")
	if err != nil || strings.Join(all, " ") != "x/0.a-2.2 x/0.a-2.2.1 x/0.a-2.2.s1.2 x/0.a-2.2.s1.2.1" {
		t.Errorf("%v, %v", all, err)
	}
}

func FuzzJoin(f *testing.F) {
	f.Add("1/1:", "")
	f.Add("1/2:AAAA", "2/2:AA==")
	f.Fuzz(func(t *testing.T, a, b string) {
		packed, err := joined([]string{a, b})
		if err != nil {
			return
		}
		if parts, err := Split(packed); err == nil {
			if back, err := joined(parts); err != nil || !bytes.Equal(back, packed) {
				t.Errorf("%v", err)
			}
		}
		if p, err := Unpack(packed); err == nil && len(p.Volumes) > 1<<20 {
			t.Error("more volumes than bytes")
		}
	})
}
