package doctor

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/access"
	"github.com/burstlet/burstlet/cmd/burstlet/config"
	"github.com/burstlet/burstlet/provider/identity"
	"github.com/burstlet/burstlet/provider/nodeuser"
)

const (
	// nearlyOver is how long before its end a certificate that nobody rotates is to be
	// replaced.
	nearlyOver = 30 * 24 * time.Hour

	serviceAccountUserPrefix = "system:serviceaccount:"
	bootstrapUserPrefix      = "system:bootstrap:"
	mastersGroup             = "system:masters"
)

// credential is what the node reaches the API server with.
type credential struct {
	rest *rest.Config
	// source says in words where it is from.
	source string
	// bootstrap is true of one with which the node's own is yet to be requested;
	// issued of one that the cluster issued that way, and that is rotated.
	bootstrap, issued bool
	// beneath impersonates the node, or is of the pod that doctor runs in; nil: there is none.
	beneath *rest.Config
}

// impersonate makes the credential act as the node.
func (c *credential) impersonate(ctx context.Context, node string) error {
	own, err := access.AsNode(ctx, c.rest, node)
	if err != nil {
		return err
	}
	c.beneath, c.rest = c.rest, own
	return nil
}

// findCredential finds what "burstlet run" would use, and requests nothing.
func findCredential(c config.Configuration) (credential, error) {
	var pod *rest.Config
	if !c.ImpersonateNode {
		var err error
		if pod, err = access.InPod(); err != nil {
			return credential{}, err
		}
	}
	if c.BootstrapKubeconfig == "" {
		found, err := access.Find(c.Kubeconfig)
		source := accessSource(c.Kubeconfig, found)
		if c.ImpersonateNode {
			source += ", which impersonates the node"
		}
		return credential{rest: found, source: source, beneath: pod}, err
	}
	found, err := access.Find(c.BootstrapKubeconfig)
	if err != nil {
		return credential{}, fmt.Errorf("bootstrapKubeconfig: %w", err)
	}
	cert, file, err := identity.KeptClient(c.CertDirectory, c.Node.Name)
	switch {
	case err != nil:
		return credential{}, fmt.Errorf("certDirectory: %w", err)
	case cert == nil || time.Now().After(cert.Leaf.NotAfter):
		return credential{rest: found, source: "bootstrap kubeconfig " + c.BootstrapKubeconfig, bootstrap: true}, nil
	}
	own := rest.AnonymousClientConfig(found)
	own.CertFile, own.KeyFile = file, file
	return credential{rest: own, source: "certificate " + file, issued: true, beneath: pod}, nil
}

// accessSource says where access.Find finds an access.
func accessSource(file string, found *rest.Config) string {
	env := os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	switch {
	case file != "":
		return "kubeconfig " + file
	case env != "":
		return "kubeconfig " + env + " ($" + clientcmd.RecommendedConfigPathEnvVar + ")"
	case found != nil && found.BearerTokenFile != "" && strings.HasPrefix(found.BearerTokenFile, "/var/run/secrets/"):
		return "this pod's ServiceAccount"
	default:
		return "kubeconfig " + clientcmd.RecommendedHomeFile
	}
}

// whoami is who the API server takes a credential for.
type whoami struct {
	name   string
	groups []string
}

// isNode is true of a node's own credential.
func (w whoami) isNode() bool {
	return strings.HasPrefix(w.name, nodeuser.Prefix) && slices.Contains(w.groups, nodeuser.Group)
}

// credentials says which credential it is, whose, and how long it is good.
func (e *clusterExam) credentials(ctx context.Context) {
	e.add(expiryFinding(e.cred, time.Now()))
	if e.cfg.ImpersonateNode && !e.impersonates(ctx) {
		return
	}
	review, err := e.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	switch {
	case apierrors.IsUnauthorized(err):
		e.add(backend.Bad("user", e.cred.source+" is not accepted by the API server",
			"it has expired, or is of another cluster: get another"))
		return
	case err != nil:
		e.add(backend.Bad("user", "the API server does not say who "+e.cred.source+" is: "+err.Error(), "see its log"))
		return
	}
	e.user = whoami{review.Status.UserInfo.Username, review.Status.UserInfo.Groups}
	e.add(userFinding(e.user, e.cred.bootstrap, e.cfg.Node.Name))
}

// impersonates makes the exam go on as the node.
func (e *clusterExam) impersonates(ctx context.Context) bool {
	err := e.cred.impersonate(ctx, e.cfg.Node.Name)
	if err == nil {
		e.client, err = kubernetes.NewForConfig(e.cred.rest)
	}
	if err != nil {
		e.add(backend.Bad("user", err.Error(), ""))
	}
	return err == nil
}

