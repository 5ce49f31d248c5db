package differential

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// none is what stands for a field that is not there.
const none = "–"

// difference is a field in which a pod of a kind differs.
type difference struct {
	kind, field, kubelet, burstlet string
}

func (d difference) String() string {
	return fmt.Sprintf("%s | %s | %s | %s", d.kind, d.field, d.kubelet, d.burstlet)
}

func orNone(s shown, field string) string {
	if value, is := s[field]; is && value != "" {
		return value
	}
	return none
}

// compare lists the fields in which two pods differ.
func compare(kind string, kubelet, burstlet shown) (all []difference) {
	fields := map[string]bool{}
	for field := range kubelet {
		fields[field] = true
	}
	for field := range burstlet {
		fields[field] = true
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		d := difference{kind, field, orNone(kubelet, field), orNone(burstlet, field)}
		if d.kubelet != d.burstlet {
			all = append(all, d)
		}
	}
	return all
}

// listed is a difference that is known, with patterns in which * stands for anything.
type listed struct {
	kinds                    []string
	field, kubelet, burstlet *regexp.Regexp
	// chance says that both may be the same: what differs depends on moments.
	chance bool
	line   string
}

func (l listed) covers(d difference) bool {
	return slices.ContainsFunc(l.kinds, func(k string) bool { return k == "all" || k == d.kind }) &&
		l.field.MatchString(d.field) && l.kubelet.MatchString(d.kubelet) && l.burstlet.MatchString(d.burstlet)
}

// listHead is the head of the table of known differences.
const listHead = "| pods | field | a kubelet | burstlet | why |"

// readList reads the known differences of a page.
func readList(file string) ([]listed, error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read known differences: %w", err)
	}
	_, table, found := strings.Cut(string(page), listHead+"\n")
	if !found {
		return nil, fmt.Errorf("%s has no table %q", file, listHead)
	}
	var all []listed
	for i, line := range strings.Split(table, "\n") {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i == 0 {
			continue // the rule below the head
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) != 5 || cells[4] == "" {
			return nil, fmt.Errorf("%s: want pods, field, both values and why: %s", file, line)
		}
		all = append(
			all, listed{
				strings.Split(cells[0], ", "), pattern(cells[1]), pattern(cells[2]), pattern(cells[3]),
				strings.HasPrefix(cells[4], "by chance: "), line,
			},
		)
	}
	return all, nil
}

// pattern reads a cell.
func pattern(cell string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.ReplaceAll(strings.Trim(cell, "`"), `\|`, "|"))
	return regexp.MustCompile(`(?s)^` + strings.ReplaceAll(quoted, `\*`, ".*") + `$`)
}
