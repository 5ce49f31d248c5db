package doctor

import (
	"fmt"

	semver "k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/burstlet/burstlet/backend"
)

// Which API servers a node may join. It behaves as the kubelet whose version it
// shows, and Kubernetes' version skew policy holds for it: no kubelet may be newer
// than its API server, nor older by more than three minor versions
// (kubernetes.io/releases/version-skew-policy, kubelet).
const (
	// kubeletMayLag is how many minor versions the API server may be newer.
	kubeletMayLag = 3
	// oldestServer is the oldest minor version with which nothing is lost: one before
	// it drops restartPolicy from init containers, and sidecars would be waited for
	// for ever. The servers from it up to our own version are outside of the policy:
	// they drop only what a status says beyond their time.
	oldestServer = 29
	// oldestTried and newestTried are the minor versions of API servers that tests ran with
	// (docs/operations.md, "What was run with which API server").
	oldestTried, newestTried = 34, 37
)

// judgeServer says whether a kubelet of a version ("v1.36.3") may join an API server.
func judgeServer(kubelet string, server *apiversion.Info) backend.Finding {
	const what = "version"
	tried := fmt.Sprintf("1.%d to 1.%d were tried", oldestTried, newestTried)
	own, err := semver.ParseGeneric(kubelet)
	if err != nil {
		return backend.Bad(what, fmt.Sprintf("the node's own, %q, cannot be read", kubelet), "take a released burstlet")
	}
	theirs, err := semver.ParseGeneric(server.GitVersion)
	if err != nil {
		return backend.Doubtful(what, fmt.Sprintf("the API server calls its version %q", server.GitVersion),
			tried)
	}
	detail := fmt.Sprintf("the API server has %s, the node %s", server.GitVersion, kubelet)
	switch {
	case theirs.Major() != own.Major() || theirs.Minor() < oldestServer:
		return backend.Bad(what, detail,
			fmt.Sprintf("%s, and sidecars need at least 1.%d: upgrade the cluster", tried, oldestServer))
	case theirs.Minor() < own.Minor():
		return backend.Doubtful(what, detail,
			tried+": this server drops what it does not know of a pod's status; upgrade the cluster when you can")
	case theirs.Minor() > own.Minor()+kubeletMayLag:
		return backend.Doubtful(what, detail, tried+", and this server is too new for the node: take a newer burstlet")
	case theirs.Minor() > newestTried:
		return backend.Doubtful(
			what, detail, tried+": a kubelet may join this server too, but burstlet has not been run with it",
		)
	default:
		return backend.Good(what, detail)
	}
}
