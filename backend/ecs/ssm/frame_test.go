package ssm

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"
)

func TestFramesAreWrittenAsTheAgentReadsThem(t *testing.T) {
	f := frame{
		kind: typeInput, created: time.UnixMilli(0x0102030405), sequence: 7, flags: 3, what: payloadSize,
		payload: []byte("abc"),
		id:      messageID{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	}
	// session-manager-plugin, src/message/messageparser.go: the lower half of the id
	// stands first, the digest is SHA-256.
	want := "00000074" + "696e7075745f73747265616d5f64617461" + "202020202020202020202020202020" + "00000001" +
		"0000000102030405" + "0000000000000007" + "0000000000000003" + "08090a0b0c0d0e0f" + "0001020304050607" +
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" + "00000003" + "00000003" + "616263"
	if got := hex.EncodeToString(f.encode()); got != want {
		t.Errorf("\n%s, want\n%s", got, want)
	}
	if got := f.id.String(); got != "00010203-0405-0607-0809-0a0b0c0d0e0f" {
		t.Errorf("id %s", got)
	}
}

func TestWhatIsNoFrameIsRefused(t *testing.T) {
	good := frame{kind: typeOutput, sequence: 1, payload: []byte("abc")}.encode()
	change := func(at int, b byte) []byte {
		bad := bytes.Clone(good)
		bad[at] = b
		return bad
	}
	for name, b := range map[string][]byte{
		"nothing":                   nil,
		"cut in the header":         good[:100],
		"cut in the payload":        good[:len(good)-1],
		"a header that is short":    change(3, 10),
		"a header beyond the end":   change(2, 1),
		"a payload beyond the end":  change(headerLength+3, 4),
		"another payload":           change(overhead, 'x'),
		"a negative number":         change(offSequence, 0x80),
		"a header of four gigabyte": change(0, 0xff),
	} {
		if f, err := decode(b); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(frame{kind: typeOutput, sequence: 1, what: payloadOutput, payload: []byte("abc")}.encode())
	f.Add(frame{kind: typeStart}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(got.encode())
		if len(got.kind) > maxTypeName || err != nil || again.sequence != got.sequence || again.id != got.id ||
			!bytes.Equal(again.payload, got.payload) {
			t.Errorf("%+v, %+v, %v", got, again, err)
		}
	})
}

func TestFramesAreTakenInOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		come  []int64
		ready []int
		acked []bool
	}{
		"in order":      {[]int64{0, 1, 2}, []int{1, 1, 1}, []bool{true, true, true}},
		"one overtakes": {[]int64{1, 0, 2}, []int{0, 2, 1}, []bool{true, true, true}},
		"doubles": {
			[]int64{0, 0, 2, 2, 1, 1, 2}, []int{1, 0, 0, 0, 2, 0, 0}, []bool{true, true, true, true, true, true, true},
		},
		"the last comes first":  {[]int64{3, 2, 1, 0}, []int{0, 0, 0, 4}, []bool{true, true, true, true}},
		"one beyond all bounds": {[]int64{1 << 40}, []int{0}, []bool{true}},
	} {
		var in inbox
		next := int64(0)
		for i, n := range tt.come {
			ready, acked := in.take(frame{sequence: n}, true)
			if len(ready) != tt.ready[i] || acked != tt.acked[i] {
				t.Errorf("%s: frame %d: %d ready, %v", name, n, len(ready), acked)
			}
			for _, f := range ready {
				if f.sequence != next {
					t.Errorf("%s: %d instead of %d", name, f.sequence, next)
				}
				next++
			}
		}
	}
}

