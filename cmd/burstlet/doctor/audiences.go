package doctor

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/burstlet/burstlet/backend"
	"github.com/burstlet/burstlet/cmd/burstlet/credentialprovider"
)

// audienceVerb is what the API server wants of a node that requests a token for an audience
// which no volume of the token's pod names (admission plugin NodeRestriction).
const audienceVerb = "request-serviceaccounts-token-audience"

// audiences asks whether the node may request the tokens that credential provider plugins are
// given. A right to those of some ServiceAccounts alone is not found: so it only warns.
func (e *clusterExam) audiences(ctx context.Context, asNode bool) {
	const what = "tokens for plugins"
	if !hasCredentialProviders(e.cfg) {
		return
	}
	audiences, err := credentialprovider.Audiences(e.cfg.Images.CredentialProviderConfigFile)
	if err != nil {
		e.add(backend.Bad(what, err.Error(), "correct images.imageCredentialProviderConfigFile"))
		return
	}
	if !asNode || len(audiences) == 0 {
		return // NodeRestriction judges nodes alone
	}
	var questions []question
	for _, audience := range audiences {
		attributes := authorizationv1.ResourceAttributes{Verb: audienceVerb, Resource: audience, Version: "v1"}
		questions = append(questions, question{verb: audienceVerb, resource: audience, attributes: attributes})
	}
	if err := askRights(ctx, e.client, questions); err != nil {
		e.add(backend.Bad(what, err.Error(), ""))
		return
	}
	refused := 0
	for _, q := range questions {
		if q.allowed {
			continue
		}
		refused++
		e.add(backend.Doubtful(what, fmt.Sprintf(
			"%s may not request tokens for audience %q of every ServiceAccount: the plugin is not asked for pods of others, "+
				"unless a volume of theirs names it", e.user.name, q.resource),
			fmt.Sprintf("bind a ClusterRole with apiGroups: [\"\"], resources: [%q], verbs: [%s] to group system:nodes",
				q.resource, audienceVerb)))
	}
	if refused == 0 {
		e.add(backend.Good(what, fmt.Sprintf("%s may request them for the audiences %q", e.user.name, audiences)))
	}
}
