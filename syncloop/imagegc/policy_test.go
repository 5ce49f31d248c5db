package imagegc

import (
	"slices"
	"testing"
	"time"

	"github.com/burstlet/burstlet/backend"
)

func disk(capacity, available uint64) backend.FilesystemUsage {
	return backend.FilesystemUsage{Capacity: &capacity, Available: &available}
}

// TestExcess: image_gc_manager.go GarbageCollect: from the high threshold on, as much
// as leads to the low one.
func TestExcess(t *testing.T) {
	usual := Policy{HighThresholdPercent: 85, LowThresholdPercent: 80}
	for name, tt := range map[string]struct {
		policy Policy
		disk   backend.FilesystemUsage
		full   bool
		want   uint64
		err    string
	}{
		"an empty disk":                            {policy: usual, disk: disk(1000, 1000)},
		"below the high threshold":                 {policy: usual, disk: disk(1000, 160)},
		"at the high threshold":                    {policy: usual, disk: disk(1000, 150), want: 50},
		"a part of a per cent counts as a whole":   {policy: usual, disk: disk(1000, 159), want: 41},
		"nothing is free":                          {policy: usual, disk: disk(1000, 0), want: 200},
		"full for a pull, between the thresholds":  {policy: usual, disk: disk(1000, 170), full: true, want: 30},
		"full for a pull, below the low threshold": {policy: usual, disk: disk(1000, 400), full: true},
		"a high threshold of 100 is never reached": {
			policy: Policy{HighThresholdPercent: 100, LowThresholdPercent: 80}, disk: disk(1000, 0), full: true,
		},
		"more is available than there is": {policy: usual, disk: disk(1000, 2000)},
		"available is not known: the worst": {
			policy: usual, disk: backend.FilesystemUsage{Capacity: new(uint64(1000))}, want: 200,
		},
		"a capacity of 0": {policy: usual, disk: disk(0, 0), err: "invalid capacity 0 on image filesystem"},
		"no capacity":     {policy: usual, err: "invalid capacity 0 on image filesystem"},
		"a disk of many petabytes does not overflow": {policy: usual, disk: disk(1<<57, 0), want: 1 << 57 / 5},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.policy.excess(tt.disk, tt.full)
			if got != tt.want || tt.err == "" && err != nil || tt.err != "" && (err == nil || err.Error() != tt.err) {
				t.Errorf("%d, %v; want %d, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestPolicyOff(t *testing.T) {
	for policy, want := range map[Policy]bool{
		{HighThresholdPercent: 100, LowThresholdPercent: 80}:                    true,
		{HighThresholdPercent: 100, LowThresholdPercent: 80, MaxAge: time.Hour}: false,
		{HighThresholdPercent: 99, LowThresholdPercent: 80}:                     false,
	} {
		if policy.Off() != want {
			t.Errorf("%+v is off: %v", policy, !want)
		}
	}
}

// TestOrderOfRemoval: image_gc_manager.go byLastUsedAndDetected; what is used, wanted
// or pinned is no candidate.
func TestOrderOfRemoval(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	image := func(id string, used bool) backend.ImageFacts {
		return backend.ImageFacts{ID: id, Names: []string{"docker.io/library/" + id + ":1"}, Size: 1, Used: used}
	}
	r := records{}
	// "late" is found later; "old" was used before "young".
	r.detect(
		[]backend.ImageFacts{image("never", false), image("old", true), image("young", true), image("gone", false)}, wanted{},
		at(0),
	)
	r.detect(
		[]backend.ImageFacts{image("never", false), image("old", false), image("young", true), image("late", false)},
		wanted{}, at(1),
	)
	pinned := image("pinned", false)
	pinned.Pinned = true
	r.detect([]backend.ImageFacts{
		image("never", false), image("old", false), image("young", false), image("late", false),
		image("running", true), image("waited-for", false), pinned,
	}, newWanted([]string{"waited-for:1"}), at(2))
	var got []string
	for _, c := range r.inOrder() {
		got = append(got, c.id)
	}
	if want := []string{"never", "late", "old", "young"}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	if _, known := r["gone"]; known {
		t.Error("an image that is gone is still known")
	}
	if got := r.ripe(3*time.Minute, at(3)); got != time.Minute {
		t.Errorf("the next image may go in %v, want 1m", got)
	}
	if got := r.ripe(0, at(3)); got != period {
		t.Errorf("with nothing to wait for the next look is in %v", got)
	}
}

// TestWantedUnderAnyName: pods name images in short, runtimes list them in full, by
// their digest or by an id.
func TestWantedUnderAnyName(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for _, tt := range []struct {
		pod, id, name string
		want          bool
	}{
		{"busybox", "sha256:1", "docker.io/library/busybox:latest", true},
		{"busybox:1.36", "sha256:1", "docker.io/library/busybox:latest", false},
		{"docker.io/library/busybox", "sha256:1", "busybox", true},
		{"example.test/a/b:1@" + digest, "sha256:1", "example.test/a/b@" + digest, true},
		{"example.test/a/b@" + digest, "sha256:1", "example.test/a/b:1", false},
		{"sha256:1", "sha256:1", "", true},
		{"Not/A:Valid:Name", "sha256:1", "Not/A:Valid:Name", true},
	} {
		if got := newWanted([]string{tt.pod}).has(tt.id, []string{tt.name}); got != tt.want {
			t.Errorf("%s wants %s %s: %v", tt.pod, tt.id, tt.name, got)
		}
	}
}

func TestSizesAreTheKubelets(t *testing.T) {
	for bytes, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB",
		3 << 40: "3.0 TiB", 1 << 50: "1024.0 TiB",
	} {
		if got := formatSize(bytes); got != want {
			t.Errorf("%d bytes are %q, want %q", bytes, got, want)
		}
	}
}
