package criconfig

import "testing"

func TestAllowedHostPath(t *testing.T) {
	c := Config{HostPaths: []HostPath{
		{PathPrefix: "/var/log", ReadOnly: true},
		{PathPrefix: "/srv"},
		{PathPrefix: "/srv/data"},
		{PathPrefix: "/var/log/app"},
	}}
	for _, tc := range []struct {
		path     string
		writable bool
		want     string
	}{
		{"/var/log", false, "/var/log"},
		{"/var/log", true, ""},
		{"/var/log/", false, "/var/log"},
		{"/var/log/pods", false, "/var/log"},
		{"/var/logs", false, ""},
		{"/var/log/../lib", false, ""},
		{"/var", false, ""},
		{"/", false, ""},
		{"var/log", false, ""},
		{"", false, ""},
		{"/srv/x", true, "/srv"},
		{"/srv/data/x", true, "/srv"},
		{"/srv/data", true, "/srv/data"}, // itself before what it is below
		{"/var/log/app/x", true, "/var/log/app"},
		{"/var/log/app", false, "/var/log/app"},
	} {
		got, ok := c.AllowedHostPath(tc.path, tc.writable)
		if got.PathPrefix != tc.want || ok != (tc.want != "") {
			t.Errorf("%q, writable %v: %v, %v, want %q", tc.path, tc.writable, got, ok, tc.want)
		}
	}
	all := Config{HostPaths: []HostPath{{PathPrefix: "/", ReadOnly: true}}}
	if got, ok := all.AllowedHostPath("/etc/x", false); !ok || !got.Whole("/etc/x") {
		t.Errorf("/etc/x below /: %v, %v", got, ok)
	}
	if _, ok := all.AllowedHostPath("/etc/x", true); ok {
		t.Error("/etc/x is writable below a read-only /")
	}
}

func TestHostPathBelow(t *testing.T) {
	for _, tc := range []struct{ prefix, path, want string }{
		{"/a", "/a", "."},
		{"/a", "/a/b/c", "b/c"},
		{"/a", "/ab", ""},
		{"/", "/", "."},
		{"/", "/a/b", "a/b"},
		{"/a/b", "/a", ""},
	} {
		if got, ok := (HostPath{PathPrefix: tc.prefix}).Below(tc.path); ok != (tc.want != "") || ok && got != tc.want {
			t.Errorf("%s in %s: %q, %v, want %q", tc.path, tc.prefix, got, ok, tc.want)
		}
	}
}

func TestHostPathErrors(t *testing.T) {
	for path, ok := range map[string]bool{
		"/": true, "/a": true, "/a/b": true, "": false, "a": false, "/a/": false, "/a/../b": false, "/a//b": false,
		"/..": false,
	} {
		if errs := HostPathErrors(nil, []HostPath{{PathPrefix: path}}); (len(errs) == 0) != ok {
			t.Errorf("%q: %v", path, errs)
		}
	}
}
