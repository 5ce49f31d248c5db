package intask

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// account is a line of /etc/passwd.
type account struct {
	name     string
	uid, gid int
	home     string
}

// maxID is the largest number of a user or group that a runtime takes (containerd:
// WithUser). Others a kernel would cut to one of 32 bits, which may be root's.
const maxID = 1<<31 - 1

// idOf reads a number of a user or group; false for what is none.
func idOf(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0 && n <= maxID
}

// accounts finds those that fit, in order. Lines that are none are passed over, as
// everybody does; without the file there are none.
func accounts(etc string, fits func(account) bool) ([]account, error) {
	var out []account
	err := eachLine(filepath.Join(etc, "passwd"), func(f []string) {
		if len(f) < 6 {
			return
		}
		uid, isUser := idOf(f[2])
		gid, isGroup := idOf(f[3])
		if a := (account{f[0], uid, gid, f[5]}); isUser && isGroup && fits(a) {
			out = append(out, a)
		}
	})
	return out, err
}

// groupsOf are the groups of /etc/group that name a user as their member.
func groupsOf(etc, user string) ([]int, error) {
	var out []int
	err := eachLine(filepath.Join(etc, "group"), func(f []string) {
		if len(f) < 4 {
			return
		}
		if gid, ok := idOf(f[2]); ok && slices.Contains(strings.Split(f[3], ","), user) {
			out = append(out, gid)
		}
	})
	return out, err
}

func eachLine(path string, do func(fields []string)) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		do(strings.Split(lines.Text(), ":"))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// credential is who a process becomes.
type credential struct {
	UID    int   `json:"uid"`
	GID    int   `json:"gid"`
	Groups []int `json:"groups"`
	// Keep are the numbers of the capabilities that stay in the bounding set.
	Keep            []int `json:"keep"`
	NoNewPrivileges bool  `json:"noNewPrivileges,omitempty"`
	home            string
}

// rootHome is where a user lives whom /etc/passwd does not know (runc: user.go).
const rootHome = "/"

// credentialOf looks the identity up in the container's own files, as containerd
// and the kubelet do together: a user by number or, of an image, by name; his group
// and home of /etc/passwd; those groups of /etc/group that have him as a member,
// unless they are to be left out.
func credentialOf(etc string, id Identity) (credential, error) {
	user, _, _ := strings.Cut(id.ImageUser, ":")
	if id.UID != nil {
		user = strconv.FormatInt(*id.UID, 10)
	}
	if user == "" {
		user = "0"
	}
	uid, numeric := idOf(user)
	if err := id.mayRun(numeric, uid, user); err != nil {
		return credential{}, err
	}
	found, err := accounts(etc, func(a account) bool { return numeric && a.uid == uid || !numeric && a.name == user })
	if err != nil {
		return credential{}, err
	}
	if len(found) == 0 && !numeric {
		return credential{}, fmt.Errorf("unable to find user %s: no matching entries in passwd file", user)
	}
	out := credential{UID: uid, home: rootHome, NoNewPrivileges: id.NoNewPrivileges}
	name := ""
	if len(found) > 0 {
		name, out.UID, out.GID, out.home = found[0].name, found[0].uid, found[0].gid, found[0].home
	}
	if id.GID != nil {
		out.GID = int(*id.GID)
	}
	out.Groups, err = id.allGroups(etc, out.GID, name)
	return out, err
}

// allGroups are the group itself, those of /etc/group that have the user as a member
// and the pod's. The group is among them because who gives it up must not gain by it
// (CVE-2022-36109).
func (id Identity) allGroups(etc string, gid int, user string) ([]int, error) {
	all := []int{gid}
	if user != "" && !id.StrictGroups {
		member, err := groupsOf(etc, user)
		if err != nil {
			return nil, err
		}
		all = append(all, member...)
	}
	for _, g := range id.Groups {
		all = append(all, int(g))
	}
	return unique(all), nil
}

// unique leaves out what stands there already.
func unique(numbers []int) []int {
	var out []int
	for _, n := range numbers {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// errConfig is in the chain of an error that a kubelet reports before there is a
// container.
var errConfig = errors.New("")

// mayRun refuses root where it is not wanted, in the kubelet's words
// (verifyRunAsNonRoot).
func (id Identity) mayRun(numeric bool, uid int, name string) error {
	switch {
	case !id.NonRoot:
		return nil
	case id.UID != nil && uid == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy%w", errConfig)
	case numeric && uid == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root%w", errConfig)
	case !numeric:
		return fmt.Errorf(
			"container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root%w", name, errConfig,
		)
	}
	return nil
}
