package shell_test

import "testing"

// TestWhatCommandsGet: variables that are exported, and nothing of what a shell inside or a part
// of a pipeline changed for itself (POSIX, "Shell Execution Environment").
func TestWhatCommandsGet(t *testing.T) {
	for line, want := range map[string]said{
		"printenv A":                          {Out: "3\n"},
		"A=9; printenv A":                     {Out: "9\n"}, // one of the container stays exported
		"Z=9; printenv Z":                     {Status: 1},
		"Z=9; echo $Z":                        {Out: "9\n"},
		"Z=9; export Z; printenv Z":           {Out: "9\n"},
		"export Z=9; Z=10; printenv Z":        {Out: "10\n"},
		"export Z=1 Y=2; printenv Y Z":        {Out: "2\n1\n"},
		"export A; printenv A":                {Out: "3\n"},
		"export Z; printenv Z":                {Status: 1},
		"export Z=; printenv Z":               {Out: "\n"},
		"export Z=a=b; printenv Z":            {Out: "a=b\n"},
		"Z=9; env | grep Z":                   {Status: 1},
		"export Z=9; env | grep Z":            {Out: "Z=9\n"},
		"A=9; env | grep ^A":                  {Out: "A=9\n"},
		"Z=5; sh -c 'echo [$Z]'":              {Out: "[]\n"},
		"export Z=5; sh -c 'echo [$Z]'":       {Out: "[5]\n"},
		"A=5; sh -c 'echo [$A]'":              {Out: "[5]\n"},
		"sh -c 'Z=5'; echo [$Z]":              {Out: "[]\n"},
		"sh -c 'export Z=5'; echo [$Z]":       {Out: "[]\n"},
		"sh -c 'A=5; echo $A'; echo $A":       {Out: "5\n3\n"},
		"sh -c 'A=5; sh -c \"printenv A\"'":   {Out: "5\n"},
		"sh -c 'cd d; pwd'; pwd":              {Out: "/home/d\n/home\n"},
		"sh -c 'cd d; exit 3'; echo $?; pwd":  {Out: "3\n/home\n"},
		"cd d; sh -c pwd":                     {Out: "/home/d\n"},
		"cd d; sh -c 'cd ..; pwd'; pwd":       {Out: "/home\n/home/d\n"},
		"echo 'cd d; A=8' | sh; pwd; echo $A": {Out: "/home\n3\n"},
		"echo 'echo $A $Z' | sh":              {Out: "3\n"},
		"cd d | cat; pwd":                     {Out: "/home\n"},
		"true | cd d; pwd":                    {Out: "/home\n"},
		"A=9 | cat; echo $A":                  {Out: "3\n"},
		"true | export Z=1; echo [$Z]":        {Out: "[]\n"},
		"cd d && cat in | wc -c; pwd":         {Out: "6\n/home/d\n"},
		"echo x > f | cat; cat f":             {Out: "x\n"}, // files are everybody's
		"sh -c 'echo x > f'; cat f":           {Out: "x\n"},
		"sh -c 'cd d; echo x > f'; cat d/f":   {Out: "x\n"},
		"sh -c 'false'; echo $?":              {Out: "1\n"},
		"false; sh -c 'echo $?'":              {Out: "0\n"},
		"hostname; HOSTNAME=other; hostname":  {Out: "pod\npod\n"},
		"export HOSTNAME=x; hostname":         {Out: "pod\n"},
		"HOSTNAME=other; printenv HOSTNAME":   {Out: "other\n"},
		"PATH=; printenv PATH":                {Out: "\n"},
		"A=; echo [$A]; printenv A; echo $?":  {Out: "[]\n\n0\n"},
		"A=1 B=2; printenv A B":               {Out: "1\n2\n"},
		"A=$A$A; printenv A":                  {Out: "33\n"},
		"A=1 B=$A; echo $B":                   {Out: "1\n"},
		"A=1 Z=$A Y=$Z; echo $A$Z$Y":          {Out: "111\n"},
		"A='a  b'; printenv A":                {Out: "a  b\n"},
		"_X1=a; echo $_X1 ${_X1}2":            {Out: "a a2\n"},
		"1X=a; echo $?":                       {Out: "127\n", Unknown: []string{"1X=a"}},
		"A-B=1; echo $?":                      {Out: "127\n", Unknown: []string{"A-B=1"}},
		"A=1 echo $A":                         {Status: 127, Unknown: []string{"A=1"}},
		"A=9 printenv A":                      {Status: 127, Unknown: []string{"A=9"}},
		"unset A; echo $A":                    {Out: "3\n", Unknown: []string{"unset"}},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}