func TestTooMuchIsNotAcknowledged(t *testing.T) {
	var in inbox
	if ready, acked := in.take(frame{}, false); ready != nil || acked {
		t.Error("a frame was taken without room")
	}
	for n := range int64(maxAhead) {
		if _, acked := in.take(frame{sequence: n + 1}, true); !acked {
			t.Fatalf("frame %d was not kept", n)
		}
	}
	if _, acked := in.take(frame{sequence: maxAhead + 1}, true); acked || len(in.ahead) != maxAhead {
		t.Errorf("%d frames are kept", len(in.ahead))
	}
	if ready, _ := in.take(frame{}, true); len(ready) != maxAhead+1 || in.bytes != 0 || len(in.ahead) != 0 {
		t.Errorf("%d are ready, %d are kept", len(ready), len(in.ahead))
	}
	var big inbox
	for n := int64(1); ; n++ {
		if _, acked := big.take(frame{sequence: n, payload: make([]byte, 1<<20)}, true); !acked {
			if n != maxAheadBytes>>20+1 {
				t.Errorf("%d MiB are kept", n-1)
			}
			break
		}
	}
}

func TestWhatIsNotAcknowledgedIsSentAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	out := newOutbox()
	for range 3 {
		out.add(payloadOutput, []byte("x"), now)
	}
	at := func(d time.Duration, want int) {
		t.Helper()
		if again, lost := out.due(now.Add(d)); len(again) != want || lost {
			t.Errorf("after %v: %d again, lost %v, want %d", d, len(again), lost, want)
		}
	}
	at(100*time.Millisecond, 0)
	at(200*time.Millisecond, 3)
	at(300*time.Millisecond, 0)
	out.acked(1, now.Add(400*time.Millisecond))
	out.acked(1, now.Add(400*time.Millisecond)) // twice
	out.acked(7, now.Add(400*time.Millisecond)) // of nothing
	at(1200*time.Millisecond, 2)                // what was lost once is given a second
	out.acked(0, now.Add(time.Second))
	out.acked(2, now.Add(time.Second))
	at(time.Hour, 0)
	out.add(payloadOutput, nil, now)
	if _, lost := out.due(now.Add(giveUp)); !lost {
		t.Error("it goes on for ever")
	}
}

func TestTheTimeoutFollowsTheRoundTrip(t *testing.T) {
	now := time.Unix(1000, 0)
	out := newOutbox()
	trip := func(d time.Duration, times int) {
		for range times {
			n := out.next
			out.add(payloadOutput, nil, now)
			out.acked(n, now.Add(d))
		}
	}
	trip(2*time.Millisecond, 100)
	if out.timeout > 15*time.Millisecond {
		t.Errorf("%v on a short way", out.timeout)
	}
	trip(5*time.Second, 100)
	if out.timeout != maxTimeout {
		t.Errorf("%v on an endless way", out.timeout)
	}
	for !out.full() {
		out.add(payloadOutput, nil, now)
	}
	if len(out.unacked) != window {
		t.Errorf("%d under way", len(out.unacked))
	}
}

func TestEachActionOfAHandshakeIsAnswered(t *testing.T) {
	for name, tt := range map[string]struct {
		request, want string
		refused       bool
	}{
		"a terminal": {
			`{"AgentVersion":"3","RequestedClientActions":[{"ActionType":"SessionType","ActionParameters":{"SessionType":"InteractiveCommands"}}]}`,
			`{"ClientVersion":"` + clientVersion +
				`","ProcessedClientActions":[{"ActionType":"SessionType","ActionStatus":1,"ActionResult":null,"Error":""}],"Errors":[]}`, false,
		},
		"a port": {
			request: `{"RequestedClientActions":[{"ActionType":"SessionType","ActionParameters":{"SessionType":"Port"}}]}`,
			refused: true,
		},
		"encryption": {
			request: `{"RequestedClientActions":[{"ActionType":"KMSEncryption","ActionParameters":{}}]}`, refused: true,
		},
		"we know not": {request: `{"RequestedClientActions":[{"ActionType":"Dance"}]}`, refused: true},
	} {
		response, refusal, err := answer([]byte(tt.request))
		if err != nil || (refusal != nil) != tt.refused || tt.want != "" && string(response) != tt.want {
			t.Errorf("%s: %s, %v, %v", name, response, refusal, err)
		}
	}
	if _, _, err := answer([]byte("x")); err == nil {
		t.Error("no JSON was answered")
	}
}
