package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecs "github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/smithy-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/backend/ecs/awscall"
	"github.com/burstlet/burstlet/backend/ecs/clients"
	"github.com/burstlet/burstlet/backend/ecs/ecsconfig"
	"github.com/burstlet/burstlet/backend/ecs/taskdef"
)

// Config is what of a node's configuration is checked, with the fields that decide
// what its tasks are.
type Config struct {
	taskdef.Config

	// EventQueueURL is the SQS queue of task events; empty: none.
	EventQueueURL string
	// Capacity is what the node offers, which quotas are compared with.
	Capacity corev1.ResourceList
}

// doctor checks AWS for one node.
type doctor struct {
	cfg     Config
	clients clients.Clients
	query   querier
	// caller is the ARN of who we are, account where; cluster is its ARN.
	caller, account, cluster string
	// unchecked are what could not be checked for lack of rights that burstlet does not
	// need, with the right.
	unchecked []string
	found     []backend.Finding
}

func (d *doctor) add(f backend.Finding) { d.found = append(d.found, f) }

// Diagnose checks what a node on ECS needs: credentials, the cluster, permissions,
// roles, the network, quotas. It calls nothing but what reads, and takes nothing
// from queues. It stops where what follows cannot work. No finding holds a secret.
func Diagnose(ctx context.Context, cfg Config, c clients.Clients) []backend.Finding {
	d := &doctor{cfg: cfg, clients: c, query: newQuerier(cfg, c)}
	if !d.credentials(ctx) || !d.whoami(ctx) {
		return d.found
	}
	d.checkCluster(ctx)
	d.permissions(ctx)
	d.roles(ctx)
	d.network(ctx)
	d.quotas(ctx)
	d.prices()
	if len(d.unchecked) > 0 {
		d.add(backend.Doubtful("not looked at", strings.Join(d.unchecked, ", "),
			"burstlet does not need these rights; with them doctor looks"))
	}
	return d.found
}

// credentials finds out where the SDK has them from.
func (d *doctor) credentials(ctx context.Context) bool {
	const what, advice = "AWS credentials", "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " +
		"run burstlet with a role (IRSA, EKS Pod Identity, an instance profile)"
	if d.clients.Credentials == nil {
		d.add(backend.Bad(what, "none", advice))
		return false
	}
	found, err := d.clients.Credentials.Retrieve(ctx)
	if err != nil {
		d.add(backend.Bad(what, err.Error(), advice))
		return false
	}
	detail := "found by " + found.Source
	if found.CanExpire {
		detail += ", good until " + found.Expires.UTC().Format("2006-01-02 15:04 MST")
	}
	d.add(backend.Good(what, detail))
	return true
}

// whoami asks AWS whose credentials they are, and for the time.
func (d *doctor) whoami(ctx context.Context) bool {
	const what = "AWS caller"
	var out struct {
		ARN     string `xml:"GetCallerIdentityResult>Arn"`
		Account string `xml:"GetCallerIdentityResult>Account"`
	}
	reply, err := d.query.query(ctx, "sts", versionSTS, "GetCallerIdentity", url.Values{}, &out)
	if !reply.theirs.IsZero() {
		defer func() { d.add(skewFinding(reply)) }()
	}
	if err == nil && (out.ARN == "" || out.Account == "") {
		err = errors.New("the answer names nobody")
	}
	var api smithy.APIError
	switch {
	case errors.As(err, &api):
		d.add(backend.Bad(what, api.ErrorCode()+": "+api.ErrorMessage(),
			"the credentials have expired, are of another partition, or the clock is wrong: get others"))
		return false
	case err != nil:
		endpoint, _ := d.query.where("sts")
		d.add(backend.Bad(what, err.Error(), "this machine must reach "+endpoint+" (the internet, a proxy in "+
			"HTTPS_PROXY, or VPC endpoints): check the network and region"))
		return false
	}
	d.caller, d.account = out.ARN, out.Account
	if strings.HasSuffix(out.ARN, ":root") {
		d.add(backend.Doubtful(what, out.ARN+", who may do everything", "make a role with "+awscall.ControllerPolicy))
	} else {
		d.add(backend.Good(what, out.ARN))
	}
	name, _ := partition(d.cfg.Region)
	d.cluster = d.cfg.Cluster
	if !strings.HasPrefix(d.cluster, "arn:") {
		d.cluster = fmt.Sprintf("arn:%s:ecs:%s:%s:cluster/%s", name, d.cfg.Region, d.account, d.cfg.Cluster)
	}
	return true
}

func skewFinding(reply queryReply) backend.Finding {
	return backend.ClockOf(reply.theirs, reply.before, reply.after).Judge("AWS clock", "AWS's",
		"run an NTP client on this machine", "AWS refuses requests that are signed more than 5 minutes off")
}

// checkCluster asks for the cluster and its capacity providers.
func (d *doctor) checkCluster(ctx context.Context) {
	const what = "ECS cluster"
	out, err := d.clients.ECS.DescribeClusters(ctx, &awsecs.DescribeClustersInput{Clusters: []string{d.cfg.Cluster}})
	switch {
	case err != nil && isDeniedCall(err):
		d.add(d.lacks(permission{action: "ecs:DescribeClusters", resource: d.cluster}))
		return
	case err != nil:
		d.add(backend.Bad(what, plainError(err), "check region, and the network to ECS"))
		return
	case len(out.Clusters) == 0:
		d.add(backend.Bad(what,
			fmt.Sprintf("there is no %s in %s of account %s", d.cfg.Cluster, d.cfg.Region, d.account),
			"aws ecs create-cluster --region "+d.cfg.Region+" --cluster-name "+d.cfg.Cluster+", or set "+
				"backend.ecs.cluster and region"))
		return
	}
	c := out.Clusters[0]
	d.cluster = aws.ToString(c.ClusterArn)
	if s := aws.ToString(c.Status); s != "ACTIVE" {
		d.add(backend.Bad(what, d.cluster+" is "+s, "make another, or wait until it is ACTIVE"))
		return
	}
	d.add(backend.Good(what, d.cluster+" is ACTIVE"))
	if slices.Contains(d.cfg.CapacityTypes, ecsconfig.CapacitySpot) {
		if !slices.Contains(c.CapacityProviders, "FARGATE_SPOT") {
			d.add(backend.Bad("capacity", "capacityTypes has spot, and the cluster is not associated with FARGATE_SPOT",
				"aws ecs put-cluster-capacity-providers --cluster "+d.cfg.Cluster+" --capacity-providers "+
					"FARGATE FARGATE_SPOT --default-capacity-provider-strategy '[]'"))
			return
		}
		d.add(backend.Good("capacity", "the cluster is associated with FARGATE_SPOT"))
	}
}

// isDeniedCall is true where AWS knows the caller and does not let it.
func isDeniedCall(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	return strings.HasPrefix(api.ErrorCode(), "AccessDenied") || api.ErrorCode() == "UnauthorizedOperation" ||
		api.ErrorCode() == "NotAuthorized"
}

// plainError is AWS's own words, without ids of requests.
func plainError(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode() + ": " + api.ErrorMessage()
	}
	return err.Error()
}
