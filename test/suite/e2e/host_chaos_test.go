package e2e

import (
	"flag"
	"fmt"
	"math/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/test/kit/lane"
	"github.com/burstlet/burstlet/test/kit/link"
	"github.com/burstlet/burstlet/test/parts/remotehost"
)

// How often the node of three workloads on a host is disturbed.
var (
	hostKills = flag.Int(
		"hostkills", lane.Pick(0, 0, 200), "SIGKILLs of TestHostChaos; 0: it does not run",
	)
	hostBreaks = flag.Int(
		"hostbreaks", lane.Pick(0, 0, 200), "cuts and resets of TestHostLinkBreaks; 0: it does not run",
	)
)

// TestHostChaos kills burstlet with SIGKILL at random moments while a Deployment and a
// StatefulSet are rolled out and Jobs run on a host over SSH, and while all of it is deleted.
// No pod of the Jobs is lost, no container of any pod runs twice, and nothing is left.
func TestHostChaos(t *testing.T) {
	if *hostKills == 0 {
		t.Skip("it takes minutes: it runs from lane all on, or with -hostkills 200")
	}
	turn(t, worker, 360*time.Second)
	hostKilled(t, "host-chaos")
}

// hostKilled is what TestHostChaos shows, on a host and node of its own.
func hostKilled(t *testing.T, name string, options ...func(*remotehost.Config)) {
	s := newSSHNode(t, theCluster(t), name, options...)
	chaosOn(t, s.node, s.h.hostView).survives(t, *hostKills, s.dies, s.wellKept)
	s.h.empty(t)
}

// TestHostLinkBreaks does the same with the connections to the host cut and reset in place
// of burstlet killed.
func TestHostLinkBreaks(t *testing.T) {
	if *hostBreaks == 0 {
		t.Skip("it takes minutes: it runs from lane all on, or with -hostbreaks 200")
	}
	turn(t, worker, 420*time.Second)
	s := newSSHNode(t, theCluster(t), "host-breaks")
	chaosOn(t, s.node, s.h.hostView).survives(t, *hostBreaks, breaks(s.h.Link()), s.wellKept)
	s.h.empty(t)
}

// breaks has what happens to networks happen to a link: connections are reset, or carry
// nothing for a while, or none can be made. Of fifty one lasts longer than a connection that
// says nothing is kept.
func breaks(l *link.Link) func(*rand.Rand) {
	times := 0
	return func(random *rand.Rand) {
		defer l.Restore()
		length := time.Duration(random.Intn(2000)) * time.Millisecond
		if times++; times%50 == 25 {
			l.Cut()
			time.Sleep(unheard + 5*time.Second)
			return
		}
		switch random.Intn(4) {
		case 0:
			l.Cut()
			time.Sleep(length)
		case 1: // what was under way never arrives
			l.Cut()
			time.Sleep(length)
			l.Reset()
		case 2:
			l.Break()
			time.Sleep(length)
		default:
			l.Reset()
		}
	}
}

// chaos is three workloads on one host that change again and again: the Deployment of the
// rollout, a StatefulSet, and Jobs, each of whose pods may run once. Each container notes on
// the host which pod's it is before all else.
type chaos struct {
	rollout
	h *hostView
	// members and ofJob are the StatefulSet's size and that of each Job.
	members, ofJob int32
	// slow is how many times longer than elsewhere things take on the host.
	slow int
	jobs []string
}

// The workloads, as containers note them.
const (
	chaosWeb     = "web"
	chaosOrdered = "ordered"
	chaosJobs    = "job"
)

// noteDir is where containers note on the host that they run.
const noteDir = "/srv/notes"

func chaosOn(t *testing.T, n *node, h *hostView) *chaos {
	return &chaos{
		rollout: rollout{
			c: n.c, n: n, namespace: n.c.namespace(t, n.name), replicas: 10, token: true, change: noted(chaosWeb),
		},
		h: h, members: 3, ofJob: 8, slow: 1,
	}
}

// noted has a pod's container write the pod's UID, after the name of its workload, into
// a file of the host before it does anything else.
func noted(workload string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		c := &pod.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: "POD_UID", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"},
		}})
		note := fmt.Sprintf(`echo "%s $POD_UID" >>/notes/ran; exec "$0" "$@"`, workload)
		c.Command = append([]string{"sh", "-c", note}, c.Command...)
		mount("notes", hostPathOf(noteDir, corev1.HostPathDirectoryOrCreate))(pod)
	}
}

// survives disturbs the node so many times, the last of them while all is deleted, and checks
// what is promised. kept is called when all has come to rest.
func (x *chaos) survives(t *testing.T, times int, happens func(*rand.Rand), kept func(*testing.T)) {
	t.Helper()
	last := min(times/5, 10)
	x.begin(t)
	x.beginOrdered(t)
	x.n.disturbed(t, times-last, x.slow, func(i int) {
		x.changes(t, i)
		if i%2 == 1 {
			x.awaitStart(t)
		}
	}, happens)
	x.rests(t)
	kept(t)
	x.noneRanTwice(t)
	x.deletes(t)
	x.n.disturbed(t, last, x.slow, func(int) {}, happens)
	x.allGone(t)
	ran := x.noneRanTwice(t)
	t.Logf("disturbed %d times: containers of %d pods of the Deployment, %d of the StatefulSet and %d of %d Jobs ran",
		times, len(ran[chaosWeb]), len(ran[chaosOrdered]), len(ran[chaosJobs]), len(x.jobs))
}

// changes is what the users of the workloads do before disturbance i.
func (x *chaos) changes(t *testing.T, i int) {
	t.Helper()
	if i%10 == 0 {
		name := fmt.Sprint("job-", i)
		x.job(t, name, x.ofJob, noted(chaosJobs))
		x.jobs = append(x.jobs, name)
	}
	if i%8 == 2 {
		x.roll(t, i)
	}
	if i%8 == 3 {
		x.rollOrdered(t, i)
	}
}
