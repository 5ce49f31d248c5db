package shell_test

import "testing"

// TestEcho: flags are those that busybox knows, before the first word that is none.
func TestEcho(t *testing.T) {
	for line, out := range map[string]string{
		"echo":                  "\n",
		"echo a  b":             "a b\n",
		"echo 'a  b'":           "a  b\n",
		"echo ''":               "\n",
		"echo '' ''":            " \n",
		"echo a '' b":           "a  b\n",
		"echo -n":               "",
		"echo -n a b":           "a b",
		"echo -n -n a":          "a",
		"echo -nn a":            "a",
		"echo a -n":             "a -n\n",
		"echo -x a":             "-x a\n",
		"echo -nx a":            "-nx a\n",
		"echo - a":              "- a\n",
		"echo -- a":             "-- a\n",
		"echo '-n a'":           "-n a\n",
		`echo 'a\nb'`:           "a\\nb\n",
		`echo "a\nb"`:           "a\\nb\n",
		`echo -e 'a\nb'`:        "a\nb\n",
		`echo -e 'a\tb\\c'`:     "a\tb\\c\n",
		`echo -e '\\n'`:         "\\n\n",
		`echo -ne 'x\ty'`:       "x\ty",
		`echo -en 'x\ty'`:       "x\ty",
		`echo -n -e 'x\r'`:      "x\r",
		`echo -e 'a\qb'`:        "a\\qb\n",
		`echo -E 'a\nb'`:        "a\\nb\n",
		`echo -e -E 'a\nb'`:     "a\\nb\n",
		`echo -E -e 'a\nb'`:     "a\nb\n",
		`echo -eE 'a\nb'`:       "a\\nb\n",
		`echo "\a\$A\"\\"`:      "\\a$A\"\\\n",
		`echo a'b'"c"`:          "abc\n",
		`echo "$A"'$A'$A`:       "3$A3\n",
		`echo ${A}x $A.txt $Ax`: "3x 3.txt\n",
		`echo $NONE a`:          "a\n",
		`echo "$NONE" a`:        " a\n",
		"echo a#b # c":          "a#b\n",
		"echo 'a\nb'":           "a\nb\n",
		"echo \"a\nb\"":         "a\nb\n",
		"echo \"a\\\nb\"":       "ab\n", // the line goes on
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, said{Out: out}) })
	}
}
