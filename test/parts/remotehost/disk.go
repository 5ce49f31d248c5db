package remotehost

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/burstlet/burstlet/test/parts/remotehost/namespaces"
)

// Numbers of the host's users and groups.
const (
	burstID       = 1000
	containerdGID = 999
)

// diskFile is a file that is on a new disk.
type diskFile struct {
	path, content string
	mode          os.FileMode
}

// mountDisk mounts a bounded disk where the configuration asks for one.
func (h *Host) mountDisk() error {
	disk := h.layout.disk("/")
	if err := os.Mkdir(disk, 0o755); err != nil {
		return fmt.Errorf("make disk: %w", err)
	}
	if h.cfg.DiskBytes == 0 {
		return nil
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, fmt.Sprintf("mode=0755,size=%d", h.cfg.DiskBytes)); err != nil {
		return fmt.Errorf("mount disk: %w", err)
	}
	return nil
}

// fillDisk puts a freshly installed system onto the disk.
func (h *Host) fillDisk() error {
	for dir, mode := range map[string]os.FileMode{
		"dev": 0o755, "proc": 0o555, "sys": 0o555, "run": 0o755, "tmp": 0o1777,
		"etc/ssh": 0o755, "etc/containerd/certs.d": 0o755, "etc/cni/net.d": 0o755, "etc/sudoers.d": 0o750,
		"var/lib": 0o755, "var/log": 0o755, "var/cache": 0o755, "var/spool": 0o755, "var/tmp": 0o1777,
		"root/.ssh": 0o700, "home/burst/.ssh": 0o700, "opt": 0o755, "srv": 0o755, "mnt": 0o755, "media": 0o755,
	} {
		if err := os.MkdirAll(h.layout.disk(dir), 0o755); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
		if err := chmod(h.layout.disk(dir), mode); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	for link, target := range map[string]string{
		"var/run": "../run", "var/lock": "../run/lock", "etc/mtab": "../proc/self/mounts",
	} {
		if err := os.Symlink(target, h.layout.disk(link)); err != nil {
			return fmt.Errorf("make disk: %w", err)
		}
	}
	if err := h.copyEtc(); err != nil {
		return err
	}
	for _, file := range h.files() {
		if err := h.writeFile(file); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/home/burst", "/home/burst/.ssh"} {
		if err := os.Chown(h.layout.disk(dir), burstID, burstID); err != nil {
			return fmt.Errorf("make home: %w", err)
		}
	}
	return nil
}

// shareDir makes the directory that machine and host share. What is mounted below it
// is seen in mount namespaces that are made from then on.
func (h *Host) shareDir() error {
	dir := h.layout.shared()
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make shared directory: %w", err)
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind shared directory: %w", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	return nil
}

// chmod sets all mode bits, the sticky one too.
func chmod(path string, mode os.FileMode) error { return unix.Chmod(path, uint32(mode)) }

func (h *Host) writeFile(file diskFile) error {
	path := h.layout.disk(file.path)
	if err := os.WriteFile(path, []byte(file.content), file.mode); err != nil {
		return fmt.Errorf("write to disk: %w", err)
	}
	// Whatever the umask is.
	if err := chmod(path, file.mode); err != nil {
		return fmt.Errorf("write to disk: %w", err)
	}
	return nil
}

// files are the host's own, but for sshd's and containerd's.
func (h *Host) files() []diskFile {
	sudoers := "Defaults env_reset\nroot ALL=(ALL:ALL) ALL\n@includedir /etc/sudoers.d\n"
	all := []diskFile{
		{path: "/etc/passwd", mode: 0o644, content: "root:x:0:0:root:/root:/bin/bash\n" +
			"sshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n" +
			fmt.Sprintf("%s:x:%d:%d::/home/burst:/bin/bash\n", Burst, burstID, burstID) +
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
		// "*" is no password, "!" would lock the account.
		{path: "/etc/shadow", mode: 0o600, content: "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n" +
			Burst + ":*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\n"},
		{path: "/etc/group", mode: 0o644, content: "root:x:0:\ntty:x:5:\n" +
			fmt.Sprintf("containerd:x:%d:%s\n%s:x:%d:\n", containerdGID, Burst, Burst, burstID) +
			"nogroup:x:65534:\n"},
		{path: "/etc/sudoers", mode: 0o440, content: sudoers},
		{path: "/etc/hostname", mode: 0o644, content: h.hostname() + "\n"},
		{
			path: "/etc/hosts", mode: 0o644, content: "127.0.0.1 localhost\n" + h.Address().String() + " " + h.hostname() + "\n",
		},
		{path: "/etc/resolv.conf", mode: 0o644},
		{path: "/etc/machine-id", mode: 0o444, content: randomHex(16) + "\n"},
	}
	if !h.cfg.NoSudo {
		all = append(
			all, diskFile{path: "/etc/sudoers.d/burst", mode: 0o440, content: Burst + " ALL=(ALL:ALL) NOPASSWD: ALL\n"},
		)
	}
	return all
}

func randomHex(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	return hex.EncodeToString(random)
}

// newBootID is a random UUID, as the kernel makes them.
func newBootID() string {
	id := randomHex(16)
	return strings.Join([]string{id[:8], id[8:12], "4" + id[13:16], "8" + id[17:20], id[20:]}, "-")
}

// systemEtc are the parts of the machine's /etc that its programs need and that
// hold nothing of the machine's own.
func systemEtc() []string {
	return []string{
		"alternatives", "bash.bashrc", "debian_version", "environment", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
		"login.defs", "nsswitch.conf", "os-release", "pam.conf", "pam.d", "profile", "protocols", "security", "services",
	}
}

func (h *Host) copyEtc() error {
	present := slices.DeleteFunc(systemEtc(), func(name string) bool {
		_, err := os.Lstat(filepath.Join("/etc", name))
		return err != nil
	})
	cp, err := namespaces.LookPath("cp")
	if err != nil {
		return fmt.Errorf("find cp: %w", err)
	}
	cmd := exec.Command(
		cp, append([]string{"--archive", "--target-directory", h.layout.disk("/etc"), "--"}, present...)...,
	)
	cmd.Dir, cmd.Env = "/etc", namespaces.Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("copy system files: %w: %s", err, out)
	}
	return nil
}
