package resolve

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
)

// TestEnvFileValue reads as the syntax of these files.
func TestEnvFileValue(t *testing.T) {
	for name, tt := range map[string]struct{ file, key, want, err string }{
		"one of several":            {file: "A='1'\nB='2'\n", key: "B", want: "2"},
		"the first of two":          {file: "A='1'\nA='2'\n", key: "A", want: "1"},
		"none":                      {file: "A='1'\n", key: "B"},
		"an empty file":             {key: "A"},
		"without a last newline":    {file: "A='1'", key: "A", want: "1"},
		"indented, blank, comments": {file: " \t\n# A='0'\n  \tA='1' # one\n", key: "A", want: "1"},
		"as it stands":              {file: `A=' $B "x" \n # '`, key: "A", want: ` $B "x" \n # `},
		"over lines":                {file: "A='1\n 2\n\n3'\nB='x'", key: "A", want: "1\n 2\n\n3"},
		"after lines":               {file: "A='1\n2'\nB='x'", key: "B", want: "x"},
		"of DOS":                    {file: "A='1\r\n2'\r\nB='x'\r\n", key: "A", want: "1\n2"},
		"a space after =":           {file: "A= '1'\n", key: "A"},
		"a space after another =":   {file: "A= '1'\nB='2'\n", key: "B", want: "2"},
		"a space before =": {
			file: "A ='1'\n", key: "A", err: "at line 1: whitespace before '=' is not allowed",
		},
		"no =":    {file: "A='1'\nB\n", key: "B", err: "at line 2: missing '='"},
		"no name": {file: "='1'\n", key: "A", err: "at line 1: empty variable name"},
		"no quotes": {
			file: "\nA=1\n", key: "A", err: "at line 2: value must be enclosed in single quotes",
		},
		"double quotes": {file: `A="1"`, key: "A", err: "value must be enclosed in single quotes"},
		"nothing":       {file: "A=\n", key: "A", err: "value must be enclosed in single quotes"},
		"something behind": {
			file: "A='1'2\n", key: "A", err: "at line 1: unexpected content after closing quote",
		},
		"a quote without end": {
			file: "B='1'\nA='1\n2\n", key: "A", err: "starting at line 2: unclosed single quote",
		},
		"an error before it":              {file: "B\nA='1'\n", key: "A", err: "at line 1"},
		"what follows is not looked at":   {file: "A='1'\nB\n", key: "A", want: "1"},
		"the name, not the end of a name": {file: "AB='1'\nB='2'\n", key: "B", want: "2"},
	} {
		got, err := envFileValue([]byte(tt.file), tt.key)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %q, %v; want %q, %q", name, got, err, tt.want, tt.err)
		}
	}
}

func TestFileKeyRef(t *testing.T) {
	file := EnvFile{Volume: "v", Path: "p/env"}
	key := func(key string, mayLack bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{
			VolumeName: "v", Path: "p/env", Key: key, Optional: &mayLack,
		}}
	}
	gone := Object[[]byte]{Err: backend.Errorf(backend.ErrNotFound, "read v/p/env: no such file")}
	for name, tt := range map[string]struct {
		from *corev1.EnvVarSource
		file Object[[]byte]
		want string
		err  string
	}{
		"a value, with what is made of it": {
			from: key("A", false), file: Object[[]byte]{Value: []byte("A='s3'")}, want: "V=s3 W=<s3>",
		},
		"no such key": {
			from: key("B", false), file: Object[[]byte]{Value: []byte("A='s3'")},
			err: `environment variable key "B" not found in file "p/env" of volume "v"`,
		},
		"no such key, optional": {from: key("B", true), file: Object[[]byte]{Value: []byte("A='s3'")}, want: "W=<$(V)>"},
		"no such file": {
			from: key("A", false), file: gone, err: "couldn't parse env file: read v/p/env: no such file",
		},
		"no such file, optional": {from: key("A", true), file: gone, want: "W=<$(V)>"},
		"an odd file, optional": {
			from: key("A", true), file: Object[[]byte]{Err: errors.New("it is larger")},
			err: "couldn't parse env file: it is larger",
		},
		"not the syntax, optional": {
			from: key("A", true), file: Object[[]byte]{Value: []byte("A=s3")}, err: "couldn't parse env file",
		},
	} {
		c := &corev1.Container{Env: []corev1.EnvVar{{Name: "V", ValueFrom: tt.from}, {Name: "W", Value: "<$(V)>"}}}
		if files := EnvFilesOf(c); len(files) != 1 || files[0] != file {
			t.Fatalf("files %v", files)
		}
		o := Objects{ServicesSynced: true, EnvFiles: map[EnvFile]Object[[]byte]{file: tt.file}}
		out, origins, err := Resolve(&corev1.Pod{}, c, o, Node{}, Addresses{})
		if err != nil {
			if tt.err == "" || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "s3") {
				t.Errorf("%s: %v, want %q", name, err, tt.err)
			}
			continue
		}
		var got []string
		for _, e := range out.Env {
			if !strings.HasPrefix(e.Name, "KUBERNETES_") {
				got = append(got, e.Name+"="+e.Value)
			}
		}
		if strings.Join(got, " ") != tt.want || tt.err != "" {
			t.Errorf("%s: %q, want %q or error %q", name, got, tt.want, tt.err)
		}
		if tt.want == "V=s3 W=<s3>" && (!origins.Env["V"].Secret() || !origins.Env["W"].Secret()) {
			t.Errorf("origins %v", origins.Env)
		}
	}
}