// userFinding judges whose credential it is.
func userFinding(user whoami, bootstrap bool, node string) backend.Finding {
	const what = "user"
	own := nodeuser.Name(node)
	prefer := "act as the node: set impersonateNode and apply " + fileServiceAccount + ", or let the cluster issue " +
		"the node's own credential (bootstrapKubeconfig, " + fileBootstrap + ")"
	switch {
	case user.name == own && user.isNode():
		return backend.Good(what, own+", the node's own")
	case user.isNode():
		return backend.Bad(what, user.name+", the credential of another node",
			"node.name must be "+strings.TrimPrefix(user.name, nodeuser.Prefix)+", or the credential that of "+own)
	case user.name == own:
		return backend.Bad(what, own+" without the group "+nodeuser.Group,
			"the certificate must have the organization "+nodeuser.Group)
	case user.name == "system:anonymous":
		return backend.Bad(what, "nobody: there is no credential", "put one into the kubeconfig")
	case bootstrap:
		return backend.Good(what, user.name+", which asks for the node's own credential when burstlet starts")
	case strings.HasPrefix(user.name, bootstrapUserPrefix):
		return backend.Bad(what, user.name+", a bootstrap token",
			"name its kubeconfig as bootstrapKubeconfig, not as kubeconfig")
	case slices.Contains(user.groups, mastersGroup):
		return backend.Doubtful(what, user.name+" in group "+mastersGroup+", who may do everything", prefer)
	case strings.HasPrefix(user.name, serviceAccountUserPrefix):
		namespace, name, _ := strings.Cut(strings.TrimPrefix(user.name, serviceAccountUserPrefix), ":")
		return backend.Doubtful(what, "ServiceAccount "+namespace+"/"+name+
			", whose rights RBAC cannot limit to the node's own pods and their Secrets", prefer)
	default:
		return backend.Doubtful(what, user.name+", neither the node's own nor a ServiceAccount", prefer)
	}
}

// expiryFinding says how long a credential is good.
func expiryFinding(c credential, now time.Time) backend.Finding {
	const what = "credential"
	kind, end, err := expiryOf(c.rest)
	rotated := c.issued || c.rest.BearerTokenFile != ""
	switch {
	case err != nil:
		return backend.Bad(what, c.source+": "+err.Error(), "get another, or let burstlet read it")
	case end.IsZero():
		return backend.Good(what, c.source+": "+kind)
	case now.After(end):
		return backend.Bad(what, fmt.Sprintf("%s: %s, which expired on %s", c.source, kind, stamp(end)), "get another")
	case !rotated && end.Sub(now) < nearlyOver && !c.bootstrap:
		return backend.Doubtful(what, fmt.Sprintf("%s: %s until %s, which nobody rotates", c.source, kind, stamp(end)),
			"replace it in time, or let the cluster issue one that is rotated (bootstrapKubeconfig)")
	case rotated:
		return backend.Good(what, fmt.Sprintf("%s: %s until %s, rotated", c.source, kind, stamp(end)))
	default:
		return backend.Good(what, fmt.Sprintf("%s: %s until %s", c.source, kind, stamp(end)))
	}
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// expiryOf says what kind of credential it is and when it ends; never, or unknown,
// is the zero time.
func expiryOf(c *rest.Config) (kind string, end time.Time, err error) {
	switch {
	case c.ExecProvider != nil:
		return "from the program " + c.ExecProvider.Command, time.Time{}, nil
	case c.AuthProvider != nil:
		return "from the provider " + c.AuthProvider.Name, time.Time{}, nil
	case len(c.CertData) > 0:
		end, err = certificateEnd(c.CertData)
		return "a client certificate", end, err
	case c.CertFile != "":
		data, err := os.ReadFile(c.CertFile)
		if err == nil {
			end, err = certificateEnd(data)
		}
		return "a client certificate", end, err
	case c.BearerTokenFile != "":
		data, err := os.ReadFile(c.BearerTokenFile)
		return "a token", tokenEnd(strings.TrimSpace(string(data))), err
	case c.BearerToken != "":
		return "a token", tokenEnd(c.BearerToken), nil
	case c.Username != "":
		return "a password", time.Time{}, nil
	default:
		return "none", time.Time{}, nil
	}
}

func certificateEnd(data []byte) (time.Time, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}, fmt.Errorf("read the client certificate: %w", err)
		}
		return cert.NotAfter, nil
	}
	return time.Time{}, errors.New("read the client certificate: no certificate in PEM found")
}

// tokenEnd is when a token ends that says so itself (a JWT); zero for others.
func tokenEnd(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}
