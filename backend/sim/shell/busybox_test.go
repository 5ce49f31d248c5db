package shell_test

import "testing"

// The rows of these tables are what busybox 1.35 does.

// TestListing: ls lists files, then directories with their names, sorted; hidden names only if asked for.
func TestListing(t *testing.T) {
	for line, want := range map[string]said{
		"ls a":               {Out: "a\n"},
		"ls a d":             {Out: "a\n\nd:\nin\n"},
		"ls d a":             {Out: "a\n\nd:\nin\n"},
		"ls d made":          {Out: "d:\nin\n\nmade:\n"},
		"ls -d d":            {Out: "d\n"},
		"ls -1":              {Out: "a\nd\nempty\nmade\n"},
		"ls -a":              {Out: ".\n..\na\nd\nempty\nmade\n"},
		"ls -A":              {Out: "a\nd\nempty\nmade\n"},
		"ls -l a | wc -l":    {Out: "1\n"},
		"ls none; echo $?":   {Out: "1\n", Err: "ls: none: No such file or directory\n"},
		"ls none a; echo $?": {Out: "a\n1\n", Err: "ls: none: No such file or directory\n"},
		"ls /home/d":         {Out: "in\n"},
		"ls d/":              {Out: "in\n"},
		"ls d/in":            {Out: "d/in\n"},
		"ls a d made none": {
			Out: "a\n\nd:\nin\n\nmade:\n", Err: "ls: none: No such file or directory\n", Status: 1,
		},
		"ls a empty":         {Out: "a\nempty\n"},
		"ls empty a":         {Out: "a\nempty\n"},
		"ls -d .":            {Out: ".\n"},
		"ls -d":              {Out: ".\n"},
		"ls ''; echo $?":     {Out: "1\n", Err: "ls: : No such file or directory\n"},
		"ls d none; echo $?": {Out: "d:\nin\n1\n", Err: "ls: none: No such file or directory\n"},
		"ls none d; echo $?": {Out: "d:\nin\n1\n", Err: "ls: none: No such file or directory\n"},
		"touch .h; ls":       {Out: "a\nd\nempty\nmade\n"},
		"touch .h; ls -a":    {Out: ".\n..\n.h\na\nd\nempty\nmade\n"},
		"touch .h; ls -A":    {Out: ".h\na\nd\nempty\nmade\n"},
		"touch d/.h; ls d":   {Out: "in\n"},
		"touch .h; ls .h":    {Out: ".h\n"},
		"ls -d . d":          {Out: ".\nd\n"},
		"ls d d":             {Out: "d:\nin\n\nd:\nin\n"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestHeadAndTail: parts of files, headed by their names where there are several.
func TestHeadAndTail(t *testing.T) {
	for line, want := range map[string]said{
		"head a":                        {Out: "one\ntwo\nthree\n"},
		"head -n 1 a":                   {Out: "one\n"},
		"head -1 a":                     {Out: "one\n"},
		"head -n1 a":                    {Out: "one\n"},
		"head -n 0 a":                   {},
		"head -0 a":                     {},
		"head -c 1 a":                   {Out: "o"},
		"head -c1 a":                    {Out: "o"},
		"head -c 0 a":                   {},
		"head -n 99 a":                  {Out: "one\ntwo\nthree\n"},
		"head -n 1 a d/in":              {Out: "==> a <==\none\n\n==> d/in <==\ninside"},
		"head -n 1 a empty":             {Out: "==> a <==\none\n\n==> empty <==\n"},
		"head -n 1 a none; echo $?":     {Out: "==> a <==\none\n1\n", Err: "head: none: No such file or directory\n"},
		"head none; echo $?":            {Out: "1\n", Err: "head: none: No such file or directory\n"},
		"head -n 1 < a":                 {Out: "one\n"},
		"head -n 1 - < a":               {Out: "one\n"},
		"cat a | head -n 1":             {Out: "one\n"},
		"head -c 2 a d/in":              {Out: "==> a <==\non\n==> d/in <==\nin"},
		"tail a":                        {Out: "one\ntwo\nthree\n"},
		"tail -n 1 a":                   {Out: "three\n"},
		"tail -1 a":                     {Out: "three\n"},
		"tail -n1 a":                    {Out: "three\n"},
		"tail -n 0 a":                   {},
		"tail -n +1 a":                  {Out: "one\ntwo\nthree\n"},
		"tail -n +2 a":                  {Out: "two\nthree\n"},
		"tail -n +9 a":                  {},
		"tail +2 a":                     {Out: "two\nthree\n"},
		"tail -c 2 a":                   {Out: "e\n"},
		"tail -c +2 a":                  {Out: "ne\ntwo\nthree\n"},
		"tail -c 99 a":                  {Out: "one\ntwo\nthree\n"},
		"tail -n 99 a":                  {Out: "one\ntwo\nthree\n"},
		"tail -c 0 a":                   {},
		"tail -n 1 d/in":                {Out: "inside"},
		"tail -n 2 d/in":                {Out: "inside"},
		"tail -n 1 a d/in":              {Out: "==> a <==\nthree\n\n==> d/in <==\ninside"},
		"tail -n 1 empty":               {},
		"cat a | head -n 2 | tail -n 1": {Out: "two\n"},
		"head -n 2 a a":                 {Out: "==> a <==\none\ntwo\n\n==> a <==\none\ntwo\n"},
		"head -n 1 none none; echo $?": {
			Out: "1\n", Err: "head: none: No such file or directory\nhead: none: No such file or directory\n",
		},
		"tail -n 1 a empty": {Out: "==> a <==\nthree\n\n==> empty <==\n"},
		"tail -n 1 empty a": {Out: "==> empty <==\n\n==> a <==\nthree\n"},
		"tail -c 3 a d/in":  {Out: "==> a <==\nee\n\n==> d/in <==\nide"},
		"tail -n +3 a d/in": {Out: "==> a <==\nthree\n\n==> d/in <==\n"},
		"head -c 3 empty a": {Out: "==> empty <==\n\n==> a <==\none"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestCounts: wc counts what is asked for, and a total of several files.
func TestCounts(t *testing.T) {
	for line, want := range map[string]said{
		"wc -l < a": {Out: "3\n"},
		"wc -c < a": {Out: "14\n"},
		"wc < a":    {Out: "        3         3        14\n"},
		"wc a":      {Out: "        3         3        14 a\n"},
		"wc a empty": {
			Out: "        3         3        14 a\n        0         0         0 empty\n        3         3        14 total\n",
		},
		"wc -l a empty":       {Out: "        3 a\n        0 empty\n        3 total\n"},
		"wc -w a d/in":        {Out: "        3 a\n        1 d/in\n        4 total\n"},
		"wc -lw a":            {Out: "        3         3 a\n"},
		"wc -cl a":            {Out: "        3        14 a\n"},
		"wc -l none":          {Err: "wc: none: No such file or directory\n", Status: 1},
		"cat a | wc -l":       {Out: "3\n"},
		"wc -l none; echo $?": {Out: "1\n", Err: "wc: none: No such file or directory\n"},
		"wc none a; echo $?": {
			Out: "        3         3        14 a\n        3         3        14 total\n1\n",
			Err: "wc: none: No such file or directory\n",
		},
		"wc a a": {
			Out: "        3         3        14 a\n        3         3        14 a\n        6         6        28 total\n",
		},
		"wc -c a d/in":   {Out: "       14 a\n        6 d/in\n       20 total\n"},
		"cat a | wc":     {Out: "        3         3        14\n"},
		"cat a | wc -lw": {Out: "        3         3\n"},
		"wc -cwl a":      {Out: "        3         3        14 a\n"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestGrep: grep finds by basic expressions, or by extended ones with -E, and says in which of several files.
func TestGrep(t *testing.T) {
	for line, want := range map[string]said{
		"grep -c t a":               {Out: "2\n"},
		"grep -n t a":               {Out: "2:two\n3:three\n"},
		"grep -h t a d/in":          {Out: "two\nthree\n"},
		"grep -i T a":               {Out: "two\nthree\n"},
		"grep -q t a; echo $?":      {Out: "0\n"},
		"grep -q x a; echo $?":      {Out: "1\n"},
		"grep -q t none; echo $?":   {Out: "2\n", Err: "grep: none: No such file or directory\n"},
		"grep x a; echo $?":         {Out: "1\n"},
		"grep t none; echo $?":      {Out: "2\n", Err: "grep: none: No such file or directory\n"},
		"grep t none a; echo $?":    {Out: "a:two\na:three\n2\n", Err: "grep: none: No such file or directory\n"},
		"grep t a none; echo $?":    {Out: "a:two\na:three\n2\n", Err: "grep: none: No such file or directory\n"},
		"grep -qv t a; echo $?":     {Out: "0\n"},
		"grep t a empty":            {Out: "a:two\na:three\n"},
		"grep t a a":                {Out: "a:two\na:three\na:two\na:three\n"},
		"grep n a d/in":             {Out: "a:one\nd/in:inside\n"},
		"grep i d/in":               {Out: "inside\n"},
		"grep -s t none; echo $?":   {Out: "2\n"},
		"grep -F . a; echo $?":      {Out: "1\n"},
		"grep . a":                  {Out: "one\ntwo\nthree\n"},
		"grep '' a":                 {Out: "one\ntwo\nthree\n"},
		"grep '' empty; echo $?":    {Out: "1\n"},
		"grep ^t a":                 {Out: "two\nthree\n"},
		"grep 't.*' a":              {Out: "two\nthree\n"},
		`grep 'one\|two' a`:         {Out: "one\ntwo\n"},
		"grep -E 'one|two' a":       {Out: "one\ntwo\n"},
		"grep 'one|two' a; echo $?": {Out: "1\n"},
		`grep 't\(w\)o' a`:          {Out: "two\n"},
		"grep -E '(one)' a":         {Out: "one\n"},
		"grep '(one)' a; echo $?":   {Out: "1\n"},
		"grep 'o+' a; echo $?":      {Out: "1\n"},
		"grep -E 'e+' a":            {Out: "one\nthree\n"},
		`grep 'e\+' a`:              {Out: "one\nthree\n"},
		"grep 'e{2}' a; echo $?":    {Out: "1\n"},
		`grep 'e\{2\}' a`:           {Out: "three\n"},
		"grep -E 'e{2}' a":          {Out: "three\n"},
		"grep '[a-n]' a":            {Out: "one\nthree\n"},
		"grep '[' a; echo $?":       {Out: "2\n", Err: "grep: bad regex '['\n"},
		"grep 'a*' a":               {Out: "one\ntwo\nthree\n"},
		"grep '*' a; echo $?":       {Out: "1\n"},
		`grep '\.' a; echo $?`:      {Out: "1\n"},
		"grep -v x empty; echo $?":  {Out: "1\n"},
		"grep -- -x a; echo $?":     {Out: "1\n"},
		"cat a | grep t":            {Out: "two\nthree\n"},
		"cat a | grep -v t":         {Out: "one\n"},
		"grep t < a":                {Out: "two\nthree\n"},
		"grep t - < a":              {Out: "two\nthree\n"},
		"grep t d; echo $?":         {Out: "1\n"},
		"echo 'a+b' | grep 'a+b'":   {Out: "a+b\n"},
		"echo 'a?b' | grep 'a?b'":   {Out: "a?b\n"},
		"echo 'a|b' | grep 'a|b'":   {Out: "a|b\n"},
		"echo 'a(b' | grep 'a(b'":   {Out: "a(b\n"},
		"echo 'a{b' | grep 'a{b'":   {Out: "a{b\n"},
		"env | grep ^A=":            {Out: "A=3\n"},
		"cat a | grep t | wc -l":    {Out: "2\n"},
		"grep -c t a d/in":          {Out: "a:2\nd/in:0\n"},
		"grep -n t a d/in":          {Out: "a:2:two\na:3:three\n"},
		"grep -cq t a; echo $?":     {Out: "0\n"},
		"grep -cv t a":              {Out: "1\n"},
		"grep -c x a; echo $?":      {Out: "0\n1\n"},
		"grep -F 'o' a d/in":        {Out: "a:one\na:two\n"},
		"grep -hn t a d/in":         {Out: "2:two\n3:three\n"},
		"grep -s t none a; echo $?": {Out: "a:two\na:three\n2\n"},
		"grep -q t none a; echo $?": {Out: "0\n", Err: "grep: none: No such file or directory\n"},
		"grep -q x none a; echo $?": {Out: "2\n", Err: "grep: none: No such file or directory\n"},
		"grep -iq ONE a; echo $?":   {Out: "0\n"},
		"grep 't*' a":               {Out: "one\ntwo\nthree\n"},
		"grep 'on*e' a":             {Out: "one\n"},
		"grep '^*' a; echo $?":      {Out: "1\n"},
		`grep 'e\{1,2\}$' a`:        {Out: "one\nthree\n"},
		"grep '[*]' a; echo $?":     {Out: "1\n"},
		"grep '[+]' a; echo $?":     {Out: "1\n"},
		"grep '[]]' a; echo $?":     {Out: "1\n"},
		"grep '[^a]' a":             {Out: "one\ntwo\nthree\n"},
		"grep 'th?' a; echo $?":     {Out: "1\n"},
		`grep 'th\?' a`:             {Out: "two\nthree\n"},
		"grep -E 'th?' a":           {Out: "two\nthree\n"},
		`grep '\(one\|two\)' a`:     {Out: "one\ntwo\n"},
		`grep 'a\b' a; echo $?`:     {Out: "1\n"},
		`grep '\*' a; echo $?`:      {Out: "1\n"},
		`grep -i 'O\+' a`:           {Out: "one\ntwo\n"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestRemoving: rm removes what it may, says what it cannot, and goes on.
func TestRemoving(t *testing.T) {
	for line, want := range map[string]said{
		"rm a; ls":               {Out: "d\nempty\nmade\n"},
		"rm; echo $?":            {Out: "1\n", Err: "Usage: rm [-rf] FILE...\n"},
		"rm -f; echo $?":         {Out: "0\n"},
		"rm none; echo $?":       {Out: "1\n", Err: "rm: can't remove 'none': No such file or directory\n"},
		"rm -f none; echo $?":    {Out: "0\n"},
		"rm d; echo $?":          {Out: "1\n", Err: "rm: 'd' is a directory\n"},
		"rm -f d; echo $?":       {Out: "1\n", Err: "rm: 'd' is a directory\n"},
		"rm -r d; ls":            {Out: "a\nempty\nmade\n"},
		"rm -rf d none; echo $?": {Out: "0\n"},
		"rm -R d; ls":            {Out: "a\nempty\nmade\n"},
		"rm -r made; ls":         {Out: "a\nd\nempty\n"},
		"rm -r a d; ls":          {Out: "empty\nmade\n"},
		"rm -r none; echo $?":    {Out: "1\n", Err: "rm: can't remove 'none': No such file or directory\n"},
		"rm a none; echo $?; ls": {
			Out: "1\nd\nempty\nmade\n", Err: "rm: can't remove 'none': No such file or directory\n",
		},
		"rm none a; echo $?; ls": {
			Out: "1\nd\nempty\nmade\n", Err: "rm: can't remove 'none': No such file or directory\n",
		},
		"rm d a; echo $?; ls": {Out: "1\nd\nempty\nmade\n", Err: "rm: 'd' is a directory\n"},
		"rm -rf .; echo $?":   {Out: "1\n", Err: "rm: can't remove '.' or '..'\n"},
		"rm ..; echo $?":      {Out: "1\n", Err: "rm: can't remove '.' or '..'\n"},
		"rm -r ..; echo $?":   {Out: "1\n", Err: "rm: can't remove '.' or '..'\n"},
		"rm /; echo $?":       {Out: "1\n", Err: "rm: '/' is a directory\n"},
		"rm -rf /home/d; ls":  {Out: "a\nempty\nmade\n"},
		"rm ./; echo $?":      {Out: "1\n", Err: "rm: can't remove '.' or '..'\n"},
		"rm d/.; echo $?":     {Out: "1\n", Err: "rm: can't remove '.' or '..'\n"},
		"rm -r d/..; echo $?": {Out: "1\n", Err: "rm: can't remove '.' or '..'\n"},
		"rm -rf; echo $?":     {Out: "0\n"},
		"rm --; echo $?":      {Out: "1\n", Err: "Usage: rm [-rf] FILE...\n"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestMaking: mkdir and touch make what is not there.
func TestMaking(t *testing.T) {
	for line, want := range map[string]said{
		"touch n; ls n":              {Out: "n\n"},
		"touch a; wc -l a":           {Out: "3 a\n"},
		"touch d; echo $?":           {Out: "0\n"},
		"touch; echo $?":             {Out: "1\n", Err: "Usage: touch [-c] FILE...\n"},
		"touch -c new; ls new":       {Err: "ls: new: No such file or directory\n", Status: 1},
		"touch x y; ls x y":          {Out: "x\ny\n"},
		"touch -- -x; ls -- -x":      {Out: "-x\n"},
		"mkdir x; ls -d x":           {Out: "x\n"},
		"mkdir -p x/y; ls x":         {Out: "y\n"},
		"mkdir x x/y; ls x":          {Out: "y\n"},
		"mkdir a; echo $?":           {Out: "1\n", Err: "mkdir: can't create directory 'a': File exists\n"},
		"mkdir -p a; echo $?":        {Out: "1\n", Err: "mkdir: can't create directory 'a': File exists\n"},
		"mkdir made; echo $?":        {Out: "1\n", Err: "mkdir: can't create directory 'made': File exists\n"},
		"mkdir -p made; echo $?":     {Out: "0\n"},
		"mkdir; echo $?":             {Out: "1\n", Err: "Usage: mkdir [-p] DIRECTORY...\n"},
		"mkdir -p; echo $?":          {Out: "1\n", Err: "Usage: mkdir [-p] DIRECTORY...\n"},
		"mkdir -m 700 x; ls -d x":    {Out: "x\n"},
		"mkdir x; mkdir x; echo $?":  {Out: "1\n", Err: "mkdir: can't create directory 'x': File exists\n"},
		"mkdir ''; echo $?":          {Out: "1\n", Err: "mkdir: can't create directory '': No such file or directory\n"},
		"touch -c a; echo $?":        {Out: "0\n"},
		"touch -c none; echo $?; ls": {Out: "0\na\nd\nempty\nmade\n"},
		"mkdir -- -x; ls -d -- -x":   {Out: "-x\n"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestDirectories: cd goes where it is told, and pwd says where that is.
func TestDirectories(t *testing.T) {
	for line, want := range map[string]said{
		"pwd":                              {Out: "/home\n"},
		"cd d; pwd":                        {Out: "/home/d\n"},
		"cd d && cd .. && pwd":             {Out: "/home\n"},
		"cd ..; pwd":                       {Out: "/\n"},
		"cd /; pwd":                        {Out: "/\n"},
		"cd; pwd":                          {Out: "/home\n"},
		`cd ""; pwd`:                       {Out: "/home\n"},
		"cd d; cd -; pwd":                  {Out: "/home\n/home\n"},
		"cd d e; pwd":                      {Out: "/home/d\n"},
		"cd d/..; pwd":                     {Out: "/home\n"},
		"cd /etc/../home/d; pwd":           {Out: "/home/d\n"},
		"cd .; pwd":                        {Out: "/home\n"},
		"cd ./d; pwd":                      {Out: "/home/d\n"},
		"cd -- d; pwd":                     {Out: "/home/d\n"},
		"cd d; cat in":                     {Out: "inside"},
		"cd d; cat ../a":                   {Out: "one\ntwo\nthree\n"},
		"cd d; echo x > y; cd ..; cat d/y": {Out: "x\n"},
		"cd d; cd; pwd":                    {Out: "/home/d\n"},
		"cd d; cd -; cd -":                 {Out: "/home\n/home/d\n"},
		"HOME=/home/d; cd; pwd":            {Out: "/home/d\n"},
		"cd d; echo $OLDPWD":               {Out: "/home\n"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}

// TestLists: which commands of a list run, and with which status it ends.
func TestLists(t *testing.T) {
	for line, want := range map[string]said{
		"echo a;echo b":                     {Out: "a\nb\n"},
		"echo a&&echo b":                    {Out: "a\nb\n"},
		"false||echo b":                     {Out: "b\n"},
		"true||echo b;echo c":               {Out: "c\n"},
		"false&&echo b;echo $?":             {Out: "1\n"},
		"echo a | cat":                      {Out: "a\n"},
		"echo a | cat -":                    {Out: "a\n"},
		"echo a | cat - a":                  {Out: "a\none\ntwo\nthree\n"},
		"echo a | cat a":                    {Out: "one\ntwo\nthree\n"},
		"exit":                              {},
		"exit 3":                            {Status: 3},
		"exit 255":                          {Status: 255},
		"true; exit":                        {},
		"exit 1; echo no":                   {Status: 1},
		"echo a | exit 3; echo $?":          {Out: "3\n"},
		"exit 3 | true; echo $?":            {Out: "0\n"},
		"true | false; echo $?":             {Out: "1\n"},
		"false | true; echo $?":             {Out: "0\n"},
		"false | false || echo x":           {Out: "x\n"},
		"true && false || echo x":           {Out: "x\n"},
		"false || false || echo x":          {Out: "x\n"},
		"true && true && echo x":            {Out: "x\n"},
		"false && true || echo x && echo y": {Out: "x\ny\n"},
		"true || true && echo x":            {Out: "x\n"},
		"sh -c 'cd d'; pwd":                 {Out: "/home\n"},
		"true; echo $?":                     {Out: "0\n"},
		"false; echo $?":                    {Out: "1\n"},
		"true x; echo $?":                   {Out: "0\n"},
		"sh -c 'echo a'":                    {Out: "a\n"},
		`sh -c "echo $A"`:                   {Out: "3\n"},
		`sh -c 'sh -c "exit 4"'; echo $?`:   {Out: "4\n"},
		"echo a | cat | cat":                {Out: "a\n"},
		"echo a || echo b | cat":            {Out: "a\n"},
		"false || echo b | cat":             {Out: "b\n"},
		"echo a | false || echo b":          {Out: "b\n"},
		"echo a | cat && echo b":            {Out: "a\nb\n"},
	} {
		t.Run(line, func(t *testing.T) { says(t, newDisk(), inHome, []string{"sh", "-c", line}, want) })
	}
}
