package ecstest

import (
	"errors"
	"os"
	"strings"
)

// ErrorRows are the rows of the tables in docs/operations.md that say what each of AWS's
// errors looks like: what stands behind the first cell, by each text in backquotes in it, in
// lower case. root is where the repository is.
func ErrorRows(root string) (map[string]string, error) {
	text, err := os.ReadFile(root + "/docs/operations.md")
	if err != nil {
		return nil, err
	}
	_, section, ok := strings.Cut(string(text), "\n### What each AWS error looks like\n")
	if !ok {
		return nil, errors.New("docs/operations.md has no section on AWS's errors")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]string{}
	for line := range strings.Lines(section) {
		cell, rest, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for i, word := range strings.Split(cell, "`") {
			if _, twice := rows[strings.ToLower(word)]; i%2 == 1 && strings.HasPrefix(line, "| ") && !twice {
				rows[strings.ToLower(word)] = rest
			}
		}
	}
	return rows, nil
}
