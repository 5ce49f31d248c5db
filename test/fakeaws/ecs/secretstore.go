package ecs

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of Secrets Manager (user guide, "AWS Secrets Manager quotas", and API).
const (
	maxSecret       = 65536
	maxSecretName   = 512
	maxSecretTags   = 50
	minSecretToken  = 32
	maxSecretToken  = 64
	maxDescription  = 2048
	maxVersions     = 100
	minRecoveryDays = 7
	maxRecoveryDays = 30
)

// Staging labels of versions.
const (
	current  = "AWSCURRENT"
	previous = "AWSPREVIOUS"
)

var (
	secretPattern = regexp.MustCompile(`^[A-Za-z0-9/_+=.@-]{1,512}$`)
	// suffixPattern ends the ARN of a secret.
	suffixPattern = regexp.MustCompile(`-[A-Za-z0-9]{6}$`)
)

// secret is a secret with its versions.
type secret struct {
	name, arn, description string
	created, changed       time.Time
	// deleted is when DeleteSecret was called, erased when it is gone after that.
	deleted, erased time.Time
	tags            []tag
	versions        map[string]*version
}

type version struct {
	id      string
	text    string
	binary  []byte
	isText  bool
	created time.Time
	stages  []string
}

func (v *version) size() int { return len(v.text) + len(v.binary) }

// findSecret finds a secret by name, ARN, or ARN without its random suffix
// (Secrets Manager user guide, "Find secrets"); nil for none.
func (s *Server) findSecret(id string) *secret {
	name, ok := strings.CutPrefix(id, s.arnOf("secretsmanager", "secret:"))
	if !ok {
		return s.secrets[id]
	}
	if sec := s.secrets[suffixPattern.ReplaceAllString(name, "")]; sec != nil && sec.arn == id {
		return sec
	}
	return s.secrets[name]
}

// version finds one by id, by staging label, or the current one.
func (sec *secret) version(id, stage string) *version {
	if id != "" {
		v := sec.versions[id]
		if v != nil && stage != "" && !slices.Contains(v.stages, stage) {
			return nil
		}
		return v
	}
	if stage == "" {
		stage = current
	}
	for _, v := range sec.versions {
		if slices.Contains(v.stages, stage) {
			return v
		}
	}
	return nil
}

// versionDay is how long a version without a label is kept in any case.
const versionDay = 24 * time.Hour

// full is true of a secret that takes no further version now (Secrets Manager API,
// PutSecretValue: "removes outdated versions when there are more than 100, but it does not
// remove versions created less than 24 hours ago").
func (sec *secret) full(now time.Time) bool {
	n := 0
	for _, v := range sec.versions {
		if len(v.stages) > 0 || now.Sub(v.created) < versionDay {
			n++
		}
	}
	return n >= maxVersions
}

// put adds a version and makes it the current one.
func (sec *secret) put(v *version) {
	for _, old := range sec.versions {
		old.stages = slices.DeleteFunc(old.stages, func(st string) bool { return st == previous })
		if i := slices.Index(old.stages, current); i >= 0 {
			old.stages[i] = previous
		}
	}
	v.stages = []string{current}
	if sec.versions == nil {
		sec.versions = map[string]*version{}
	}
	sec.versions[v.id] = v
	sec.changed = v.created
	if len(sec.versions) <= maxVersions {
		return
	}
	oldest := ""
	for id, v := range sec.versions {
		if len(v.stages) == 0 && v.created.Add(versionDay).Before(sec.changed) &&
			(oldest == "" || v.created.Before(sec.versions[oldest].created)) {
			oldest = id
		}
	}
	delete(sec.versions, oldest)
}

// secretARN ends with six characters that differ each time a name is created.
func (s *Server) secretARN(name string) string {
	s.serial++
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
	sum := sha256.Sum256(fmt.Appendf(nil, "secret %s %d", name, s.serial))
	suffix := make([]byte, 6)
	for i := range suffix {
		suffix[i] = letters[int(sum[i])%len(letters)]
	}
	return s.arnOf("secretsmanager", "secret:"+name+"-"+string(suffix))
}

// erase forgets secrets whose time has come. Those that ListSecrets may still show
// stay among the erased for so long.
func (s *Server) erase(now time.Time) {
	for name, sec := range s.secrets {
		if !sec.erased.IsZero() && !now.Before(sec.erased) {
			delete(s.secrets, name)
			s.secretHours += sec.hours(now)
			if s.cfg.Delays.Listed > 0 {
				s.erased = append(s.erased, sec)
			}
		}
	}
	s.erased = slices.DeleteFunc(
		s.erased, func(sec *secret) bool { return !now.Before(sec.erased.Add(s.cfg.Delays.Listed)) },
	)
}

// listedSecrets are those that ListSecrets shows, by creation.
func (s *Server) listedSecrets(now time.Time, deletedToo bool) []*secret {
	seen := now.Add(-s.cfg.Delays.Listed)
	var out []*secret
	for _, sec := range append(slices.Collect(maps.Values(s.secrets)), s.erased...) {
		gone := !sec.erased.IsZero() && !seen.Before(sec.erased)
		planned := !sec.deleted.IsZero() && !seen.Before(sec.deleted)
		if !seen.Before(sec.created) && !gone && (!planned || deletedToo) {
			out = append(out, sec)
		}
	}
	slices.SortFunc(out, func(a, b *secret) int {
		if c := a.created.Compare(b.created); c != 0 {
			return c
		}
		return strings.Compare(a.arn, b.arn)
	})
	return out
}
