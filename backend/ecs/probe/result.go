package probe

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"
)

// Verdicts of rows.
const (
	// Agrees: what was seen is what is assumed. Measured: nothing is assumed.
	Agrees   = "agrees"
	Differs  = "differs"
	Measured = "measured"
	// Unknown: it could not be seen; Seen says why.
	Unknown = "unknown"
)

// version is that of the format of a Result.
const version = 1

// Row is one thing that AWS does not document.
type Row struct {
	// Name is steady: test servers know rows by it.
	Name     string `json:"name"`
	Question string `json:"question"`
	// Assumed and Seen are answers in words, without anything of the account.
	Assumed string `json:"assumed"`
	Seen    string `json:"seen"`
	Verdict string `json:"verdict"`
	// Seconds is how long it took, where that is the question.
	Seconds float64 `json:"seconds,omitempty"`
}

// Result is what one run saw.
type Result struct {
	Version int    `json:"version"`
	Date    string `json:"date"`
	Region  string `json:"region"`
	// Architecture and Platform are those of the tasks.
	Architecture string `json:"architecture"`
	Platform     string `json:"platform"`
	Rows         []Row  `json:"rows"`
}

// exact is a row whose answer is one of few.
func exact(name, question, assumed, seen string) Row {
	r := Row{Name: name, Question: question, Assumed: assumed, Seen: redacted(seen), Verdict: Agrees}
	if seen != assumed {
		r.Verdict = Differs
	}
	return r
}

// within is a row about a time that is assumed to be no longer than some.
func within(name, question string, longest, took time.Duration) Row {
	r := measured(name, question, took)
	r.Assumed, r.Verdict = "at most "+longest.String(), Agrees
	if took > longest {
		r.Verdict = Differs
	}
	return r
}

// measured is a row about a time of which nothing is assumed.
func measured(name, question string, took time.Duration) Row {
	took = took.Round(time.Millisecond)
	return Row{
		Name: name, Question: question, Assumed: "-", Seen: took.String(), Verdict: Measured, Seconds: took.Seconds(),
	}
}

// unknown are rows that an experiment could not answer.
func unknown(names []string, err error) []Row {
	var out []Row
	for _, name := range names {
		out = append(out, Row{Name: name, Assumed: "-", Seen: redacted(err.Error()), Verdict: Unknown})
	}
	return out
}

// private finds what an account would be known by: ARNs, ids of accounts, tasks and
// resources, addresses, and ids of requests.
var private = regexp.MustCompile(`arn:[^\s"',;]+|\b\d{12}\b|\b[0-9a-f]{17,}\b|` +
	`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|` +
	`\b(subnet|sg|vpc|eni|i)-[0-9a-z]+\b|\b\d{1,3}(\.\d{1,3}){3}\b|\bAKIA[0-9A-Z]+\b|\bASIA[0-9A-Z]+\b`)

// redacted is a text of AWS's without what is private.
func redacted(text string) string { return private.ReplaceAllString(text, "(hidden)") }

// WriteTable prints what was assumed and seen, for people.
func (r Result) WriteTable(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := []string{"\tquestion\tassumed\tseen\n"}
	for _, row := range r.Rows {
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s\n", row.Verdict, or(row.Question, row.Name), row.Assumed,
			strings.NewReplacer("\n", "; ", "\t", " ").Replace(row.Seen)))
	}
	for _, line := range lines {
		if _, err := io.WriteString(table, line); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
