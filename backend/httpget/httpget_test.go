package httpget

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRequest(t *testing.T) {
	kubelet := http.Header{"User-Agent": {"kube-probe/1.36"}, "Accept": {"*/*"}}
	for name, tt := range map[string]struct {
		get    Get
		url    string
		host   string
		header http.Header
	}{
		"least":          {Get{Address: "a:80"}, "http://a:80", "", kubelet},
		"a path":         {Get{Address: "a:80", Path: "/a?b=c#d"}, "http://a:80/a?b=c#d", "", kubelet},
		"a path of none": {Get{Address: "a:80", Path: "/%zz"}, "http://a:80/%25zz", "", kubelet},
		// A path may look like a reference to elsewhere; it is asked of the address.
		"a path elsewhere": {Get{Address: "a:80", Path: "https://b:1/x"}, "http://a:80/x", "", kubelet},
		"with TLS":         {Get{Scheme: "HTTPS", Address: "[fd00::1]:443"}, "https://[fd00::1]:443", "", kubelet},
		"its headers": {
			Get{Address: "a:80", Headers: http.Header{
				"Host": {"virtual"}, "X-A": {"1", "2"}, "User-Agent": {"mine"}, "Accept": {""},
			}},
			"http://a:80", "virtual",
			http.Header{"Host": {"virtual"}, "X-A": {"1", "2"}, "User-Agent": {"mine"}},
		},
		"no user agent": {
			Get{Address: "a:80", Headers: http.Header{"User-Agent": {""}, "Accept": {"text/plain"}}},
			"http://a:80", "",
			http.Header{"User-Agent": {""}, "Accept": {"text/plain"}},
		},
	} {
		given := tt.get.Headers.Clone()
		req, err := tt.get.Request(t.Context(), ForProbe)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if req.URL.String() != tt.url || req.Host != tt.host {
			t.Errorf("%s: %s of %q, want %s of %q", name, req.URL, req.Host, tt.url, tt.host)
		}
		if diff := cmp.Diff(tt.header, req.Header); diff != "" {
			t.Errorf("%s: headers (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(given, tt.get.Headers); diff != "" {
			t.Errorf("%s: the given headers changed:\n%s", name, diff)
		}
	}
	if got := ForLifecycle.UserAgent(); got != "kube-lifecycle/1.36" {
		t.Errorf("hooks call themselves %s", got)
	}
	if _, err := (Get{Scheme: "HT TP", Address: "a:80"}).Request(t.Context(), ForProbe); err == nil {
		t.Error("a scheme that is none was taken")
	}
}

// TestRedirectsStayOnTheHost: one to another host is the answer, and ten are too many.
func TestRedirectsStayOnTheHost(t *testing.T) {
	req := func(text string) *http.Request {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: u}
	}
	for name, tt := range map[string]struct {
		to   string
		via  int
		want string
	}{
		"the same host":          {"https://a:2/x", 1, "<nil>"},
		"the ninth":              {"http://a:1/", 9, "<nil>"},
		"the tenth":              {"http://a:1/", 10, "stopped after 10 redirects"},
		"another host":           {"http://b:1/", 1, http.ErrUseLastResponse.Error()},
		"another host, the last": {"http://b:1/", 10, http.ErrUseLastResponse.Error()},
	} {
		via := slices.Repeat([]*http.Request{req("http://a:1/")}, tt.via)
		if got := fmt.Sprint(sameHost(req(tt.to), via)); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestAnswers(t *testing.T) {
	for code, fails := range map[int]bool{199: true, 200: false, 299: false, 399: false, 400: true, 503: true} {
		want := ""
		if fails {
			want = fmt.Sprintf("HTTP probe failed with statuscode: %d", code)
		}
		if got := Failure(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
	broken := errors.New("cut off")
	for name, tt := range map[string]struct {
		body io.Reader
		want int
		err  error
	}{
		"short":   {strings.NewReader("ok"), 2, nil},
		"whole":   {strings.NewReader(strings.Repeat("x", MaxBody)), MaxBody, nil},
		"longer":  {io.MultiReader(strings.NewReader(strings.Repeat("x", MaxBody)), failing{broken}), MaxBody, nil},
		"cut off": {io.MultiReader(strings.NewReader("ok"), failing{broken}), 2, broken},
	} {
		if got, err := Read(tt.body); len(got) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// failing is a body that is cut off.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// trips answers by scheme, and notes what it was asked.
type trips struct {
	answers map[string]error
	asked   []string
}

func (r *trips) RoundTrip(req *http.Request) (*http.Response, error) {
	r.asked = append(r.asked, req.URL.String()+" "+req.Header.Get("Authorization"))
	if err := r.answers[req.URL.Scheme]; err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody}, nil
}

func TestHook(t *testing.T) {
	refused := errors.New("connection refused")
	const plain, secure, inTheClear = "http://a:1/x secret", "https://a:1/x secret", "http://a:1/x "
	for name, tt := range map[string]struct {
		scheme  string
		answers map[string]error
		asked   []string
		err     error
		again   []error // how asking without TLS ended, each time it was done
	}{
		"any answer will do": {"HTTP", nil, []string{plain}, nil, nil},
		"with TLS":           {"HTTPS", nil, []string{secure}, nil, nil},
		"no answer":          {"HTTP", map[string]error{"http": refused}, []string{plain}, refused, nil},
		"no answer with TLS": {"HTTPS", map[string]error{"https": refused}, []string{secure}, refused, nil},
		"a server that speaks none": {
			"HTTPS", map[string]error{"https": http.ErrSchemeMismatch}, []string{secure, inTheClear}, nil, []error{nil},
		},
		"nor answers without": {
			"HTTPS",
			map[string]error{"https": http.ErrSchemeMismatch, "http": refused},
			[]string{secure, inTheClear},
			http.ErrSchemeMismatch,
			[]error{refused},
		},
	} {
		get := Get{Scheme: tt.scheme, Address: "a:1", Path: "/x", Headers: http.Header{"Authorization": {"secret"}}}
		req, err := get.Request(t.Context(), ForLifecycle)
		if err != nil {
			t.Fatal(err)
		}
		for _, heard := range []bool{true, false} {
			r := &trips{answers: tt.answers}
			var again []error
			hear := func(err error) { again = append(again, err) }
			if !heard {
				hear, again = nil, tt.again
			}
			err := Hook(&http.Client{Transport: r}, req, hear)
			if !errors.Is(err, tt.err) || !slices.Equal(r.asked, tt.asked) || !slices.EqualFunc(again, tt.again, errors.Is) {
				t.Errorf("%s: asked %q: %v, again: %v", name, r.asked, err, again)
			}
		}
	}
}
