package namespaces

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is what a line of /proc/self/mountinfo says (proc(5)).
type Mount struct{ Point, FSType string }

// Mounts lists the mounts that this process sees, in the order they were made.
func Mounts() ([]Mount, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("open list of mounts: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var found []Mount
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(rest) == 0 {
			return nil, fmt.Errorf("parse list of mounts: unexpected line %q", lines.Text())
		}
		found = append(found, Mount{Point: unescape.Replace(fields[4]), FSType: rest[0]})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read list of mounts: %w", err)
	}
	return found, nil
}

// UnmountBelow unmounts dir and all below it, what was mounted last first.
func UnmountBelow(dir string) error {
	all, err := Mounts()
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range slices.Backward(all) {
		if m.Point != dir && !strings.HasPrefix(m.Point, dir+"/") {
			continue
		}
		// Detached: a reader's open file below must not keep the mount.
		if err := unix.Unmount(m.Point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.Point, err))
		}
	}
	return errors.Join(errs...)
}
