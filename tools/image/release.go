package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// release is what stands in an image beside its programs.
type release struct {
	// version of burstlet, as "burstlet version" prints it.
	version string
	// revision is the commit; empty when nobody knows it.
	revision string
	// created is the time of everything in the image.
	created time.Time
}

// versions are words that the linker takes without quotes.
var versions = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// releaseOf asks git for the commit of a checkout, and for its time where epoch
// (SOURCE_DATE_EPOCH) is empty. A tree without git has no revision and is of 1970.
func releaseOf(ctx context.Context, dir, version, epoch string) (release, error) {
	if !versions.MatchString(version) {
		return release{}, fmt.Errorf("the version %q is not made of letters, digits, '.', '_', '+' and '-'", version)
	}
	rel := release{version: version, created: time.Unix(0, 0).UTC()}
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "log", "-1", "--format=%H %ct").Output()
	if err != nil {
		if inGit, gitErr := hasGit(dir); inGit || gitErr != nil {
			return release{}, fmt.Errorf("ask git for the commit: %w", withOutput(errors.Join(err, gitErr)))
		}
	}
	revision, seconds, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	rel.revision = revision
	if epoch != "" {
		seconds = epoch
	}
	if seconds == "" {
		return rel, nil
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil || unix < 0 {
		return release{}, fmt.Errorf("the time %q (SOURCE_DATE_EPOCH) is no number of seconds since 1970", seconds)
	}
	rel.created = time.Unix(unix, 0).UTC()
	return rel, nil
}

func hasGit(dir string) (bool, error) {
	found, err := filepath.Glob(filepath.Join(dir, ".git"))
	return len(found) > 0, err
}

// withOutput adds what a command wrote to its standard error.
func withOutput(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
