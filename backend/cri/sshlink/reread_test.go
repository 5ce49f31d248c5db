package sshlink

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
)

func TestALogIsReadAnewWhereNothingOfItCame(t *testing.T) {
	lost := backend.Errorf(backend.ErrUnavailable, "connection reset by peer")
	absent := backend.Errorf(backend.ErrNotFound, "there is no log")
	stream := func(text string, err error) io.Reader {
		if err == nil {
			return strings.NewReader(text)
		}
		return io.MultiReader(strings.NewReader(text), iotest.ErrReader(err))
	}
	sec := func(s int) time.Duration { return time.Duration(s) * time.Second }
	at := func(seconds ...int) (ds []time.Duration) {
		for _, s := range seconds {
			ds = append(ds, sec(s))
		}
		return ds
	}
	type try struct {
		open error
		text string
		read error
	}
	for name, tt := range map[string]struct {
		tries   []try
		changes []time.Duration // when the connection does, from the beginning
		took    time.Duration
		want    string
		err     error
	}{
		"whole":                    {tries: []try{{text: "all"}}, want: "all"},
		"empty":                    {tries: []try{{}}},
		"cut off when opened":      {tries: []try{{open: lost}, {text: "all"}}, changes: at(1), want: "all", took: sec(1)},
		"cut off before its first": {tries: []try{{read: lost}, {text: "all"}}, changes: at(1), want: "all", took: sec(1)},
		"cut off in its middle":    {tries: []try{{text: "a", read: lost}}, changes: at(1), want: "a", err: lost},
		"cut off again and again": {
			tries: []try{{read: lost}, {open: lost}, {read: lost}, {text: "all"}}, changes: at(1, 2, 3), want: "all",
			took: sec(3),
		},
		"cut off for long": {tries: []try{{read: lost}}, err: lost, took: logPatience},
		"cut off when opened, long": {
			tries: []try{{open: lost}, {open: lost}}, changes: at(4), err: lost, took: logPatience,
		},
		"cut off later, then longer": {
			tries: []try{{open: lost}, {read: lost}, {open: lost}}, changes: at(3, 6), err: lost, took: logPatience,
		},
		"not there":       {tries: []try{{open: absent}}, err: absent},
		"gone on the way": {tries: []try{{read: absent}}, err: absent},
		"gone when back":  {tries: []try{{read: lost}, {open: absent}}, changes: at(1), err: absent, took: sec(1)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opened := 0
				open := func() (io.ReadCloser, error) {
					if opened == len(tt.tries) {
						t.Fatal("opened too often")
					}
					try := tt.tries[opened]
					opened++
					if try.open != nil {
						return nil, try.open
					}
					return io.NopCloser(stream(try.text, try.read)), nil
				}
				s, began := newSignal(), time.Now()
				for _, after := range tt.changes {
					time.AfterFunc(after, s.raise)
				}
				log, err := rereadable(t.Context(), s, open)
				var got []byte
				if err == nil {
					got, err = io.ReadAll(log)
				}
				if string(got) != tt.want || !errors.Is(err, tt.err) || opened != len(tt.tries) {
					t.Errorf("%q, %v after %d of %d; want %q, %v", got, err, opened, len(tt.tries), tt.want, tt.err)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
			})
		})
	}
}
