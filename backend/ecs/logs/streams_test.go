package logs

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burstlet/burstlet/backend"
)

func TestHowOftenALogMayBeReadDependsOnTheRegion(t *testing.T) {
	for region, want := range map[string]int{"us-east-1": 25, "eu-west-1": 10, "eu-west-3": 30, "": 25} {
		if got := newLogStreams(nil, region, "g").calls; int(got.Limit()) != want || got.Burst() != want {
			t.Errorf("%s: %v a second, %d at once", region, got.Limit(), got.Burst())
		}
	}
}

// Those who follow one log share its calls; a page is as new as who asks for it wants.
func TestWhoReadsTheSamePageSharesACall(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration // the first reading
		asOf  time.Duration // how old a page may be, from then
		token string
		calls int
	}{
		"at once":           {0, -logPoll, "f/0", 1},
		"a moment later":    {logPoll - 1, -logPoll, "f/0", 1},
		"too late":          {logPoll, -logPoll, "f/0", 2},
		"a newer one":       {time.Millisecond, 1, "f/0", 2},
		"another page":      {0, -logPoll, "f/1", 2},
		"without the token": {0, -logPoll, "", 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			api, begun := &paged{pages: [][]string{{"a"}, {"b"}}}, time.Now()
			s := newLogStreams(api, "", "g")
			if _, err := s.forward(t.Context(), "s", "f/0", time.Time{}, begun); err != nil {
				t.Fatal(err)
			}
			if err := sleep(t.Context(), tc.after); err != nil {
				t.Fatal(err)
			}
			page, err := s.forward(t.Context(), "s", tc.token, time.Time{}, begun.Add(tc.asOf))
			if err != nil || len(page.lines) != 1 || len(api.calls) != tc.calls {
				t.Errorf("%s: %+v, %v after %d calls", name, page, err, len(api.calls))
			}
			if len(s.pages) > tc.calls {
				t.Errorf("%s: %d pages are kept", name, len(s.pages))
			}
		})
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A reader whose client goes away takes the page from nobody else.
func TestAReaderThatGoesAwayFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &paged{pages: [][]string{{"a"}}, hold: make(chan struct{})}
		s := newLogStreams(api, "", "g")
		away, leave := context.WithCancel(t.Context())
		first, second, third := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		read := func(ctx context.Context, done chan<- error) {
			_, err := s.forward(ctx, "s", "", time.Time{}, time.Now().Add(-logPoll))
			done <- err
		}
		go read(away, first)
		synctest.Wait()
		go read(t.Context(), second)
		impatient, giveUp := context.WithCancel(t.Context())
		go read(impatient, third)
		synctest.Wait()
		if len(api.calls) != 1 {
			t.Errorf("%d calls for one page", len(api.calls))
		}
		giveUp()
		if err := <-third; !errors.Is(err, context.Canceled) {
			t.Errorf("who waits no longer: %v", err)
		}
		leave()
		if err := <-first; err == nil {
			t.Error("who went away got a page")
		}
		close(api.hold)
		if err := <-second; err != nil || len(api.calls) != 2 {
			t.Errorf("who stays: %v after %d calls", err, len(api.calls))
		}
	})
}

func TestWhatErrorsOfCloudWatchComeTo(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		class error
		want  string // "": an empty page, the last for now
	}{
		"no stream yet": {awsError("ResourceNotFoundException", "The specified log stream does not exist."), nil, ""},
		"no group": {
			awsError("ResourceNotFoundException", "The specified log group does not exist."), backend.ErrNotFound,
			"log group /pods is not there: create it, or correct backend.ecs.logGroup",
		},
		"too often":    {awsError("ThrottlingException", "Rate exceeded"), backend.ErrThrottled, "get log events of s: "},
		"not allowed":  {awsError("AccessDeniedException", "no"), backend.ErrDenied, "get log events of s: "},
		"out of order": {awsError("ServiceUnavailableException", "no"), backend.ErrUnavailable, "get log events of s: "},
		"no answer":    {errors.New("connection reset"), backend.ErrUnavailable, "get log events of s: "},
		"our fault":    {awsError("InvalidParameterException", "bad token"), nil, "bad token"},
	} {
		s := newLogStreams(&paged{errors: []error{tc.err}}, "", "/pods")
		page, err := s.forward(t.Context(), "s", "f/7", time.Time{}, time.Now())
		switch {
		case tc.want == "":
			if err != nil || !page.last || page.forward != "f/7" || len(page.lines) > 0 {
				t.Errorf("%s: %+v, %v", name, page, err)
			}
		case err == nil || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%s: %v", name, err)
		case tc.class != nil && !errors.Is(err, tc.class), tc.class == nil &&
			backend.Class(err) != backend.Class(errors.New("")):
			t.Errorf("%s: of class %s", name, backend.Class(err))
		}
		if len(s.pages) > 0 != (err == nil) {
			t.Errorf("%s: %d pages are shared", name, len(s.pages))
		}
	}
}
