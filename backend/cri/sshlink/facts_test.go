package sshlink

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/test/kit/sshkeys"
)

func TestFactsCountWhatBecameOfTheConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		time.Sleep(time.Minute)
		for _, f := range l.Facts() {
			wantCounts(t, "after a quiet minute", f, true, 1, 0, 0)
			if f.Received == 0 || f.Sent == 0 {
				t.Errorf("%s: %d bytes received, %d sent", f.Name, f.Received, f.Sent)
			}
		}
		before := l.Facts()[0]
		w.network.close(target)
		w.network.sever()
		time.Sleep(time.Minute)
		f := l.Facts()[0]
		wantCounts(t, "without a network", f, false, 1, 1, f.Failures["reach"])
		if f.Failures["reach"] == 0 || f.RoundTrip != 0 {
			t.Errorf("without a network: %+v", f)
		}
		w.network.listen(target, w.server.serve)
		time.Sleep(time.Minute)
		waitUp(t, l)
		again := l.Facts()[0]
		wantCounts(t, "mended", again, true, 2, 1, again.Failures["reach"])
		if again.Received <= before.Received || again.Sent <= before.Sent {
			t.Errorf("bytes of the connection before are not counted any more: %+v, before %+v", again, before)
		}
	})
}

func wantCounts(t *testing.T, when string, f backend.LinkFacts, up bool, connects, losses, failures uint64) {
	t.Helper()
	var failed uint64
	for _, n := range f.Failures {
		failed += n
	}
	if f.Up != up || f.Connects != connects || f.Losses != losses || failed != failures {
		t.Errorf("%s: %+v, want up %v, %d made, %d lost, %d failed", when, f, up, connects, losses, failures)
	}
}

func TestFactsTellRefusedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.KeyFiles = []string{sshkeys.File(t, 'x')}
		l := w.link(t)
		time.Sleep(time.Minute)
		for _, f := range l.Facts() {
			if f.Up || f.Connects != 0 || f.Failures["authenticate"] == 0 || len(f.Failures) != 1 {
				t.Errorf("%s: %v", f.Name, f)
			}
		}
		words := map[string]bool{}
		for _, word := range stageWords {
			words[word] = true
		}
		if want := map[string]bool{
			"setup": true, "reach": true, "host_key": true, "authenticate": true,
		}; !maps.Equal(words, want) {
			t.Errorf("words %v are not those that backend.LinkFacts documents", words)
		}
	})
}

func TestRoundTripIsThatOfTheLastSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.up(t)
		c, err := l.control.current()
		if err != nil {
			t.Fatal(err)
		}
		c.roundTrip.Store(int64(time.Hour)) // as if one took long
		time.Sleep(10 * time.Second)
		if got := l.Facts()[0].RoundTrip; got == time.Hour {
			t.Errorf("round trip %v after further signs of life", got)
		}
	})
}
